#include "policy/budget.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "policy/policy.h"

namespace membrane::policy {
namespace {

using std::chrono::steady_clock;

TEST(Budget, IsUnlimitedUntilSet) {
  Budget budget;
  EXPECT_TRUE(budget.take(Resource::kFuel, Budget::kUnlimited));
  EXPECT_EQ(budget.left(Resource::kFuel), Budget::kUnlimited);
  EXPECT_EQ(budget.take_up_to(Resource::kTokens, 7), 7u);
  EXPECT_EQ(budget.wall_left_ms(), Budget::kUnlimited);
}

TEST(Budget, StartsFromTheLimits) {
  Limits limits;
  limits.fuel = 5;
  limits.tokens = 6;
  Budget budget(limits);
  EXPECT_EQ(budget.left(Resource::kFuel), 5u);
  EXPECT_EQ(budget.left(Resource::kTokens), 6u);
  EXPECT_EQ(budget.left(Resource::kHostCalls), limits.host_calls);
  EXPECT_EQ(budget.left(Resource::kBytesIn), limits.bytes_in);
  EXPECT_EQ(budget.left(Resource::kBytesOut), limits.bytes_out);
  EXPECT_LE(budget.deadline(), steady_clock::now() + std::chrono::milliseconds(limits.wall_ms));
}

TEST(Budget, TakesAllOrNothing) {
  Budget budget;
  budget.set(Resource::kBytesIn, 10);
  EXPECT_FALSE(budget.take(Resource::kBytesIn, 11));
  EXPECT_EQ(budget.left(Resource::kBytesIn), 10u);
  EXPECT_TRUE(budget.take(Resource::kBytesIn, 10));
  EXPECT_FALSE(budget.take(Resource::kBytesIn, 1));
  EXPECT_TRUE(budget.take(Resource::kBytesIn, 0));
}

TEST(Budget, TakesUpToWhatIsLeft) {
  Budget budget;
  budget.set(Resource::kFuel, 10);
  EXPECT_EQ(budget.take_up_to(Resource::kFuel, 7), 7u);
  EXPECT_EQ(budget.take_up_to(Resource::kFuel, 7), 3u);
  EXPECT_EQ(budget.take_up_to(Resource::kFuel, 7), 0u);
}

TEST(Budget, ACostKnownAfterwardsEmptiesWhatIsLeft) {
  Budget budget;
  budget.set(Resource::kTokens, 10);
  EXPECT_TRUE(budget.take_after(Resource::kTokens, 4));
  EXPECT_FALSE(budget.take_after(Resource::kTokens, 7));
  EXPECT_EQ(budget.left(Resource::kTokens), 0u);
}

TEST(Budget, GivingBackNeverMakesItUnlimitedAndNeverWraps) {
  Budget budget;
  budget.set(Resource::kFuel, 10);
  budget.give_back(Resource::kFuel, Budget::kUnlimited);
  EXPECT_EQ(budget.left(Resource::kFuel), Budget::kUnlimited - 1);
  budget.give_back(Resource::kFuel, 1);
  EXPECT_EQ(budget.left(Resource::kFuel), Budget::kUnlimited - 1);
}

TEST(Budget, APassedDeadlineLeavesNothing) {
  Budget budget;
  budget.set_deadline(steady_clock::now() - std::chrono::seconds(1));
  EXPECT_EQ(budget.wall_left_ms(), 0u);
  budget.set_deadline(steady_clock::now() + std::chrono::hours(1));
  EXPECT_GT(budget.wall_left_ms(), 3'500'000u);
}

// Every unit is spent exactly once, however the takers interleave.
TEST(Budget, ManyTakersSpendEachUnitOnce) {
  constexpr uint64_t kUnits = 200'000;
  Budget budget;
  budget.set(Resource::kHostCalls, kUnits);
  std::vector<uint64_t> taken(8);
  std::vector<std::thread> takers;
  for (size_t i = 0; i < taken.size(); ++i) {
    takers.emplace_back([&budget, &mine = taken[i], i] {
      for (;;) {
        if (i % 2 == 0) {
          if (!budget.take(Resource::kHostCalls, 3)) return;
          mine += 3;
          if (mine % 9 == 0) budget.give_back(Resource::kHostCalls, 1), --mine;
        } else {
          const uint64_t got = budget.take_up_to(Resource::kHostCalls, 5);
          if (got == 0) return;
          mine += got;
        }
      }
    });
  }
  for (auto& taker : takers) taker.join();
  uint64_t sum = budget.left(Resource::kHostCalls);
  for (const uint64_t mine : taken) sum += mine;
  EXPECT_EQ(sum, kUnits);
}

}  // namespace
}  // namespace membrane::policy
