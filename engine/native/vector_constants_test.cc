// Vectors that are written after the code.
#include "engine/native/vector_constants.h"

#include <gtest/gtest.h>

#include <cstring>

namespace membrane::engine::native {
namespace {

TEST(VectorConstantsTest, EqualOnesHaveOneNumber) {
  VectorConstants constants;
  constants.start();
  const uint32_t first = constants.number_of({1, 2});
  EXPECT_NE(constants.number_of({2, 1}), first);
  EXPECT_EQ(constants.number_of({1, 2}), first);
  const uint8_t bytes[16] = {1, 0, 0, 0, 0, 0, 0, 0, 2};
  EXPECT_EQ(constants.number_of_bytes(bytes), first);
  EXPECT_EQ(constants[first].high, 2u);
}

TEST(VectorConstantsTest, AreReadFromWhereTheyAreWritten) {
  std::vector<uint8_t> buffer;
  Assembler a(buffer);
  VectorConstants constants;
  constants.start();
  constants.number_of({5, 6});
  constants.load(a, 1, constants.number_of({7, 8}));
  const uint32_t end = a.here();
  const uint32_t displacement = a.get32(end - 4);
  EXPECT_EQ(displacement, 0u);
  constants.write(a);
  ASSERT_EQ(a.here(), end + 2 * sizeof(Constant));
  Constant read{};
  std::memcpy(&read, a.data() + end + a.get32(end - 4), sizeof read);
  EXPECT_EQ(read.low, 7u);
  EXPECT_EQ(read.high, 8u);
}

TEST(VectorConstantsTest, ZeroesAndOnesAreComputed) {
  std::vector<uint8_t> buffer;
  Assembler a(buffer);
  VectorConstants constants;
  constants.start();
  constants.load(a, 1, constants.number_of({0, 0}));
  constants.load(a, 2, constants.number_of({UINT64_MAX, UINT64_MAX}));
  const uint32_t end = a.here();
  constants.write(a);
  EXPECT_EQ(a.here(), end);
}

}  // namespace
}  // namespace membrane::engine::native
