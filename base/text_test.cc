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

}  // namespace
}  // namespace membrane
