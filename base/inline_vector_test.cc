#include "base/inline_vector.h"

#include <gtest/gtest.h>

#include <numeric>

namespace membrane {
namespace {

TEST(InlineVector, KeepsItsElementsWhenItOutgrowsItsInside) {
  InlineVector<int, 4> v;
  for (int i = 0; i < 1000; ++i) {
    v.push_back(i);
    ASSERT_EQ(std::accumulate(v.begin(), v.end(), 0), i * (i + 1) / 2);
  }
  EXPECT_EQ(v.back(), 999);
  while (v.size() > 2) v.pop_back();
  EXPECT_EQ(v[1], 1);
  v.clear();
  EXPECT_TRUE(v.empty());
  EXPECT_GE(v.capacity(), 1000u);
}

TEST(InlineVector, MayPushAnElementOfItself) {
  InlineVector<int, 2> v;
  v.push_back(7);
  for (int i = 0; i < 10; ++i) v.push_back(v[0]);
  EXPECT_EQ(v.size(), 11u);
  EXPECT_EQ(v.back(), 7);
}

}  // namespace
}  // namespace membrane
