#include "service/work_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <future>
#include <string>

namespace membrane::service {
namespace {

TEST(WorkPool, HasAThreadForEachTaskUpToTheMost) {
  constexpr size_t kThreads = 4;
  std::barrier all(kThreads);  // passed only when all tasks run at once
  std::atomic<size_t> passed = 0;
  {
    WorkPool pool({.threads = 2 * kThreads, .queued = 100});
    for (size_t i = 0; i < kThreads; ++i)
      EXPECT_TRUE(pool.post("a", [&] {
        all.arrive_and_wait();
        ++passed;
      }));
  }
  EXPECT_EQ(passed, kThreads);
}

TEST(WorkPool, TakesNoMoreThanItsQueueHolds) {
  std::promise<void> begun, go_on;
  size_t done = 0;
  {
    WorkPool pool({.threads = 1, .queued = 1});
    EXPECT_TRUE(pool.post("a", [&] {
      begun.set_value();
      go_on.get_future().wait();
      ++done;
    }));
    begun.get_future().wait();
    EXPECT_TRUE(pool.post("a", [&] { ++done; }));
    EXPECT_FALSE(pool.post("a", [&] { ++done; }));
    pool.post_rest("a", [&] { ++done; });
    EXPECT_EQ(pool.queued(), 2u);
    go_on.set_value();
  }
  EXPECT_EQ(done, 3u);  // what was queued is done before the end
}

TEST(WorkPool, HasAThreadToSpareForOthers) {
  std::promise<void> go_on, other_done;
  const auto wait = [until = go_on.get_future().share()] { until.wait(); };
  WorkPool pool({.threads = 4, .queued = 100});
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(pool.post("a", wait));
  EXPECT_TRUE(pool.post("b", [&] { other_done.set_value(); }));
  other_done.get_future().wait();
  EXPECT_GE(pool.queued(), 7u);  // of the first, which has three threads
  go_on.set_value();
}

TEST(WorkPool, HasOneToSpareOfFewThreads) {
  for (const size_t threads : {2u, 3u}) {
    std::promise<void> go_on, other_done;
    const auto wait = [until = go_on.get_future().share()] { until.wait(); };
    WorkPool pool({.threads = threads, .queued = 100});
    for (int i = 0; i < 10; ++i) EXPECT_TRUE(pool.post("a", wait));
    EXPECT_TRUE(pool.post("b", [&] { other_done.set_value(); }));
    other_done.get_future().wait();
    go_on.set_value();
  }
}

TEST(WorkPool, LetsOwnersTakeTurns) {
  std::promise<void> begun, go_on;
  std::string order;
  {
    WorkPool pool({.threads = 1, .queued = 100});
    EXPECT_TRUE(pool.post("a", [&] {
      begun.set_value();
      go_on.get_future().wait();
    }));
    begun.get_future().wait();
    for (const char* const owner : {"a", "a", "a", "b", "b", "c"})
      EXPECT_TRUE(pool.post(owner, [&order, owner] { order += owner; }));
    go_on.set_value();
  }
  EXPECT_EQ(order, "abcaba");
}

TEST(WorkPool, KeepsPlacesOfTheQueueForOthers) {
  std::promise<void> begun, go_on;
  {
    WorkPool pool({.threads = 1, .queued = 4});
    EXPECT_TRUE(pool.post("a", [&] {
      begun.set_value();
      go_on.get_future().wait();
    }));
    begun.get_future().wait();
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(pool.post("a", [] {}));
    EXPECT_FALSE(pool.post("a", [] {}));
    EXPECT_TRUE(pool.post("b", [] {}));
    EXPECT_FALSE(pool.post("b", [] {}));
    go_on.set_value();
  }
}

}  // namespace
}  // namespace membrane::service
