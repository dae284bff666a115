#include "host/limits/host_memory.h"

#include <gtest/gtest.h>

namespace membrane::host {
namespace {

using enum HostMemory::Holder;

class FakeLimit : public HostMemory::Limit {
 public:
  explicit FakeLimit(uint64_t bytes) : bytes_(bytes) {}
  uint64_t left_bytes() const override { return bytes_ - lowered; }
  bool lower_by(uint64_t bytes) override {
    if (bytes > bytes_) return false;
    lowered = bytes;
    return true;
  }
  uint64_t lowered = 0;

 private:
  uint64_t bytes_;
};

TEST(HostMemory, WhatIsKeptIsLentFirstAndThenTakenFromTheLimit) {
  FakeLimit limit(1'000);
  HostMemory memory(&limit);
  EXPECT_EQ(memory.left_to_keep(), HostMemory::kKeptBytes + 1'000);
  EXPECT_TRUE(memory.keep(kFiles, HostMemory::kKeptBytes));
  EXPECT_EQ(limit.lowered, 0u);
  EXPECT_TRUE(memory.keep(kAnswer, 600));
  EXPECT_EQ(limit.lowered, 600u);
  EXPECT_EQ(memory.left_to_keep(), 400u);
  EXPECT_EQ(memory.left_for_call(), HostMemory::kCallBytes + 400);
  EXPECT_FALSE(memory.keep(kAnswer, 1'001));
  EXPECT_EQ(memory.kept(), HostMemory::kKeptBytes + 600);
  EXPECT_TRUE(memory.keep(kAnswer, 1'000));
  EXPECT_EQ(memory.left_to_keep(), 0u);
  EXPECT_TRUE(memory.keep(kFiles, 0));
  EXPECT_EQ(limit.lowered, 0u);
  EXPECT_EQ(memory.left_to_keep(), HostMemory::kKeptBytes);
}

TEST(HostMemory, WithoutALimitThereIsWhatTheHostLends) {
  HostMemory memory;
  EXPECT_FALSE(memory.keep(kFiles, HostMemory::kKeptBytes + 1));
  EXPECT_FALSE(memory.keep(kFiles, UINT64_MAX));
  EXPECT_TRUE(memory.keep(kFiles, HostMemory::kKeptBytes));
  EXPECT_EQ(memory.left_for_call(), HostMemory::kCallBytes);
  {
    const HostMemory::Use use(memory, 1'000);
    EXPECT_EQ(memory.left_for_call(), HostMemory::kCallBytes - 1'000);
    const HostMemory::Use more(memory, HostMemory::kCallBytes);
    EXPECT_EQ(memory.left_for_call(), 0u);
  }
  EXPECT_EQ(memory.left_for_call(), HostMemory::kCallBytes);
}

TEST(HostMemory, WhatIsThereAlreadyLeavesNoRoomForMore) {
  FakeLimit limit(1'000);
  HostMemory memory(&limit);
  EXPECT_TRUE(memory.keep_what_is_there(kFiles, 600));
  EXPECT_EQ(memory.kept(), 600u);
  EXPECT_FALSE(memory.keep_what_is_there(kFiles, uint64_t{1} << 40));
  EXPECT_EQ(memory.kept(), HostMemory::kKeptBytes + 1'000);
  EXPECT_EQ(memory.left_to_keep(), 0u);
  EXPECT_FALSE(memory.keep(kAnswer, 1));
  EXPECT_TRUE(memory.keep_what_is_there(kFiles, 0));
  EXPECT_EQ(memory.kept(), 0u);
  EXPECT_EQ(limit.lowered, 0u);
}

}  // namespace
}  // namespace membrane::host
