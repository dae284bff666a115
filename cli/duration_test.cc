#include "cli/duration.h"

#include <gtest/gtest.h>

namespace membrane::cli {
namespace {

TEST(Duration, HasUnits) {
  EXPECT_EQ(duration_ms("500ms"), 500u);
  EXPECT_EQ(duration_ms("30s"), 30'000u);
  EXPECT_EQ(duration_ms("10m"), 600'000u);
  EXPECT_EQ(duration_ms("10min"), 600'000u);
  EXPECT_EQ(duration_ms("1h"), 3'600'000u);
  EXPECT_EQ(duration_ms("2d"), 172'800'000u);
  EXPECT_EQ(duration_ms("0s"), 0u);
  EXPECT_EQ(duration_ms("1.5h"), 5'400'000u);
  EXPECT_EQ(duration_ms("1h30m"), 5'400'000u);
  EXPECT_EQ(duration_ms("1d2h3m4s5ms"), 93'784'005u);
  EXPECT_EQ(whole_seconds("1500ms"), 2u);
}

TEST(Duration, IsNeverBareAndNeverGuessed) {
  const auto bare = duration_ms("5");
  ASSERT_FALSE(bare);
  EXPECT_EQ(bare.error().message, "\"5\" has no unit");
  EXPECT_EQ(bare.error().hint,
            "Write it with its unit, as 500ms, 30s, 10m, 1h, 2d, or several together, as 1h30m.");
  EXPECT_EQ(duration_ms("1h30").error().message, "\"1h30\" has no unit");
  for (const char* const text : {"", "s", "2w", "-5s", "1h-1s", "5 s", "1,5h", "1..5h", "5S",
                                 "99999999999999999999s", "999999999999999d", "18446744073709551615ms1ms"}) {
    const auto refused = duration_ms(text);
    ASSERT_FALSE(refused) << text;
    EXPECT_EQ(refused.error().hint, bare.error().hint) << text;
  }
}

TEST(Duration, IsWrittenInItsLargestUnit) {
  EXPECT_EQ(duration_text(30ull * 86'400'000), "30d");
  EXPECT_EQ(duration_text(5'400'000), "90m");
  EXPECT_EQ(duration_text(90'000), "90s");
  EXPECT_EQ(duration_text(1500), "1500ms");
  EXPECT_EQ(duration_text(0), "0ms");
  for (const uint64_t ms : {1ull, 7'000ull, 3'600'000ull, 999'999'999'999'999'000ull})
    EXPECT_EQ(duration_ms(duration_text(ms)), ms);
}

}  // namespace
}  // namespace membrane::cli
