#include "service/work_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <future>

namespace membrane::service {
namespace {

TEST(WorkPool, HasAThreadForEachTaskUpToTheMost) {
  constexpr size_t kThreads = 4;
  std::barrier all(kThreads);  // passed only when all tasks run at once
  std::atomic<size_t> passed = 0;
  {
    WorkPool pool(kThreads, 100);
    for (size_t i = 0; i < kThreads; ++i)
      EXPECT_TRUE(pool.post([&] {
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
    WorkPool pool(1, 1);
    EXPECT_TRUE(pool.post([&] {
      begun.set_value();
      go_on.get_future().wait();
      ++done;
    }));
    begun.get_future().wait();
    EXPECT_TRUE(pool.post([&] { ++done; }));
    EXPECT_FALSE(pool.post([&] { ++done; }));
    pool.post_rest([&] { ++done; });
    EXPECT_EQ(pool.queued(), 2u);
    go_on.set_value();
  }
  EXPECT_EQ(done, 3u);  // what was queued is done before the end
}

}  // namespace
}  // namespace membrane::service
