#include "base/text.h"

#include <gtest/gtest.h>

namespace membrane {
namespace {

TEST(Text, IsTrimmedOfWhiteSpaceAlone) {
  EXPECT_EQ(trimmed(" \t\r\n a b\n"), "a b");
  EXPECT_EQ(trimmed("a\v"), "a\v");
  EXPECT_EQ(trimmed(" \n"), "");
  EXPECT_EQ(trimmed(""), "");
}

TEST(Text, OnlyLettersOfAsciiHaveALowerCase) {
  EXPECT_EQ(lower_case("AZ@[`{09az"), "az@[`{09az");
  EXPECT_EQ(lower_case("\xC3\x84"), "\xC3\x84");
}

TEST(Text, CountsNounsInTheSingularAndThePlural) {
  EXPECT_EQ(count_of(1, "byte"), "1 byte");
  EXPECT_EQ(count_of(0, "byte"), "0 bytes");
  EXPECT_EQ(count_of(2, "more call"), "2 more calls");
  EXPECT_EQ(count_of(1, "entry"), "1 entry");
  EXPECT_EQ(count_of(2, "entry"), "2 entries");
  EXPECT_EQ(count_of(2, "key"), "2 keys");
  EXPECT_EQ(count_of(2, "sandbox"), "2 sandboxes");
  EXPECT_EQ(count_of(2, "watch"), "2 watches");
  EXPECT_EQ(count_of(2, "process"), "2 processes");
  EXPECT_EQ(count_of(UINT64_MAX, "step"), "18446744073709551615 steps");
}

}  // namespace
}  // namespace membrane
