#include "service/held_bytes.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace membrane::service {
namespace {

std::shared_ptr<HeldBytes> at_most(uint64_t bytes) { return std::make_shared<HeldBytes>(bytes); }

TEST(HeldBytes, BoundEachOwnerByItself) {
  const auto held = at_most(100);
  HeldBytes::Hold one(held, "a"), two(held, "a"), others(held, "b");
  EXPECT_TRUE(one.try_grow(60));
  EXPECT_FALSE(two.try_grow(41));
  EXPECT_EQ(two.bytes(), 0u);
  EXPECT_TRUE(two.try_grow(40));
  EXPECT_TRUE(others.try_grow(100));
  EXPECT_EQ(held->of("a"), 100u);
}

TEST(HeldBytes, AreGivenBackByWhatEnds) {
  const auto held = at_most(100);
  {
    HeldBytes::Hold hold(held, "a");
    EXPECT_TRUE(hold.try_grow(70));
    hold.shrink(20);
    HeldBytes::Hold moved = std::move(hold);
    EXPECT_EQ(moved.bytes(), 50u);
    EXPECT_EQ(held->of("a"), 50u);
    moved = HeldBytes::Hold(held, "a");
    EXPECT_EQ(held->of("a"), 0u);
    EXPECT_TRUE(moved.try_grow(100));
  }
  EXPECT_EQ(held->of("a"), 0u);
}

TEST(HeldBytes, ExceedTheBoundOnlyByWhatIsBoundedOtherwise) {
  const auto held = at_most(100);
  HeldBytes::Hold hold(held, "a");
  hold.grow(150);
  EXPECT_EQ(held->of("a"), 150u);
  EXPECT_FALSE(hold.try_grow(1));
  EXPECT_FALSE(hold.try_grow(UINT64_MAX));
  EXPECT_TRUE(hold.try_grow(0));
}

TEST(HeldBytes, OfNobodyAreNotCounted) {
  HeldBytes::Hold nobodys;
  EXPECT_TRUE(nobodys.try_grow(UINT64_MAX));
  EXPECT_EQ(nobodys.bytes(), 0u);
}

}  // namespace
}  // namespace membrane::service
