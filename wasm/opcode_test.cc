#include "wasm/opcode.h"

#include <gtest/gtest.h>

#include <set>

namespace membrane::wasm {
namespace {

TEST(OpcodeTable, EveryEncodingNamesOneInstruction) {
  std::set<std::pair<int, int>> seen;
  for (size_t i = 0; i < kOpcodeCount; ++i) {
    const OpcodeInfo& row = info(static_cast<Opcode>(i));
    EXPECT_TRUE(seen.emplace(row.prefix, row.code).second) << row.text;
    EXPECT_EQ(find_opcode(row.prefix, row.code), static_cast<Opcode>(i)) << row.text;
  }
}

TEST(OpcodeTable, EveryMnemonicIsFound) {
  for (size_t i = 0; i < kOpcodeCount; ++i) {
    const auto op = static_cast<Opcode>(i);
    const auto found = find_mnemonic(info(op).text);
    ASSERT_TRUE(found) << info(op).text;
    EXPECT_EQ(info(*found).text, info(op).text);
  }
  EXPECT_FALSE(find_mnemonic("i32.addd"));
  EXPECT_FALSE(find_mnemonic(""));
}

}  // namespace
}  // namespace membrane::wasm
