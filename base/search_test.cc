#include "base/search.h"

#include <gtest/gtest.h>

#include <string>

namespace membrane {
namespace {

constexpr size_t kNone = std::string_view::npos;

TEST(FindBytes, AgreesWithTheStandardLibrary) {
  const std::string_view texts[] = {"", "a", "ab", "aab", "abab", "aaaaaa", "xaabaabx"};
  const std::string_view needles[] = {"", "a", "b", "ab", "aa", "aab", "abab", "z", "aaaaaaa"};
  for (const std::string_view text : texts) {
    for (const std::string_view needle : needles) {
      for (size_t from = 0; from <= text.size() + 1; ++from)
        EXPECT_EQ(find_bytes(text, needle, from), text.find(needle, from))
            << text << " " << needle << " " << from;
      EXPECT_EQ(find_last_bytes(text, needle), text.rfind(needle)) << text << " " << needle;
    }
  }
  EXPECT_EQ(find_bytes("abc", "a", kNone), kNone);
}

// 4 MB in 8 MB, every start nearly a match: quadratic time would be minutes.
TEST(FindBytes, TakesLinearTime) {
  const std::string text(8'000'000, 'a');
  const std::string needle = std::string(4'000'000, 'a') + "b";
  EXPECT_EQ(find_bytes(text, needle), kNone);
  EXPECT_EQ(find_bytes(text, "b" + needle), kNone);
  EXPECT_EQ(find_last_bytes(text, "b" + std::string(4'000'000, 'a')), kNone);
}

}  // namespace
}  // namespace membrane
