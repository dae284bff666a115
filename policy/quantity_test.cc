#include "policy/quantity.h"

#include <gtest/gtest.h>

namespace membrane::policy {
namespace {

TEST(Quantity, ReadsCountsExactly) {
  EXPECT_EQ(parse_count("0"), 0u);
  EXPECT_EQ(parse_count("50_000_000"), 50'000'000u);
  EXPECT_EQ(parse_count("2e9"), 2'000'000'000u);
  EXPECT_EQ(parse_count("1.5E3"), 1'500u);
  EXPECT_EQ(parse_count("1000e-3"), 1u);
  EXPECT_EQ(parse_count("18446744073709551615"), UINT64_MAX);
}

TEST(Quantity, RefusesFractionsAndWhatDoesNotFit) {
  for (const char* text : {"",
                           " ",
                           "-1",
                           "+1",
                           "1.5",
                           "1.",
                           ".5",
                           "1e",
                           "1e99",
                           "18446744073709551616",
                           "1_",
                           "_1",
                           "1__0",
                           "0x10",
                           "ten",
                           "1 2",
                           "2e-1",
                           "1e20",
                           "99999999999999999999",
                           "10M",
                           "10k"})
    EXPECT_FALSE(parse_count(text)) << text;
}

TEST(Quantity, ReadsSizes) {
  EXPECT_EQ(parse_size_bytes("64 MiB"), 64u << 20);
  EXPECT_EQ(parse_size_bytes("64MiB"), 64u << 20);
  EXPECT_EQ(parse_size_bytes("64M"), 64u << 20);
  EXPECT_EQ(parse_size_bytes("2 G"), 2ull << 30);
  EXPECT_EQ(parse_size_bytes("1.5 KiB"), 1536u);
  EXPECT_EQ(parse_size_bytes("10 MB"), 10'000'000u);
  EXPECT_EQ(parse_size_bytes("64 mib"), 64u << 20);
  EXPECT_EQ(parse_size_bytes("2g"), 2ull << 30);
  EXPECT_EQ(parse_size_bytes("512"), 512u);
  EXPECT_EQ(parse_size_bytes("512 B"), 512u);
  for (const char* text : {"MiB", "64 mim", "0.3 B", "-1 KiB", "1 KiB KiB", "16777216 TiB"})
    EXPECT_FALSE(parse_size_bytes(text)) << text;
}

TEST(Quantity, ReadsDurationsOnlyWithAUnit) {
  EXPECT_EQ(parse_duration_ms("10 s"), 10'000u);
  EXPECT_EQ(parse_duration_ms("500ms"), 500u);
  EXPECT_EQ(parse_duration_ms("0.5 s"), 500u);
  EXPECT_EQ(parse_duration_ms("2 min"), 120'000u);
  EXPECT_EQ(parse_duration_ms("1h"), 3'600'000u);
  EXPECT_EQ(parse_duration_ms("1d"), 86'400'000u);
  EXPECT_EQ(parse_duration_ms("1h30m"), 5'400'000u);
  for (const char* text : {"10", "10 sec", "0.5 ms", "1 w", "s", "1h 30m"})
    EXPECT_FALSE(parse_duration_ms(text)) << text;
  EXPECT_EQ(parse_duration_ms("10").error().hint,
            "write a duration, such as \"10 s\", \"500 ms\", \"2 min\", \"1 h\" or \"1h30m\"");
}

TEST(Quantity, FormatsSoThatItReadsBack) {
  for (const uint64_t value : {0ull, 1ull, 1000ull, 1024ull, 1536ull, 64ull << 20, 3ull << 30, ~0ull}) {
    EXPECT_EQ(parse_size_bytes(format_size(value)), value) << format_size(value);
    EXPECT_EQ(parse_duration_ms(format_duration(value)), value) << format_duration(value);
  }
  EXPECT_EQ(format_size(64u << 20), "64 MiB");
  EXPECT_EQ(format_duration(10'000), "10 s");
  EXPECT_EQ(format_count(50'000'000), "50,000,000");
  EXPECT_EQ(format_count(999), "999");
}

TEST(Quantity, ReadsAndFormatsTimes) {
  EXPECT_EQ(parse_time_ms("1970-01-01T00:00:00Z"), 0);
  EXPECT_EQ(parse_time_ms("2000-01-01T00:00:00Z"), 946'684'800'000);
  EXPECT_EQ(parse_time_ms("2000-02-29T12:34:56.789Z"), 951'827'696'789);
  for (const int64_t ms : {int64_t{0}, int64_t{-1}, int64_t{951'827'696'789}, int64_t{253'402'300'799'999}})
    EXPECT_EQ(parse_time_ms(format_time(ms)), ms) << format_time(ms);
  for (const char* text :
       {"", "2000-01-01", "2001-02-29T00:00:00Z", "2000-01-01T24:00:00Z", "2000-01-01 00:00:00Z",
        "2000-01-01T00:00:00+01:00", "2000-1-01T00:00:000Z", "-000-01-01T00:00:00Z"})
    EXPECT_FALSE(parse_time_ms(text)) << text;
}

}  // namespace
}  // namespace membrane::policy
