#include "base/terminal.h"

#include <gtest/gtest.h>

namespace membrane {
namespace {

TEST(Terminal, TextStaysAsItIs) {
  const std::string text = "a\tb\n\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80 \xE0\xA4\x95\xE2\x80\x8D";
  EXPECT_EQ(printable(text), text);
}

TEST(Terminal, ControlCharactersAreMadeVisible) {
  EXPECT_EQ(printable("\x1b]0;title\x07\r\x7f"), "\\x1b]0;title\\x07\\x0d\\x7f");
  EXPECT_EQ(printable("\xC2\x9B"
                      "31m"),
            "\\x9b31m");
  EXPECT_EQ(printable(std::string_view("\0", 1)), "\\x00");
}

TEST(Terminal, BytesThatAreNotTextAreMadeVisible) {
  EXPECT_EQ(printable("\x9b"
                      "31m"),
            "\\x9b31m");
  EXPECT_EQ(printable("\xE2\x80"), "\\xe2\\x80");
  EXPECT_EQ(printable("\xC2"), "\\xc2");
}

TEST(Terminal, WhatReordersOrCannotBeSeenIsMadeVisible) {
  EXPECT_EQ(printable("a\xE2\x80\xAE"
                      "b"),
            "a\\u{202e}b");
  EXPECT_EQ(printable("\xE2\x81\xA6\xE2\x81\xA9"), "\\u{2066}\\u{2069}");
  EXPECT_EQ(printable("\xE2\x80\x8B\xEF\xBB\xBF\xE2\x80\xA8"), "\\u{200b}\\u{feff}\\u{2028}");
  EXPECT_EQ(printable("\xF3\xA0\x81\x81"), "\\u{e0041}");
  EXPECT_EQ(printable("\xC2\xAD\xD8\x9C"), "\\u{ad}\\u{61c}");
}

TEST(Terminal, ALineStaysOneLine) { EXPECT_EQ(printable_line("a\nb\tc\x1b"), "a\\nb\\tc\\x1b"); }

TEST(Terminal, JsonStaysTheSameValue) {
  EXPECT_EQ(printable_json("{\n\"a\": \"\x7f\xC2\x9B\xE2\x80\xAE\xF3\xA0\x81\x81\"}"),
            "{\n\"a\": \"\\u007f\\u009b\\u202e\\udb40\\udc41\"}");
  EXPECT_EQ(printable_json("\"\xE2\x82\xAC\""), "\"\xE2\x82\xAC\"");
}

}  // namespace
}  // namespace membrane
