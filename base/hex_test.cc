#include "base/hex.h"

#include <gtest/gtest.h>

#include <array>

namespace membrane {
namespace {

TEST(Hex, TwoLowerCaseDigitsForEachByte) {
  EXPECT_EQ(hex_of(std::array<uint8_t, 5>{0, 9, 0x7F, 0xA0, 0xFF}), "00097fa0ff");
  EXPECT_EQ(hex_of(std::string_view("\xC3\x28\0z", 4)), "c328007a");
  EXPECT_EQ(hex_of(std::string_view()), "");
}

}  // namespace
}  // namespace membrane
