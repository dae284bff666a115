// The kernel of one sandbox: its processes, files and clock, and the loop that answers their system calls. Everything is
// one thread's; what comes from outside (input, the end of a wait, an order to stop) comes by Platform::wake().
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "linux/abi/entropy.h"
#include "linux/abi/limits_reached.h"
#include "linux/files/services.h"
#include "linux/fs/paths.h"
#include "linux/kernel/guest_clock.h"
#include "linux/kernel/shared_memory.h"
#include "linux/kernel/task.h"
#include "linux/platform/platform.h"

namespace membrane::linux {

struct KernelLimits {
  int most_tasks = 256;  // threads of all processes
  // Of all processes: what they have written, shared memory and memory files, the tables that map it, and what this kernel has
  // for them: what lies in pipes and sockets, lists of mappings, open files, copies of granted files.
  uint64_t memory_bytes = 2u << 30;
  int most_files = 16384;  // descriptions of all processes
  // That processes use of the processors together, whatever clock they see. When it is over they end, and none begins.
  std::optional<std::chrono::nanoseconds> cpu = {};
};

struct KernelOptions {
  std::unique_ptr<Platform> platform;
  NodeRef root;
  KernelLimits limits;
  std::string host_name = "membrane";
  // Under a virtual clock one guest thread runs at a time, until it makes a call or has run for longer than any program does
  // without one; so what guests do depends on nothing but themselves.
  std::shared_ptr<GuestClock> clock = std::make_shared<GuestClock>();
  std::shared_ptr<Entropy> entropy = std::make_shared<Entropy>();
};

class SocketSpace;         // linux/files/socket_end.h
class Vdso;                // linux/kernel/vdso.h
class Watches;             // linux/files/inotify.h
struct SystemDirectories;  // linux/proc/mounts.h
struct SystemV;            // linux/kernel/system_v.h

class Kernel final : public Timers, public Jobs, public Signals {
 public:
  explicit Kernel(KernelOptions options);
  ~Kernel() override;

  struct Start {
    std::vector<std::string> arguments;  // the first is found by PATH
    std::vector<std::string> environment;
    std::string directory = "/";
    Credentials credentials = {};
    FileRef input, output, errors;  // descriptors 0, 1, 2
    FileRef terminal = nullptr;     // the controlling terminal, when they are one
  };
  // A new process without a parent, a leader of its session. Errors: those of execve().
  Try<int> start(const Start& start);
  // Until the process has ended; its wait status.
  int run(int process);
  // Answers as long as that is so, also while there is no process. It is asked before each wait.
  void run_while(const std::function<bool()>& goes_on);
  // From any thread: every process is killed, and run() ends.
  void stop();

  // Between the two no guest runs and no timer fires; all else works. Every thread stops between two of its instructions; one that does
  // not is killed with its process.
  void freeze();
  void thaw();
  [[nodiscard]] bool is_frozen() const { return is_frozen_; }

