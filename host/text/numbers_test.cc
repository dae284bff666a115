#include "host/text/numbers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace membrane::host {
namespace {

TEST(Numbers, PrintShortestAndReadBack) {
  EXPECT_EQ(decimal_of(0.1), "0.1");
  EXPECT_EQ(decimal_of(3.0), "3");
  EXPECT_EQ(decimal_of(-0.0), "-0");
  EXPECT_EQ(decimal_of(1e300), "1e+300");
  EXPECT_EQ(decimal_of(std::numeric_limits<double>::infinity()), "inf");
  EXPECT_EQ(decimal_of(std::nan("")), "nan");
  EXPECT_EQ(decimal_of(-std::nan("7")), "nan");
  for (const double value : {1.0 / 3, 5e-324, 1.7976931348623157e308, 123456789.125})
    EXPECT_EQ(parse_f64(decimal_of(value)).value(), value);
}

TEST(Numbers, PrintWithDecimals) {
  EXPECT_EQ(decimal_of(3.14159, 2), "3.14");
  EXPECT_EQ(decimal_of(2.0, 3), "2.000");
  EXPECT_EQ(decimal_of(0.5, -1), "0");
  EXPECT_EQ(decimal_of(1.0, 99).size(), 22u);
  EXPECT_EQ(decimal_of(1e308, 20).size(), 330u);
  EXPECT_EQ(decimal_of(-std::numeric_limits<double>::infinity(), 2), "-inf");
}

TEST(Numbers, ReadTheWholeTextOrNothing) {
  EXPECT_EQ(parse_i32(" 42\n").value(), 42);
  EXPECT_EQ(parse_i32("+7").value(), 7);
  EXPECT_EQ(parse_i32("-2147483648").value(), std::numeric_limits<int32_t>::min());
  for (const char* bad : {"", " ", "x", "1x", "1 2", "+-1", "--1", "+", "2147483648", "0x10", "1.0", "1e3"})
    EXPECT_EQ(parse_i32(bad).error().code, Errno::kInvalid) << bad;
  EXPECT_EQ(parse_i64("9223372036854775807").value(), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(parse_i64("9223372036854775808").error().code, Errno::kInvalid);
  EXPECT_EQ(parse_f64(" 1e3 ").value(), 1000.0);
  EXPECT_TRUE(std::isinf(parse_f64("inf").value()));
  for (const char* bad : {"", "1e", "1,5", "1e999", "0x1p3", "++1"})
    EXPECT_EQ(parse_f64(bad).error().code, Errno::kInvalid) << bad;
}

}  // namespace
}  // namespace membrane::host
