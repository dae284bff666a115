// Processes and threads as the kernel sees them. Plain data with few functions: the functions that act on it
// are in the file of their subject (signals.h, exec.h, memory.h, calls_*.cc).
//
//   Session 1─* group 1─* Process 1─* Task ─1 platform Thread
//   Process ─1 Memory, Descriptors, Place     shared after clone() with CLONE_VM, CLONE_FILES, CLONE_FS
#pragma once

#include <signal.h>
#include <sys/resource.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "linux/files/descriptors.h"
#include "linux/files/file.h"
#include "linux/fs/paths.h"
#include "linux/kernel/capabilities.h"
#include "linux/platform/platform.h"

namespace membrane::linux {

class Kernel;
class Memory;
struct ProcessEnd;  // linux/files/process_file.h
struct Process;

using SignalSet = uint64_t;  // bit N-1 for signal N
constexpr SignalSet bit_of(int signal) { return uint64_t{1} << (signal - 1); }

// As the guest's kernel_sigaction has it.
struct SignalAction {
  uint64_t handler = 0, flags = 0, restorer = 0;
  SignalSet mask = 0;
};

struct PendingSignal {
  int number = 0;
  siginfo_t info = {};
};

struct PendingSignals {
  std::deque<PendingSignal> queue;
  [[nodiscard]] SignalSet set() const;
};

struct SignalStack {
  uint64_t base = 0, size = 0;
  int flags = SS_DISABLE;
};

// The kernel's state of a waiting call.
struct Waiting {
  bool is_again = false;      // the call has waited and is retried
  bool is_interrupt = false;  // OnSignal::kInterrupt
  std::optional<std::chrono::steady_clock::time_point> deadline;
  uint64_t kept = 0;
  std::shared_ptr<File> file;  // the file of an incomplete open() (file.h)
  uint64_t rest_at = 0;        // where nanosleep() stores the remaining time on a signal; 0: nowhere
  SignalSet saved_mask = 0;    // for sigsuspend, ppoll, pselect, epoll_pwait: restored after the call
  bool has_saved_mask = false;
};

// CPU time: `user` covers the guest's own instructions, faults and traps; `system` is the kernel's work for
// it.
struct CpuTime {
  std::chrono::nanoseconds user{0}, system{0};
  CpuTime& operator+=(const CpuTime& more) {
    user += more.user;
    system += more.system;
    return *this;
  }
  [[nodiscard]] std::chrono::nanoseconds total() const { return user + system; }
};

// The identity of a futex (futexes.h).
struct FutexKey {
  const void* memory = nullptr;
  uint64_t offset = 0;
  auto operator<=>(const FutexKey&) const = default;
};

enum class TaskState : uint8_t { kRunning, kWaiting, kDead };

// A thread of a guest process.
struct Task final : Waiter, Caller {
  int id = 0;
  Process* process = nullptr;
  Kernel* kernel = nullptr;
  std::unique_ptr<Thread> thread;
  TaskState state = TaskState::kRunning;
  std::string name;  // comm, 15 bytes at most

  SignalSet blocked = 0;
  PendingSignals pending;
  WaitQueue signal_queue;  // woken when a signal is pending for it, blocked or not: sigtimedwait(), signalfd
  SignalStack signal_stack;
  uint64_t processors = 3;  // sched_setaffinity()
  int policy = 0;           // sched_setscheduler(); has no effect
  uint64_t clear_child_tid = 0, robust_list = 0;
  int vfork_parent = 0;  // the task that waits until this one has another memory; 0: none

  std::optional<FutexKey> futex;  // that it waits on
  uint32_t futex_bits = 0;
  bool is_futex_woken = false;

  CpuTime used_before;  // without what its thread has used (cpu_time.h)

