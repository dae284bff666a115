#include "linux/kernel/guest_clock.h"

#include <algorithm>

namespace membrane::linux {

GuestClock::Time GuestClock::now() const {
  return is_virtual() ? Time(passed_) : std::chrono::steady_clock::now() + ahead_;
}

void GuestClock::go_on_from(Time then) {
  if (is_virtual()) passed_ = then.time_since_epoch();
  else ahead_ = then - std::chrono::steady_clock::now();
}

timespec GuestClock::read(int clock) const {
  constexpr int64_t kSecond = 1'000'000'000;
  const bool is_of_day = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI;
  timespec time = {};
  if (!is_virtual()) {
    clock_gettime(clock, &time);
    if (is_of_day || ahead_.count() == 0) return time;
    const int64_t ns = time.tv_sec * kSecond + time.tv_nsec + ahead_.count();
    return {.tv_sec = ns / kSecond, .tv_nsec = ns % kSecond};
  }
  const int64_t passed = passed_.count();
  const int64_t seconds = is_of_day ? *start_ms_ / 1000 : 0;
  const int64_t rest = passed + (is_of_day ? *start_ms_ % 1000 * 1'000'000 : 0);
  return {.tv_sec = seconds + rest / kSecond, .tv_nsec = rest % kSecond};
}

void GuestClock::pass_until(Time time) {
  passed_ = std::max(passed_, std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()));
}

}  // namespace membrane::linux
