// timerfd: a timer that is read as a file. Threads: the kernel's thread.
#pragma once

#include <chrono>
#include <optional>

#include "linux/files/file.h"
#include "linux/files/services.h"

namespace membrane::linux {

class TimerFile final : public File {
 public:
  [[nodiscard]] const NodeRef& node() const override { return node_; }
  [[nodiscard]] std::string description() const override { return "anon_inode:[timerfd]"; }
  // Reads how often it has expired since it was set or read. Errors: EAGAIN when it has not; EINVAL for fewer
  // than 8 bytes.
  Try<size_t> read(Caller& caller, Buffer& to) override;
  short ready() override;
  void join(Waiter& waiter) override { waiter.join(expired_); }
  bool can_poll() override { return true; }

  // timerfd_settime(), which returns the previous setting, and timerfd_gettime(). `flags`: TFD_TIMER_ABSTIME,
  // TFD_TIMER_CANCEL_ON_SET (the guest's clock is never set, so nothing is ever cancelled). Errors: EINVAL.
  Try<itimerspec> set(int flags, const itimerspec& to);
  [[nodiscard]] itimerspec get();

 private:
  friend class FileState;                  // linux/kept/file_state.h
  using Nanos = std::chrono::nanoseconds;  // of clock_
  friend Try<std::shared_ptr<TimerFile>> make_timer_file(Timers& timers, int clock, int flags);
  TimerFile(Timers& timers, int clock, NodeRef node);
  [[nodiscard]] Nanos now() const;
  void count_expirations();
  void arm();
  Timers& timers_;
  const int clock_;
  const NodeRef node_;
  std::optional<Nanos> next_;
  Nanos interval_{0};
  uint64_t count_ = 0;
  std::shared_ptr<void> alive_;  // the kernel's timer expires with it
  WaitQueue expired_;
};

// `timers` outlives the file. `flags`: TFD_NONBLOCK, TFD_CLOEXEC (which is the descriptor's). Errors: EINVAL for others, and for a
// clock but CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_BOOTTIME and their alarms.
Try<std::shared_ptr<TimerFile>> make_timer_file(Timers& timers, int clock, int flags);

}  // namespace membrane::linux
