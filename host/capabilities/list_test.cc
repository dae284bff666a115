#include <gtest/gtest.h>

#include "host/machine_testing.h"

namespace membrane::host {
namespace {

// The items, separated by bars.
std::string shown(Machine& machine, const std::string& list) {
  return machine.text("list.join", {list, "|"});
}

TEST(List, LinesFieldsAndWords) {
  Machine machine;
  const auto lines = [&](const char* text) { return shown(machine, machine.text("list.lines", {text})); };
  EXPECT_EQ(lines("one\ntwo\r\n\nfour"), "one|two||four");
  EXPECT_EQ(lines("one\n"), "one");
  EXPECT_EQ(machine.text("list.lines", {""}), "");
  EXPECT_EQ(machine.number("list.count", {machine.text("list.lines", {"\n\n"})}), 2);
  const auto split = [&](const char* text, const char* separator) {
    return shown(machine, machine.text("list.split", {text, separator}));
  };
  EXPECT_EQ(split("a,b,,d,", ","), "a|b||d|");
  EXPECT_EQ(split("a::b", "::"), "a|b");
  EXPECT_EQ(split("ab", ""), "ab");
  EXPECT_EQ(machine.number("list.count", {machine.text("list.split", {"", ","})}), 1);
  EXPECT_EQ(shown(machine, machine.text("list.words", {"\t to \n be "})), "to|be");
}

TEST(List, ItemsOfJson) {
  Machine machine;
  EXPECT_EQ(shown(machine, machine.text("list.items", {R"(["a",1,{"b":2,"a":1},[],null])"})),
            R"(a|1|{"b":2,"a":1}|[]|null)");
  EXPECT_EQ(machine.fails("list.items", {"{}"}), Errno::kInvalid);
  EXPECT_EQ(machine.fails("list.items", {"oops"}), Errno::kInvalid);
}

TEST(List, SortsAndTurns) {
  Machine machine;
  const auto by = [&](const char* function, const char* words) {
    return shown(machine, machine.text(function, {machine.text("list.words", {words})}));
  };
  EXPECT_EQ(by("list.sort", "b B a 10 9"), "10|9|B|a|b");
  EXPECT_EQ(by("list.sort_numbers", "10 x -1 9 1e1 y nan"), "-1|9|10|1e1|x|y|nan");
  EXPECT_EQ(by("list.reverse", "a b c"), "c|b|a");
  EXPECT_EQ(by("list.unique", "a a b a"), "a|b|a");
}

TEST(List, AtCountsFromBothEnds) {
  Machine machine;
  const std::string list = machine.text("list.words", {"a b c"});
  EXPECT_EQ(machine.text("list.at", {list, 0}), "a");
  EXPECT_EQ(machine.text("list.at", {list, -1}), "c");
  EXPECT_EQ(machine.fails("list.at", {list, 3}), Errno::kNotFound);
  EXPECT_EQ(machine.fails("list.at", {list, -4}), Errno::kNotFound);
}

TEST(List, WhatIsNoListIsATrapThatSaysSo) {
  Machine machine;
  for (const char* text : {"abc", "plain text", "\x05\x01\x01\x01"}) {
    const Outcome outcome = machine.call("list.count", {text});
    EXPECT_EQ(outcome.end, CallEnd::kTrap) << text;
    EXPECT_NE(outcome.error.reason.find("not a list"), std::string::npos);
  }
  EXPECT_EQ(machine.call("list.count", {std::string("\x02\0\0\0a", 5)}).end, CallEnd::kTrap);
  EXPECT_EQ(machine.number("list.count", {""}), 0);
}

TEST(Str, JoinsUrls) {
  Machine machine;
  const auto join = [&](const char* base, const char* reference) {
    return machine.text("str.url_join", {base, reference});
  };
  EXPECT_EQ(join("https://example.org/a/b.html?q=1", "c.html"), "https://example.org/a/c.html");
  EXPECT_EQ(join("https://example.org/a/b/", "../c"), "https://example.org/a/c");
  EXPECT_EQ(join("https://example.org/a/b", "/c?d=1"), "https://example.org/c?d=1");
  EXPECT_EQ(join("https://example.org/a", "http://other.example/x"), "http://other.example/x");
  EXPECT_EQ(machine.fails("str.url_join", {"a/b", "c"}), Errno::kInvalid);
  EXPECT_EQ(machine.fails("str.url_join", {"https://example.org/", "mailto:a@example.org"}), Errno::kInvalid);
}

TEST(Str, ZerosAreZeros) {
  Machine machine;
  EXPECT_EQ(machine.text("str.zeros", {3}), std::string(3, '\0'));
  EXPECT_EQ(machine.call("str.zeros", {-1}).end, CallEnd::kTrap);
  EXPECT_EQ(machine.call("str.zeros", {INT32_MAX}).end, CallEnd::kOutOfMemory);
}

}  // namespace
}  // namespace membrane::host
