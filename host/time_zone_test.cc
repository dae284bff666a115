#include "host/time_zone.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace membrane::host {
namespace {

// A database with one zone, and a file that is not a zone.
class ADatabase : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = std::filesystem::path(::testing::TempDir()) /
                 (std::string("zones-") + ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(directory_ / "Test");
    put("Test/Zone", find_time_zone("+05:30")->tzif);
    put("Test/Short", find_time_zone("+05:30")->tzif.substr(0, 60));
    put("Test/Text", "no zone");
    setenv("TZDIR", directory_.c_str(), 1);
  }
  void put(const std::string& name, const std::string& content) {
    std::ofstream(directory_ / name, std::ios::binary) << content;
  }

  std::filesystem::path directory_;
};

TEST(TimeZone, OfAnOffsetHasOneType) {
  const auto zone = find_time_zone("+05:30");
  ASSERT_TRUE(zone);
  EXPECT_EQ(zone->name, "+05:30");
  EXPECT_TRUE(zone->tzif.starts_with("TZif2"));
  EXPECT_TRUE(zone->tzif.ends_with("\n<+0530>-05:30\n"));
  EXPECT_TRUE(find_time_zone("-03:00")->tzif.ends_with("\n<-03>03:00\n"));
  EXPECT_TRUE(find_time_zone("UTC")->tzif.ends_with("\nUTC0\n"));
}

TEST(TimeZone, OfAWrongNameIsAnError) {
  for (const char* const name :
       {"", "/etc/passwd", "../x", "Europe/../x", "Europe/", "+24:00", "+02:60", "a b", "Europe/Berlin.tab"})
    EXPECT_FALSE(find_time_zone(name)) << name;
}

TEST_F(ADatabase, IsLookedUpByName) {
  const auto zone = find_time_zone("Test/Zone");
  ASSERT_TRUE(zone);
  EXPECT_EQ(zone->name, "Test/Zone");
  EXPECT_EQ(zone->tzif, find_time_zone("+05:30")->tzif);
  for (const char* const name : {"Test/None", "Test/Short", "Test/Text", "Test"}) {
    const auto none = find_time_zone(name);
    ASSERT_FALSE(none) << name;
    EXPECT_EQ(none.error().code, ErrorCode::kNotFound);
  }
}

TEST_F(ADatabase, ThatIsNotThereIsToldOf) {
  setenv("TZDIR", (directory_ / "nowhere").c_str(), 1);
  const auto none = find_time_zone("Test/Zone");
  ASSERT_FALSE(none);
  EXPECT_TRUE(none.error().message.contains("no database"));
  EXPECT_TRUE(none.error().hint.contains("tzdata"));
}

}  // namespace
}  // namespace membrane::host
