#include "linux/kernel/guest_clock.h"

#include <gtest/gtest.h>

namespace membrane::linux {
namespace {

using std::chrono::nanoseconds;
using std::chrono::seconds;

int64_t ns_of(const timespec& time) { return time.tv_sec * 1'000'000'000 + time.tv_nsec; }

TEST(GuestClockTest, TimePassesOnlyByWhatGuestsDo) {
  GuestClock clock(1'500);
  EXPECT_TRUE(clock.is_virtual());
  const GuestClock::Time begin = clock.now();
  EXPECT_EQ(clock.now(), begin);
  clock.count_call();
  EXPECT_EQ(clock.now() - begin, GuestClock::kCall);
  clock.pass_until(begin + seconds(100));
  EXPECT_EQ(clock.now() - begin, seconds(100));
  clock.pass_until(begin);
  EXPECT_EQ(clock.now() - begin, seconds(100));
}

TEST(GuestClockTest, TheTimeOfDayStartsAtTheGivenTime) {
  const GuestClock clock(1'500);
  const int64_t up = ns_of(clock.read(CLOCK_MONOTONIC));
  EXPECT_EQ(ns_of(clock.read(CLOCK_REALTIME)), up + 1'500'000'000);
  EXPECT_EQ(ns_of(clock.read(CLOCK_REALTIME_COARSE)), up + 1'500'000'000);
  EXPECT_EQ(ns_of(clock.read(CLOCK_BOOTTIME)), up);
}

TEST(GuestClockTest, ContinuesFromItsTime) {
  GuestClock clock(0);
  clock.pass_until(clock.now() + seconds(5));
  GuestClock other(0);
  other.go_on_from(clock.now());
  EXPECT_EQ(other.now(), clock.now());
}

TEST(GuestClockTest, TheHostsDoesNotListen) {
  GuestClock clock;
  EXPECT_FALSE(clock.is_virtual());
  const auto before = std::chrono::steady_clock::now();
  clock.pass_until(before + seconds(1'000));
  clock.count_call();
  EXPECT_LT(clock.now() - before, seconds(500));
}

}  // namespace
}  // namespace membrane::linux
