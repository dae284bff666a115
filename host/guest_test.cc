#include <gtest/gtest.h>

#include "host/guest_testing.h"
#include "host/machine_testing.h"

namespace membrane::host {
namespace {

constexpr uint32_t kEnd = VectorGuest::kPageBytes;

TEST(GuestStrings, AreLengthThenBytesLittleEndian) {
  VectorGuest guest;
  guest.poke(100, 0x00000102);
  guest.memory()[104] = 'a';
  EXPECT_EQ(guest.read_string(100).value().size(), 0x102u);
  EXPECT_EQ(guest.read_string(100).value()[0], 'a');
  const uint32_t pointer = guest.put("hello");
  EXPECT_EQ(guest.memory()[pointer], 5);
  EXPECT_EQ(guest.memory()[pointer + 1], 0);
  EXPECT_EQ(guest.memory()[pointer + 4], 'h');
  EXPECT_EQ(guest.get(guest.put("")), "");
}

TEST(GuestStrings, MayEndExactlyAtTheEndOfMemory) {
  VectorGuest guest;
  guest.poke(kEnd - 8, 4);
  EXPECT_EQ(guest.read_string(kEnd - 8).value().size(), 4u);
  guest.poke(kEnd - 8, 5);
  EXPECT_EQ(guest.read_string(kEnd - 8).error().code, Errno::kFault);
  guest.poke(kEnd - 4, 0);
  EXPECT_EQ(guest.read_string(kEnd - 4).value(), "");
}

TEST(GuestStrings, PointersOutsideTheMemoryAreFaults) {
  VectorGuest guest;
  for (const uint32_t pointer :
       {kEnd - 3, kEnd - 1, kEnd, kEnd + 1, 0x7FFF'FFFFu, 0x8000'0000u, 0xFFFF'FFFCu, 0xFFFF'FFFFu}) {
    const auto string = guest.read_string(pointer);
    ASSERT_FALSE(string) << pointer;
    EXPECT_EQ(string.error().code, Errno::kFault);
    EXPECT_NE(string.error().reason.find(std::to_string(pointer)), std::string::npos);
  }
}

TEST(GuestStrings, HugeLengthsAreFaultsAndDoNotWrapAround) {
  VectorGuest guest;
  for (const uint32_t length :
       {kEnd, 0x7FFF'FFFFu, 0x8000'0000u, 0xFFFF'FFFFu, 0xFFFF'FFFFu - 3, 0u - 100u - 4u}) {
    guest.poke(100, length);
    EXPECT_EQ(guest.read_string(100).error().code, Errno::kFault) << length;
  }
}

TEST(GuestStrings, AMemoryOfNoPagesHoldsNone) {
  VectorGuest guest(0, 0);
  EXPECT_EQ(guest.read_string(0).error().code, Errno::kFault);
  EXPECT_EQ(guest.write_string("x").error().code, Errno::kNoMemory);
}

TEST(GuestStrings, WhatLiesInTheMemoryIsCopiedRightEvenWhenTheMemoryMoves) {
  VectorGuest guest;
  const std::string text(60'000, 'x');
  uint32_t pointer = guest.put(text);
  for (int i = 0; i < 20; ++i) {
    pointer = guest.write_string(guest.read_string(pointer).value()).value();
    ASSERT_EQ(guest.get(pointer), text);
  }
}

TEST(BumpHeap, AlignsToEightAndNeverGivesTheSamePlaceTwice) {
  VectorGuest guest;
  uint32_t last = 0;
  for (const uint64_t bytes : {0, 1, 7, 8, 9, 0, 64}) {
    const uint32_t address = guest.allocate(bytes).value();
    EXPECT_EQ(address % 8, 0u);
    EXPECT_GT(address, last);
    last = address;
  }
}

TEST(BumpHeap, GrowsToTheLimitAndNoFurther) {
  VectorGuest guest(1, 2);
  ASSERT_TRUE(guest.allocate(kEnd));
  EXPECT_EQ(guest.memory().size(), 2 * kEnd);
  EXPECT_EQ(guest.allocate(kEnd).error().code, Errno::kNoMemory);
  EXPECT_TRUE(guest.allocate(kEnd - 1'000)) << "a refusal takes nothing";
  EXPECT_EQ(guest.allocate(~0ull).error().code, Errno::kNoMemory);
  EXPECT_EQ(guest.allocate(~0ull - 64).error().code, Errno::kNoMemory);
}

// A space as large as a memory can be: tests the arithmetic at 4 GiB.
class AddressSpace : public BumpHeap::Space {
 public:
  [[nodiscard]] uint64_t size_bytes() const override { return size; }
  [[nodiscard]] bool grow_to(uint64_t bytes) override {
    size = bytes;
    return bytes <= 1ull << 32;
  }
  uint64_t size = 0;
};

TEST(BumpHeap, StopsAtFourGiB) {
  AddressSpace space;
  BumpHeap heap((1ull << 32) - 16);
  EXPECT_EQ(heap.allocate(space, 17).error().code, Errno::kNoMemory);
  EXPECT_EQ(heap.allocate(space, 16).value(), 0xFFFF'FFF0u);
  EXPECT_EQ(heap.allocate(space, 1).error().code, Errno::kNoMemory);
  EXPECT_EQ(heap.allocate(space, 0).value_or(7), 0u) << "an empty place has no address of its own at the end";
}

}  // namespace
}  // namespace membrane::host