  Waiting waiting;
  uint64_t call_number = 0;  // of the current call
  std::array<uint64_t, 6> arguments = {};
  bool call_keeps_bytes = false;         // on a signal it returns waiting.kept, the bytes moved so far
  std::shared_ptr<void> deadline_alive;  // the timer of waiting.deadline expires with it
  bool waits_for_vfork = false;
  bool is_ready = false;   // in the kernel's list of calls to retry
  bool is_queued = false;  // runs in its turn (KernelOptions::clock)
  bool is_parked = false;  // runnable, but its process is stopped or it waits for a vfork() child
  bool is_held = false;    // stopped while the kernel is frozen; handled when it thaws

  // Caller
  [[nodiscard]] const Credentials& credentials() const override;
  [[nodiscard]] int process_id() const override;
  [[nodiscard]] int process_group() const override;
  [[nodiscard]] int session() const override;
  Done read_memory(uint64_t address, std::span<std::byte> bytes) override;
  Done write_memory(uint64_t address, std::span<const std::byte> bytes) override;
  void signal_group(int group, int signal) override;
  void signal_self(int signal) override;
  bool ignores(int signal) override;
  bool is_orphaned() override;
  int session_of_group(int group) override;
  FileRef terminal() override;
  void set_terminal(const FileRef& terminal) override;
  uint64_t file_size_limit() override;
  // Waiter
  void on_wake() override;
};

struct IntervalTimer {
  std::optional<std::chrono::steady_clock::time_point> next;
  std::chrono::nanoseconds interval{0};
  std::shared_ptr<void> alive;  // the kernel's timer ends with it
};

// timer_create(): signals at times (calls_timers.cc).
struct PosixTimer {
  int clock = 0;
  int signal = 0;  // 0: none is sent
  int task = 0;    // the receiver; 0: the process
  uint64_t value = 0;
  std::optional<std::chrono::steady_clock::time_point> next;
  std::chrono::nanoseconds interval{0};
  int overrun = 0;              // expirations while the last signal was pending
  std::shared_ptr<void> alive;  // the kernel's timer expires with it; none while the signal is pending
};

struct Process {
  int id = 0;                 // the id of its first task
  Process* parent = nullptr;  // nullptr for the first process
  int group = 0, session = 0;
  std::shared_ptr<File> terminal;  // the session's controlling terminal
  std::list<std::unique_ptr<Task>> tasks;
  std::vector<Process*> children;
  int exit_signal = SIGCHLD;
  CpuTime of_ended_tasks, of_children;  // children that were waited for, and their descendants

  std::shared_ptr<Memory> memory;
  std::shared_ptr<Descriptors> descriptors;
  std::shared_ptr<Place> place;  // root, working directory, umask
  Credentials credentials;
  Capabilities capabilities;
  std::array<SignalAction, 65> actions = {};  // by number
  PendingSignals pending;
  std::array<rlimit, RLIM_NLIMITS> limits = {};
  IntervalTimer real_timer, virtual_timer, profile_timer;  // the last two in CPU time
  std::map<int, PosixTimer> timers;
  std::map<std::pair<int, uint16_t>, int>
      semaphore_undo;  // SEM_UNDO: by set and semaphore, the adjustment at its end

  std::string executable;              // its path
  std::vector<std::string> arguments;  // as started, for /proc
  LocationRef executable_at;           // the path by which it was found
  bool has_executed = false;           // since the fork (for setpgid)

  // Its end or its stop, until someone waits for it.
  bool is_zombie = false;
  bool is_from_outside = false;  // Kernel::start() made it
  bool was_out_of_memory = false;
  int status = 0;  // in wait4()'s format
  bool is_stopped = false, tells_stop = false, tells_continue = false;
  bool is_dumpable = true;
  bool has_no_new_privileges = false;
  bool is_secure = false;  // its program gained rights
  int death_signal = 0;
  bool is_subreaper = false;
  WaitQueue child_changed;  // of its children
  int nice = 0;
  std::shared_ptr<ProcessEnd> end;  // for its pidfds; created with the first
  std::chrono::steady_clock::time_point started;
};

}  // namespace membrane::linux
