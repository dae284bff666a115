#include "base/stop_scope.h"

#include <gtest/gtest.h>

namespace membrane {
namespace {

TEST(StopScope, WithoutOneNothingStops) {
  for (int i = 0; i < 10'000; ++i) EXPECT_FALSE(StopScope::stop_wanted());
}

TEST(StopScope, AsksAtTheFirstStepAndSeldomAfterIt) {
  int asked = 0;
  const StopScope scope([&] { return ++asked > 3; });
  int steps = 0;
  while (!StopScope::stop_wanted()) ++steps;
  EXPECT_EQ(asked, 4);
  EXPECT_GT(steps, 3000);
  EXPECT_TRUE(scope.stopped());
  EXPECT_TRUE(StopScope::stop_wanted());
}

TEST(StopScope, ManyStepsAtOnceCountAsManyTimesOne) {
  int asked = 0;
  const StopScope scope([&] { return ++asked > 3; });
  int calls = 0;
  while (!StopScope::stop_wanted(1024)) ++calls;
  EXPECT_EQ(calls, 12);  // the first asks, and then each fourth
  int more = 0;
  const StopScope inner([&] { return ++more > 3; });
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(StopScope::stop_wanted(uint64_t{1} << 40)) << i;
  EXPECT_TRUE(StopScope::stop_wanted(uint64_t{1} << 40));
}

TEST(StopScope, TheInnermostCounts) {
  const StopScope outer([] { return true; });
  {
    const StopScope inner([] { return false; });
    EXPECT_FALSE(StopScope::stop_wanted());
  }
  EXPECT_FALSE(outer.stopped());
  EXPECT_TRUE(StopScope::stop_wanted());
}

}  // namespace
}  // namespace membrane
