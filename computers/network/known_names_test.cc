#include "computers/network/known_names.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace membrane::computers {
namespace {

class Counting final : public host::Resolver {
 public:
  host::HostResult<std::vector<policy::Address>> resolve(const std::string& host, uint64_t) override {
    ++asked;
    while (waits) std::this_thread::yield();
    if (host == "none") return host::refuse(host::Errno::kConnection, "The name has no address.");
    return std::vector{policy::Address::parse("192.0.2.1").value()};
  }
  std::atomic<int> asked = 0;
  std::atomic<bool> waits = false;
};

TEST(KnownNamesTest, WhatWasFoundIsNotAskedForAgain) {
  Counting resolver;
  KnownNames names(resolver);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(names.resolve("a", 1000)->size(), 1u);
  EXPECT_EQ(resolver.asked, 1);
  EXPECT_TRUE(names.resolve("b", 1000));
  EXPECT_EQ(resolver.asked, 2);
}

TEST(KnownNamesTest, WhatFailedIsAskedForAgain) {
  Counting resolver;
  KnownNames names(resolver);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(names.resolve("none", 1000).error().code, host::Errno::kConnection);
  EXPECT_EQ(resolver.asked, 3);
}

TEST(KnownNamesTest, ThreadsWaitForOneAnswer) {
  Counting resolver;
  resolver.waits = true;
  KnownNames names(resolver);
  std::atomic<int> found = 0;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] { found += names.resolve("a", 60'000).has_value() ? 1 : 0; });
  while (resolver.asked == 0) std::this_thread::yield();
  resolver.waits = false;
  threads.clear();
  EXPECT_EQ(found, 8);
  EXPECT_EQ(resolver.asked, 1);
}

TEST(KnownNamesTest, AWaitThatIsTooLongIsReported) {
  Counting resolver;
  resolver.waits = true;
  KnownNames names(resolver);
  std::jthread first([&] { static_cast<void>(names.resolve("a", 60'000)); });
  while (resolver.asked == 0) std::this_thread::yield();
  EXPECT_EQ(names.resolve("a", 1).error().code, host::Errno::kTimedOut);
  resolver.waits = false;
}

TEST(KnownNamesTest, AreBounded) {
  Counting resolver;
  KnownNames names(resolver);
  for (size_t i = 0; i < 3 * KnownNames::kMostNames; ++i) EXPECT_TRUE(names.resolve(std::to_string(i), 1000));
}

}  // namespace
}  // namespace membrane::computers
