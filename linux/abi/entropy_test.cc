#include "linux/abi/entropy.h"

#include <gtest/gtest.h>

#include <array>

namespace membrane::linux {
namespace {

std::array<std::byte, 40> take(Entropy& entropy) {
  std::array<std::byte, 40> bytes = {};
  EXPECT_TRUE(entropy.fill(bytes));
  return bytes;
}

TEST(EntropyTest, ASeedGivesTheSameEachTime) {
  Entropy one(7), two(7), other(8);
  const auto first = take(one);
  EXPECT_EQ(first, take(two));
  EXPECT_NE(first, take(other));
  EXPECT_NE(first, take(one));
}

TEST(EntropyTest, ContinuesFromAStreamsPosition) {
  Entropy one(7), two;
  take(one);
  two.go_on_from(*one.stream());
  EXPECT_EQ(take(one), take(two));
}

TEST(EntropyTest, TheHostsIsNeverTheSame) {
  Entropy entropy;
  EXPECT_EQ(entropy.stream(), nullptr);
  EXPECT_NE(take(entropy), take(entropy));
}

}  // namespace
}  // namespace membrane::linux