  // -- for handlers
  Mounts mounts;
  LocationRef root;
  std::shared_ptr<SystemDirectories>
      system;  // what is mounted on /proc, /sys and /dev; it outlives the processes
  // Made when they are first needed.
  std::shared_ptr<Watches> watches;
  std::shared_ptr<SocketSpace> sockets;
  std::shared_ptr<Vdso> vdso;
  NodeRef memory_files;  // what memfd_create() makes files in
  SharedMemories shared_memories;
  std::shared_ptr<uint64_t> granted_copies = std::make_shared<uint64_t>(0);  // bytes (linux/granted/)
  std::string host_name, domain_name = "(none)";                             // sethostname(), setdomainname()
  std::shared_ptr<SystemV> system_v;
  [[nodiscard]] timespec now(int clock) const override { return options_.clock->read(clock); }
  [[nodiscard]] GuestClock::Time steady_now() const override { return options_.clock->now(); }
  NodeRef& made_memory_files();  // the same, made now if there is none
  Entropy& entropy() { return *options_.entropy; }
  [[nodiscard]] Process* process_of(int id);
  [[nodiscard]] Task* task_of(int id);
  [[nodiscard]] const std::map<int, std::unique_ptr<Process>>& processes() const { return processes_; }
  Platform& platform() { return *options_.platform; }
  [[nodiscard]] const KernelOptions& options() const { return options_; }
  // Called at the time, in the loop, unless `alive` is gone.
  void at(GuestClock::Time time, std::weak_ptr<void> alive, std::function<void()> act) override;
  void signal_group(int group, int signal) override;
  void signal_process(int process, int signal) override;
  void lose_terminal(int session) override;
  bool has_pending(uint64_t set) override;
  std::optional<siginfo_t> take_pending(uint64_t set) override;
  WaitQueue* arrivals() override { return current_ == nullptr ? nullptr : &current_->signal_queue; }
  void make_ready(Task& task);  // its call is asked again
  // Of tasks: a new one of a process, with its id; one that ends, or all of a process, with the status of wait4().
  Try<int> take_id();
  Process& add_process(int id, Process* parent);
  Task& add_task(Process& process, int id, std::unique_ptr<Thread> thread);
  void end_task(Task& task, int status);
  void end_process(Process& process, int status);
  void rename(Task& task, int id);    // the program's thread has the id of its process
  void let_go_of_parent(Task& task);  // the task has a memory of its own now
  void forget(Process& process);      // a zombie that was waited for
  // A stopped process and its tasks.
  void stop_process(Process& process, int signal);
  void continue_process(Process& process);
  // It is asked again at the deadline that it waits for.
  void arm_deadline(Task& task);
  // To the guest, or to the next signal: `task` has its answer.
  void go_on(Task& task);
  std::map<FutexKey, std::deque<int>> futexes;  // the tasks that wait, by id
  [[nodiscard]] uint64_t memory_peak_bytes() const { return memory_peak_bytes_; }
  [[nodiscard]] bool was_out_of_memory() const { return was_out_of_memory_; }
  // Since the beginning; of disk, that of the root's tree.
  [[nodiscard]] LimitsReached limits_reached() const;
  // Called in the loop after each Platform::wake(): looks at what came from outside.
  std::function<void()> on_outside;
  // A process that start() made has ended; it is forgotten then. Without this it stays until the kernel's end.
  std::function<void(Process&)> on_end;
  void kill_session(int session);
  [[nodiscard]] uint64_t memory_bytes() const { return memory_bytes_; }  // when it was counted last
  // Asked by calls that may take long, for each piece of `moved` bytes: whether this one is to end with what it has done, since a limit
  // was reached. The loop looks at limits between calls only.
  [[nodiscard]] bool ends_call(size_t moved);
  [[nodiscard]] Task* current() const { return current_; }
  [[nodiscard]] int tasks() const { return tasks_; }
  [[nodiscard]] int last_id() const { return last_id_; }
  std::map<std::string, uint64_t> absent_calls;  // by name: how often
  // Asked when guests wait for a time on a virtual clock: whether something may still come from outside, and be earlier. Null: no.
  std::function<bool()> expects_outside;
  // Under a virtual clock: how often a thread was stopped between two instructions of its own, so that others run. Where in its
  // work that is depends on the machine.
  [[nodiscard]] uint64_t preemptions() const { return preemptions_; }

 private:
  friend class KernelState;  // linux/kept/kernel_state.h
  struct Impl;
  KernelOptions options_;
  void hold(Thread& thread);
  [[nodiscard]] bool runs(const Task& task) const;
  void run_ready();
  void look_at(Thread& thread);
  void ask(Task& task);
  void ask_again(Task& task);
  void restart(Task& task);
  void tell_parent(Process& process);
  void do_due();
  void run_next();
  void run_task(Task& task);
  void tell_identity(Task& task);
  [[nodiscard]] Thread* wait_for_guests();
  bool answer_time_stamp(Task& task);
  void end_all();
  void watch_memory();
  Process* count_memory();  // the one that has most; nullptr: there is none
  [[nodiscard]] uint64_t own_bytes();
  [[nodiscard]] bool is_cpu_used_up() const;
  void watch_cpu();
  void adopt_children(Process& process);
  void hang_up_session(Process& leader);
  [[nodiscard]] bool restarts_after_signal(const Task& task) const;
  void close_all(Task& task, const std::vector<FileRef>& files);

  std::map<int, std::unique_ptr<Process>> processes_;
  std::map<int, Task*> tasks_by_id_;
  std::shared_ptr<Impl> impl_;
  Task* current_ = nullptr;
  int tasks_ = 0, zombies_ = 0, last_id_ = 0;
  uint64_t preemptions_ = 0;
  uint64_t memory_bytes_ = 0, memory_peak_bytes_ = 0;
  const uint64_t heap_before_;  // of this process, when the kernel was made
  bool was_out_of_memory_ = false;
  size_t moved_ = 0;  // by this call, since limits were looked at
  bool is_asking_ = false, ends_call_ = false;
  bool is_frozen_ = false;
  LimitsReached reached_;                          // but for disk
  std::chrono::nanoseconds cpu_of_ended_tasks_{};  // counted where there is a limit of it
};

}  // namespace membrane::linux
