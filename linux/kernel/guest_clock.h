// The clocks of a sandbox: those of the host, or a virtual one, on which time passes only by what guests do. Under a virtual clock
// the same program reads the same times in every run.
//
// Deadlines are points of now(). The kernel tells a virtual clock what has happened; a host's clock does not listen.
//
// Threads: the kernel's one.
#pragma once

#include <time.h>

#include <chrono>
#include <cstdint>
#include <optional>

namespace membrane::linux {

class GuestClock {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::nanoseconds kCall{1000};  // that a system call takes, on a virtual clock

  GuestClock() = default;                                         // the host's
  explicit GuestClock(int64_t start_ms) : start_ms_(start_ms) {}  // a virtual one; milliseconds since 1970
  [[nodiscard]] bool is_virtual() const { return start_ms_.has_value(); }

  [[nodiscard]] Time now() const;
  // CLOCK_REALTIME, CLOCK_MONOTONIC and those that are like them.
  [[nodiscard]] timespec read(int clock) const;

  // A guest has made a system call.
  void count_call() { passed_ += kCall; }
  // Nothing happens until then.
  void pass_until(Time time);
  // How much time has passed on a virtual clock, and to go on from there.
  [[nodiscard]] std::chrono::nanoseconds passed() const { return passed_; }
  void set_passed(std::chrono::nanoseconds passed) { passed_ = passed; }

 private:
  std::optional<int64_t> start_ms_;
  std::chrono::nanoseconds passed_{std::chrono::seconds(1)};  // a machine that has just started
};

}  // namespace membrane::linux
