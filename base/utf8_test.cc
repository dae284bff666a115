#include "base/utf8.h"

#include <gtest/gtest.h>

namespace membrane {
namespace {

TEST(Utf8, AcceptsTheFirstAndLastScalarOfEachLength) {
  for (const uint32_t scalar :
       {0u, 0x7Fu, 0x80u, 0x7FFu, 0x800u, 0xD7FFu, 0xE000u, 0xFFFFu, 0x10000u, 0x10FFFFu}) {
    std::string text;
    append_utf8(text, scalar);
    EXPECT_EQ(utf8_length(text), text.size()) << scalar;
    EXPECT_TRUE(is_utf8(text)) << scalar;
  }
}

TEST(Utf8, RefusesOverlongSurrogateTooLargeAndCutSequences) {
  using namespace std::literals;
  for (const std::string_view bad :
       {"\x80"sv, "\xC0\x80"sv, "\xC1\xBF"sv, "\xE0\x9F\xBF"sv, "\xED\xA0\x80"sv, "\xED\xBF\xBF"sv,
        "\xF0\x8F\xBF\xBF"sv, "\xF4\x90\x80\x80"sv, "\xF5\x80\x80\x80"sv, "\xFF"sv, "\xC3"sv, "\xE2\x82"sv,
        "\xF0\x9F\x98"sv})
    EXPECT_EQ(utf8_length(bad), 0u);
}

TEST(Utf8, FindsTheFirstBadByteAfterALongAsciiRun) {
  const std::string text = std::string(37, 'a') + "\xFF" + std::string(20, 'b');
  EXPECT_EQ(utf8_valid_prefix(text), 37u);
  EXPECT_EQ(utf8_valid_prefix(std::string(41, 'a') + "\xC3\xA9"), 43u);
}

TEST(Utf8, RepairsEachBadByte) {
  EXPECT_EQ(utf8_repair("plain \xC3\xA9"), "plain \xC3\xA9");
  EXPECT_EQ(utf8_repair("a\xFF\x80z"), "a\xEF\xBF\xBD\xEF\xBF\xBDz");
  EXPECT_EQ(utf8_repair("\xC3"), "\xEF\xBF\xBD");
}

TEST(Utf8, ACutLeavesWholeCharacters) {
  const std::string_view text = "a\xC3\xA9\xE2\x82\xAC!";  // of 1, 2, 3 and 1 bytes
  const size_t expected[] = {0, 1, 1, 3, 3, 3, 6, 7, 7};
  for (size_t most = 0; most < std::size(expected); ++most)
    EXPECT_EQ(utf8_cut(text, most), expected[most]) << most;
  EXPECT_EQ(utf8_cut("", 5), 0u);
}

}  // namespace
}  // namespace membrane
