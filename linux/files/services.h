// What files need from the kernel besides the caller: time, and signals that no call of the caller's sends.
// The kernel implements these and outlives every file. Threads: the kernel's thread.
#pragma once

#include <signal.h>
#include <time.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "linux/files/wait_queue.h"

namespace membrane::linux {

class Timers {
 public:
  virtual ~Timers() = default;
  [[nodiscard]] virtual timespec now(int clock) const = 0;  // CLOCK_REALTIME, CLOCK_MONOTONIC
  // The clock that the times of at() refer to.
  [[nodiscard]] virtual std::chrono::steady_clock::time_point steady_now() const = 0;
  // Calls `act` at that time, in the kernel's loop, unless `alive` has expired by then.
  virtual void at(std::chrono::steady_clock::time_point time, std::weak_ptr<void> alive,
                  std::function<void()> act) = 0;
};

// Process groups and sessions.
class Jobs {
 public:
  virtual ~Jobs() = default;
  virtual void signal_group(int group, int signal) = 0;
  virtual void signal_process(int process, int signal) = 0;
  // Removes the controlling terminal of the session's processes.
  virtual void lose_terminal(int session) = 0;
};

// Pending signals of the task whose call is being handled, for signalfd.
class Signals {
 public:
  virtual ~Signals() = default;
  // `set`: bit N-1 for signal N. Signals pending for the task's process count too.
  [[nodiscard]] virtual bool has_pending(uint64_t set) = 0;
  virtual std::optional<siginfo_t> take_pending(uint64_t set) = 0;
  // The queue that is woken when a signal becomes pending for the task, blocked or not.
  virtual WaitQueue* arrivals() = 0;  // nullptr when no call is being handled
};

}  // namespace membrane::linux
