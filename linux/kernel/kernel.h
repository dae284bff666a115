// The kernel of one sandbox: its processes, files and clock, and the loop that answers their system calls.
// Everything belongs to one thread; Platform::wake() tells it of events from outside (input, the end of a
// wait, an order to stop).
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
  // The limit for all processes: the memory they have written, shared memory and memory files, the page
  // tables for them, and what this kernel allocates for them: the contents of pipes and sockets, lists of
  // mappings, open files, copies of granted files.
  uint64_t memory_bytes = 2u << 30;
  int most_files = 16384;  // open file descriptions of all processes
  // The CPU time of all processes together, whatever clock they see. When it is used up they end, and none
  // can start.
  std::optional<std::chrono::nanoseconds> cpu = {};
};

struct KernelOptions {
  std::unique_ptr<Platform> platform;
  NodeRef root;
  KernelLimits limits;
  std::string host_name = "membrane";
  // Under a virtual clock one guest thread runs at a time, until it makes a call or has run for longer than
  // any program does without one; so guests depend on nothing but themselves.
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
    std::vector<std::string> arguments;  // the first is searched in PATH
    std::vector<std::string> environment;
    std::string directory = "/";
    Credentials credentials = {};
    FileRef input, output, errors;  // descriptors 0, 1, 2
    FileRef terminal = nullptr;     // the controlling terminal, if they are one
  };
  // Starts a process without a parent, which leads a session. Errors: those of execve().
  Try<int> start(const Start& start);
  // Runs until the process has ended; returns its wait status.
  int run(int process);
  // Answers calls as long as the predicate holds, even while there is no process. The predicate is checked
  // before each wait.
  void run_while(const std::function<bool()>& goes_on);
  // From any thread: kills every process, and run() returns.
  void stop();

  // Between the two no guest runs and no timer fires; everything else works. Every thread stops between two
  // of its instructions; one that does not stop is killed with its process.
  void freeze();
  void thaw();
  [[nodiscard]] bool is_frozen() const { return is_frozen_; }

  // -- for handlers
  Mounts mounts;
  LocationRef root;
  std::shared_ptr<SystemDirectories> system;  // the mounts of /proc, /sys and /dev; outlives the processes
  // Created on first use.
  std::shared_ptr<Watches> watches;
  std::shared_ptr<SocketSpace> sockets;
  std::shared_ptr<Vdso> vdso;
  NodeRef memory_files;  // the file system of memfd_create()
  SharedMemories shared_memories;
  std::shared_ptr<uint64_t> granted_copies = std::make_shared<uint64_t>(0);  // bytes (linux/granted/)
  std::string host_name, domain_name = "(none)";                             // sethostname(), setdomainname()
  std::shared_ptr<SystemV> system_v;
  [[nodiscard]] timespec now(int clock) const override { return options_.clock->read(clock); }
  [[nodiscard]] GuestClock::Time steady_now() const override { return options_.clock->now(); }
  NodeRef& made_memory_files();  // the same, created if necessary
  Entropy& entropy() { return *options_.entropy; }
  [[nodiscard]] Process* process_of(int id);
  [[nodiscard]] Task* task_of(int id);
  [[nodiscard]] const std::map<int, std::unique_ptr<Process>>& processes() const { return processes_; }
  Platform& platform() { return *options_.platform; }
  [[nodiscard]] const KernelOptions& options() const { return options_; }
  // Calls it at that time, in the loop, unless `alive` has expired.
  void at(GuestClock::Time time, std::weak_ptr<void> alive, std::function<void()> act) override;
  void signal_group(int group, int signal) override;
  void signal_process(int process, int signal) override;
  void lose_terminal(int session) override;
  bool has_pending(uint64_t set) override;
  std::optional<siginfo_t> take_pending(uint64_t set) override;
  WaitQueue* arrivals() override { return current_ == nullptr ? nullptr : &current_->signal_queue; }
  void make_ready(Task& task);  // its call is retried
  // Of tasks: a new one of a process, with its id; one that ends, or all of a process, with the status of wait4().
  Try<int> take_id();
  Process& add_process(int id, Process* parent);
  Task& add_task(Process& process, int id, std::unique_ptr<Thread> thread);
  void end_task(Task& task, int status);
  void end_process(Process& process, int status);
  void rename(Task& task, int id);    // the executing thread takes the id of its process
  void let_go_of_parent(Task& task);  // the task now has its own memory
  void forget(Process& process);      // removes a zombie that was waited for
  // Stops or continues a process and its tasks.
  void stop_process(Process& process, int signal);
  void continue_process(Process& process);
  // Sets a timer to retry the task's call at the deadline that it waits for.
  void arm_deadline(Task& task);
  // Resumes the guest, or delivers its next signal: `task` has its answer.
  void go_on(Task& task);
  std::map<FutexKey, std::deque<int>> futexes;  // waiting tasks, by id
  [[nodiscard]] uint64_t memory_peak_bytes() const { return memory_peak_bytes_; }
  [[nodiscard]] bool was_out_of_memory() const { return was_out_of_memory_; }
  // Counted since the beginning; the disk count is that of the root's tree.
  [[nodiscard]] LimitsReached limits_reached() const;
  // Called in the loop after each Platform::wake() to handle events from outside.
  std::function<void()> on_outside;
  // Called when a process from start() has ended, which is then forgotten. Without a callback the process
  // stays until the kernel ends.
  std::function<void(Process&)> on_end;
  void kill_session(int session);
  [[nodiscard]] uint64_t memory_bytes() const { return memory_bytes_; }  // as last counted
  // Called by long system calls for each piece of `moved` bytes: whether the call should end with what it has
  // done, because a limit was reached. The loop checks limits only between calls.
  [[nodiscard]] bool ends_call(size_t moved);
  [[nodiscard]] Task* current() const { return current_; }
  [[nodiscard]] int tasks() const { return tasks_; }
  [[nodiscard]] int last_id() const { return last_id_; }
  std::map<std::string, uint64_t> absent_calls;  // by name: number of calls
  // Called when guests wait for a time on a virtual clock: whether an earlier event may still come from
  // outside. Null: no.
  std::function<bool()> expects_outside;
  // Under a virtual clock: how often a thread was stopped between two of its own instructions so that others
  // could run. Where that happens depends on the machine.
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
  Process* count_memory();  // the largest process; nullptr: none
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
  const uint64_t heap_before_;  // of this process, at the kernel's creation
  bool was_out_of_memory_ = false;
  size_t moved_ = 0;  // by this call, since limits were checked
  bool is_asking_ = false, ends_call_ = false;
  bool is_frozen_ = false;
  LimitsReached reached_;                          // but for disk
  std::chrono::nanoseconds cpu_of_ended_tasks_{};  // counted if there is a limit
};

}  // namespace membrane::linux
