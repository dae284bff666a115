// The clocks of a sandbox: those of the host, or a virtual one that only advances by what guests do. Under a
// virtual clock the same program reads the same times in every run.
//
// Deadlines are points of now(). The kernel reports events to a virtual clock; a host clock ignores them.
//
// Threads: the kernel's thread.
#pragma once

#include <time.h>

#include <chrono>
#include <cstdint>
#include <optional>

namespace membrane::linux {

class GuestClock {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::nanoseconds kCall{1000};  // the duration of a system call on a virtual clock

  GuestClock() = default;                                         // the host's
  explicit GuestClock(int64_t start_ms) : start_ms_(start_ms) {}  // a virtual clock; milliseconds since 1970
  [[nodiscard]] std::optional<int64_t> start_ms() const { return start_ms_; }
  [[nodiscard]] bool is_virtual() const { return start_ms_.has_value(); }

  [[nodiscard]] Time now() const;
  // CLOCK_REALTIME, CLOCK_MONOTONIC and similar clocks.
  [[nodiscard]] timespec read(int clock) const;

  // A guest has made a system call.
  void count_call() { passed_ += kCall; }
  // Advances a virtual clock: nothing happens until then.
  void pass_until(Time time);
  // How much time has passed on a virtual clock.
  [[nodiscard]] std::chrono::nanoseconds passed() const { return passed_; }
  // A restored sandbox continues from when it was kept: now() becomes `then`. The host's realtime clock is
  // not affected.
  void go_on_from(Time then);
  // How far the clocks that only count time are ahead of the host's.
  [[nodiscard]] std::chrono::nanoseconds ahead() const { return ahead_; }
  // The corresponding time of the host's clock, for waiting.
  [[nodiscard]] Time host_time(Time time) const { return time - ahead_; }

 private:
  std::optional<int64_t> start_ms_;
  std::chrono::nanoseconds ahead_{0};
  std::chrono::nanoseconds passed_{std::chrono::seconds(1)};  // like a machine that has just booted
};

}  // namespace membrane::linux
