#include "host/limits/watchdog.h"

#include <gtest/gtest.h>

#include <latch>
#include <thread>
#include <vector>

namespace membrane::host {
namespace {

using Clock = Deadline::Clock;

TEST(Deadline, TheEarliestOfItsEndsCounts) {
  policy::Budget budget;
  Deadline deadline(budget);
  EXPECT_FALSE(deadline.passed());
  EXPECT_EQ(deadline.left_ms(), policy::Budget::kUnlimited);
  EXPECT_GT(deadline.within(60'000).left_ms(), 0u);
  EXPECT_LE(deadline.within(60'000).left_ms(), 60'000u);
  EXPECT_FALSE(deadline.within(UINT64_MAX).passed());
  EXPECT_TRUE(deadline.within(0).passed());
  budget.set_deadline(Clock::now());
  EXPECT_TRUE(deadline.passed());
  EXPECT_TRUE(deadline.within(60'000).passed());
  EXPECT_EQ(deadline.left_ms(), 0u);
  budget.set_deadline(Clock::time_point::max());
  deadline.set_end(Clock::now());
  EXPECT_TRUE(deadline.passed());
  deadline.set_end(Clock::time_point::max());
  std::atomic<bool> cancel = true;
  deadline.set_cancel(&cancel);
  EXPECT_TRUE(deadline.passed());
  EXPECT_EQ(deadline.left_ms(), 0u);
}

TEST(Watchdog, CallsFromAThreadOfItsOwnWhenTheTimeIsUp) {
  policy::Budget budget;
  std::latch called(1);
  std::thread::id caller;
  const Watchdog::Watch watch(Deadline(budget).within(1), [&] {
    caller = std::this_thread::get_id();
    called.count_down();
  });
  called.wait();
  EXPECT_NE(caller, std::this_thread::get_id());
}

TEST(Watchdog, CallsWhenTheOwnerCancelsOrTheBudgetEndsEarlier) {
  policy::Budget budget;
  std::atomic<bool> cancel = false;
  std::latch called(2);
  const Watchdog::Watch one(Deadline(budget, &cancel), [&] { called.count_down(); });
  policy::Budget other;
  const Watchdog::Watch two(Deadline(other).within(3'600'000), [&] { called.count_down(); });
  cancel = true;
  other.set_deadline(Clock::now());
  called.wait();
}

TEST(Watchdog, NeverCallsAfterTheWatchHasEnded) {
  policy::Budget budget;
  for (int i = 0; i < 1'000; ++i) {
    bool alive = true, called_dead = false;
    {
      const Watchdog::Watch watch(Deadline(budget).within(0), [&] { called_dead = called_dead || !alive; });
    }
    alive = false;
    EXPECT_FALSE(called_dead);
  }
}

TEST(Watchdog, ManyThreadsWatchAtOnce) {
  policy::Budget budget;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&budget] {
      for (int i = 0; i < 50; ++i) {
        std::latch called(1);
        const Watchdog::Watch watch(Deadline(budget).within(1), [&] { called.count_down(); });
        const Watchdog::Watch idle(Deadline(budget), [] { FAIL() << "it has no end"; });
        called.wait();
      }
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace membrane::host
