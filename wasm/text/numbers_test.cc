#include "wasm/text/numbers.h"

#include <gtest/gtest.h>

#include <bit>
#include <limits>

namespace membrane::wasm {
namespace {

uint32_t f32(std::string_view word) {
  const auto n = parse_f32(word);
  EXPECT_TRUE(n.ok) << word;
  return n.value;
}
uint64_t f64(std::string_view word) {
  const auto n = parse_f64(word);
  EXPECT_TRUE(n.ok) << word;
  return n.value;
}
template <typename T>
void expect_out_of_range(Number<T> n, std::string_view word) {
  EXPECT_FALSE(n.ok) << word;
  EXPECT_EQ(n.error, NumberError::kOutOfRange) << word;
}

TEST(Numbers, IntegersSpanBothSignedAndUnsigned) {
  EXPECT_EQ(parse_integer("-2147483648", 32).value, 0x80000000u);
  EXPECT_EQ(parse_integer("4294967295", 32).value, 0xFFFFFFFFu);
  EXPECT_EQ(parse_integer("-0x8000_0000_0000_0000", 64).value, uint64_t{1} << 63);
  EXPECT_EQ(parse_integer("18446744073709551615", 64).value, ~uint64_t{0});
  EXPECT_EQ(parse_integer("-128", 8).value, 0x80u);
  expect_out_of_range(parse_integer("-2147483649", 32), "-2147483649");
  expect_out_of_range(parse_integer("4294967296", 32), "4294967296");
  expect_out_of_range(parse_integer("18446744073709551616", 64), "2^64");
  expect_out_of_range(parse_integer("256", 8), "256");
  EXPECT_FALSE(parse_integer("1.0", 32).ok);
  EXPECT_FALSE(parse_unsigned("+1", 32).ok);
}

TEST(Numbers, DecimalFloatsRoundToNearestEven) {
  EXPECT_EQ(f32("1_6777217.0"), std::bit_cast<uint32_t>(16777216.0f));  // a tie, to even
  EXPECT_EQ(f64("0.1"), std::bit_cast<uint64_t>(0.1));
  EXPECT_EQ(f64("1."), std::bit_cast<uint64_t>(1.0));
  EXPECT_EQ(f64("-1.e5"), std::bit_cast<uint64_t>(-1e5));
  EXPECT_EQ(f64("4.9e-324"), 1u);
  EXPECT_EQ(f64("1e-1000"), 0u);
  EXPECT_EQ(f64("0e99999999999999999999"), 0u);
  EXPECT_EQ(f32("-1e-1000"), 0x80000000u);
  EXPECT_EQ(f32("340282346638528859811704183484516925440"), 0x7F7FFFFFu);
  expect_out_of_range(parse_f32("340282356779733661637539395458142568448"), "f32 max + half");
  expect_out_of_range(parse_f64("1e309"), "1e309");
  expect_out_of_range(parse_f64("1e99999999999999999999"), "1e99999999999999999999");
}

TEST(Numbers, HexFloatsRoundToNearestEven) {
  EXPECT_EQ(f32("0x1.000001p0"), 0x3F800000u);             // a tie, to even
  EXPECT_EQ(f32("0x1.00000100000000001p0"), 0x3F800001u);  // just above it
  EXPECT_EQ(f32("0x1.000003p0"), 0x3F800002u);             // a tie, to even, upwards
  EXPECT_EQ(f32("0x1.fffffep127"), 0x7F7FFFFFu);
  EXPECT_EQ(f32("0x1.fffffe8p127"), 0x7F7FFFFFu);
  expect_out_of_range(parse_f32("0x1.ffffffp127"), "rounds to infinity");
  EXPECT_EQ(f32("0x1p-149"), 1u);
  EXPECT_EQ(f32("0x1p-150"), 0u);  // a tie, to even
  EXPECT_EQ(f32("0x1.1p-150"), 1u);
  EXPECT_EQ(f32("0x1.fp-151"), 0u);
  EXPECT_EQ(f32("0x1.fffffep-127"), 0x00800000u);  // rounds up into the normals
  EXPECT_EQ(f64("0x1.fffffffffffffp1023"), 0x7FEFFFFFFFFFFFFFu);
  EXPECT_EQ(f64("0x0.0000000000001p-1022"), 1u);
  EXPECT_EQ(f64("0x1p-1074"), 1u);
  EXPECT_EQ(f64("0x1p-1075"), 0u);
  EXPECT_EQ(f64("0x0p99999999999999999999"), 0u);
  EXPECT_EQ(f64("0x1p-99999999999999999999"), 0u);
  EXPECT_EQ(f64("0xABCDEFabcdef0123456789p-8"), std::bit_cast<uint64_t>(0xABCDEFabcdef0123456789p-8));
}

TEST(Numbers, NansCarryTheirPayload) {
  EXPECT_EQ(f32("nan"), 0x7FC00000u);
  EXPECT_EQ(f32("-nan:0x20_0001"), 0xFFA00001u);
  EXPECT_EQ(f64("+nan:0xfffffffffffff"), 0x7FFFFFFFFFFFFFFFu);
  EXPECT_EQ(f64("-inf"), 0xFFF0000000000000u);
  expect_out_of_range(parse_f32("nan:0x800000"), "too wide");
  expect_out_of_range(parse_f32("nan:0x0"), "no payload");
  EXPECT_FALSE(parse_f32("nan:1").ok);
  EXPECT_FALSE(parse_f32("nan:canonical").ok);
}

TEST(Numbers, PrintingRoundTripsToTheSameBits) {
  for (const uint32_t bits :
       {0u, 1u, 0x80000000u, 0x007FFFFFu, 0x00800000u, 0x3F800000u, 0x3F800001u, 0x7F7FFFFFu, 0x7F800000u,
        0xFF800000u, 0x7FC00000u, 0x7F800001u, 0xFFFFFFFFu, 0x42F6E979u}) {
    EXPECT_EQ(f32(print_f32(bits)), bits) << print_f32(bits);
  }
  uint64_t bits = 0x9E3779B97F4A7C15u;
  for (int i = 0; i < 10000; ++i, bits = bits * 6364136223846793005u + 1442695040888963407u)
    EXPECT_EQ(f64(print_f64(bits)), bits) << print_f64(bits);
  for (const uint64_t special : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}, uint64_t{0x7FF0000000000000},
                                 uint64_t{0x000FFFFFFFFFFFFF}, uint64_t{0x7FF8000000000000}})
    EXPECT_EQ(f64(print_f64(special)), special) << print_f64(special);
}

}  // namespace
}  // namespace membrane::wasm
