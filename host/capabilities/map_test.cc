#include <gtest/gtest.h>

#include "host/world/machine_testing.h"

namespace membrane::host {
namespace {

TEST(Map, CountsAndAddsUp) {
  Machine machine;
  const int map = static_cast<int>(machine.number("map.new"));
  machine.call("map.add", {map, "a", 2});
  machine.call("map.add", {map, "a", 3});
  machine.call("map.add_f64", {map, "b", 0.5});
  machine.call("map.set", {map, "", -7});
  EXPECT_EQ(machine.number("map.get", {map, "a"}), 5);
  EXPECT_EQ(machine.real("map.get_f64", {map, "b"}), 0.5);
  EXPECT_EQ(machine.number("map.get", {map, ""}), -7);
  EXPECT_EQ(machine.number("map.get", {map, "none"}), 0);
  EXPECT_EQ(machine.number("map.has", {map, "a"}), 1);
  EXPECT_EQ(machine.number("map.has", {map, "none"}), 0);
  EXPECT_EQ(machine.number("map.count", {map}), 3);
  const CallResult fraction = machine.call("map.get", {map, "b"});
  EXPECT_EQ(fraction.end, CallEnd::kTrap);
  EXPECT_NE(fraction.error.reason.find("map.get_f64"), std::string::npos);
}

TEST(Map, ListsKeysAsTheyCameAndByTheirNumbers) {
  Machine machine;
  const int map = static_cast<int>(machine.number("map.new"));
  for (const char* word : {"to", "be", "or", "not", "to", "be"}) machine.call("map.add", {map, word, 1});
  const auto shown = [&](const std::string& list) { return machine.text("list.join", {list, " "}); };
  EXPECT_EQ(shown(machine.text("map.keys", {map})), "to be or not");
  EXPECT_EQ(shown(machine.text("map.top", {map, 3})), "be to not");
  EXPECT_EQ(shown(machine.text("map.top", {map, 100})), "be to not or");
  EXPECT_EQ(machine.text("map.top", {map, -1}), "");
}

TEST(Map, Grows) {
  Machine machine;
  const int map = static_cast<int>(machine.number("map.new"));
  for (int i = 0; i < 5'000; ++i) machine.call("map.add", {map, std::to_string(i), i});
  EXPECT_EQ(machine.number("map.count", {map}), 5'000);
  for (int i = 0; i < 5'000; ++i) EXPECT_EQ(machine.number("map.get", {map, std::to_string(i)}), i);
}

// A key in memory that the program then reuses.
TEST(Map, KeepsItsOwnCopyOfAKey) {
  Machine machine;
  const auto map = static_cast<uint64_t>(machine.number("map.new"));
  const uint32_t key = machine.guest.put("abcd");
  (void)machine.call_raw("map.add", {map, key, 1});
  machine.guest.poke(key + 4, 0x7A7A7A7A);
  EXPECT_EQ(machine.number("map.get", {static_cast<int>(map), "abcd"}), 1);
}

TEST(Map, AnInvalidMapIsATrap) {
  Machine machine;
  for (const int bad : {0, 64, -1, INT32_MAX}) {
    const CallResult outcome = machine.call("map.count", {bad});
    EXPECT_EQ(outcome.end, CallEnd::kTrap) << bad;
    EXPECT_NE(outcome.error.reason.find("not a map"), std::string::npos);
  }
}

// Overwrites each word of the header, and of the entries and slots, with misleading numbers.
TEST(Map, WhatTheProgramWroteOverDoesNotHurtTheHost) {
  for (uint32_t word = 0; word < 40; ++word) {
    for (const uint32_t value : {0U, 1U, 17U, 65'536U, 0x7FFF'FFFFU, 0xFFFF'FFFFU}) {
      Machine machine;
      const int map = static_cast<int>(machine.number("map.new"));
      for (int i = 0; i < 16; ++i) machine.call("map.add", {map, std::to_string(i), i});
      machine.guest.poke(static_cast<uint32_t>(map) + 4 * word, value);
      for (int i = 10; i < 30; ++i) (void)machine.call("map.add", {map, std::to_string(i), i});
      (void)machine.call("map.top", {map, 5});
      (void)machine.call("map.keys", {map});
    }
  }
}

// A call that needs more fuel than there is has done nothing yet, even if the map must grow.
TEST(Map, ACallWithoutFuelCanBeMadeAgain) {
  Machine machine;
  const int map = static_cast<int>(machine.number("map.new"));
  for (int i = 0; i < 16; ++i) machine.call("map.add", {map, std::to_string(i), 1});
  for (uint64_t fuel = 0; fuel < 150; ++fuel) {
    machine.guest.fuel = fuel;
    if (machine.call("map.add", {map, "new", 1}).end == CallEnd::kReturn) break;
    machine.guest.fuel = 1'000'000;
    EXPECT_EQ(machine.number("map.count", {map}), 16) << fuel;
  }
  machine.guest.fuel = 1'000'000;
  EXPECT_EQ(machine.number("map.get", {map, "new"}), 1);
  EXPECT_EQ(machine.number("map.count", {map}), 17);
}

}  // namespace
}  // namespace membrane::host
