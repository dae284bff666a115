#include <gtest/gtest.h>

#include <cstring>

#include "host/world/machine_testing.h"

namespace membrane::host {
namespace {

TEST(Builder, MakesATextPieceByPiece) {
  Machine machine;
  const int builder = static_cast<int>(machine.number("builder.new"));
  EXPECT_EQ(machine.text("builder.text", {builder}), "");
  std::string expected;
  for (int i = 0; i < 2'000; ++i) {
    machine.call("builder.add", {builder, std::to_string(i)});
    expected += std::to_string(i);
  }
  EXPECT_EQ(machine.text("builder.text", {builder}), expected);
  EXPECT_EQ(machine.number("builder.size", {builder}), static_cast<int64_t>(expected.size()));
  machine.call("builder.add", {builder, ""});
  machine.call("builder.add", {builder, "!"});
  EXPECT_EQ(machine.text("builder.text", {builder}), expected + "!");
}

TEST(Builder, MakesAListOfItems) {
  Machine machine;
  const int builder = static_cast<int>(machine.number("builder.new"));
  for (const char* item : {"to", "", "be"}) machine.call("builder.item", {builder, item});
  const std::string list = machine.text("builder.text", {builder});
  EXPECT_EQ(machine.text("list.join", {list, "|"}), "to||be");
  EXPECT_EQ(machine.number("list.count", {list}), 3);
}

// A text in the builder's own memory, also while that is moved.
TEST(Builder, TakesAPartOfItself) {
  Machine machine;
  const auto builder = static_cast<uint64_t>(machine.number("builder.new"));
  machine.call("builder.item", {static_cast<int>(builder), std::string(50, 'x')});
  uint32_t bytes = 0;
  std::memcpy(&bytes, machine.guest.memory().data() + builder + 12, sizeof(bytes));
  (void)machine.call_raw("builder.add", {builder, bytes});
  EXPECT_EQ(machine.text("builder.text", {static_cast<int>(builder)}).substr(4), std::string(100, 'x'));
}

TEST(Builder, CostsAsMuchForEachPiece) {
  Machine machine;
  const int builder = static_cast<int>(machine.number("builder.new"));
  const auto cost_of = [&](int pieces) {
    const uint64_t before = machine.guest.fuel;
    for (int i = 0; i < pieces; ++i) machine.call("builder.add", {builder, "0123456789"});
    return before - machine.guest.fuel;
  };
  const uint64_t first = cost_of(10'000);
  EXPECT_LT(cost_of(100'000), 11 * first);
}

TEST(Builder, AnInvalidBuilderIsATrap) {
  Machine machine;
  for (const int bad : {0, 64, -1, INT32_MAX}) {
    const CallResult outcome = machine.call("builder.size", {bad});
    EXPECT_EQ(outcome.end, CallEnd::kTrap) << bad;
    EXPECT_NE(outcome.error.reason.find("not a builder"), std::string::npos);
  }
}

TEST(Builder, WhatTheProgramWroteOverDoesNotHurtTheHost) {
  for (uint32_t word = 0; word < 4; ++word) {
    for (const uint32_t value : {0U, 1U, 65'536U, 0x7FFF'FFFFU, 0xFFFF'FFF0U, 0xFFFF'FFFFU}) {
      Machine machine;
      const int builder = static_cast<int>(machine.number("builder.new"));
      machine.call("builder.add", {builder, "abc"});
      machine.guest.poke(static_cast<uint32_t>(builder) + 4 * word, value);
      (void)machine.call("builder.add", {builder, std::string(100, 'x')});
      (void)machine.call("builder.item", {builder, "x"});
      (void)machine.call("builder.text", {builder});
    }
  }
}

// A call that needs more fuel than there is has done nothing yet, even if the builder must grow.
TEST(Builder, ACallWithoutFuelCanBeMadeAgain) {
  Machine machine;
  const int builder = static_cast<int>(machine.number("builder.new"));
  machine.call("builder.add", {builder, std::string(64, 'x')});
  for (uint64_t fuel = 0; fuel < 150; ++fuel) {
    machine.guest.fuel = fuel;
    if (machine.call("builder.add", {builder, "y"}).end == CallEnd::kReturn) break;
    machine.guest.fuel = 1'000'000;
    EXPECT_EQ(machine.number("builder.size", {builder}), 64) << fuel;
  }
  machine.guest.fuel = 1'000'000;
  EXPECT_EQ(machine.text("builder.text", {builder}), std::string(64, 'x') + "y");
}

}  // namespace
}  // namespace membrane::host
