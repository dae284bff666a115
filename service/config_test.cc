#include "service/config.h"

#include <gtest/gtest.h>

#include <set>

namespace membrane::service {
namespace {

TEST(Config, TakesWhatTheFileSays) {
  Config config;
  const Status read = read_config(
      "[server]\nport = 0\nlisten = \"::1\"\n[quotas]\nfuel_a_day = 1000000000000\n[audit]\nenabled = "
      "false\n[workers]\naccepted_missing_walls = [\"seccomp\", \"net\"]\n",
      config);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(config.port, 0u);
  EXPECT_EQ(config.listen, "::1");
  EXPECT_EQ(config.quotas.fuel_a_day, 1'000'000'000'000u);
  EXPECT_FALSE(config.quotas.sandboxes);
  EXPECT_FALSE(config.audit);
  EXPECT_EQ(config.accepted_walls, (std::vector<std::string>{"seccomp", "net"}));
  EXPECT_EQ(config.threads, 8u);
}

TEST(Config, RefusesWhatItDoesNotKnow) {
  for (const char* text :
       {"x = 1", "[x]\ny = 1", "[server]\nports = 1", "[server]\nport = -1", "[server]\nport = true",
        "[server.port]\nx = 1", "[[server]]\nport = 1", "[sandboxes]\nmost_ttl_s = 1"}) {
    Config config;
    EXPECT_FALSE(read_config(text, config)) << text;
  }
}

TEST(Config, NamesTheTableOfAKeyOutsideOfTables) {
  Config config;
  const Status read = read_config("port = 3\n", config);
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().hint.find("[server]"), std::string::npos) << read.error().hint;
  EXPECT_NE(read.error().hint.find("port = "), std::string::npos) << read.error().hint;
}

TEST(Config, EveryFlagIsTaken) {
  for (const Setting& each : settings()) {
    if (each.flag.empty()) continue;
    Config config;
    CLI::App app;
    add_flags(app, config);
    EXPECT_NE(app.get_option_no_throw(std::string(each.flag)), nullptr) << each.flag;
  }
  Config config;
  CLI::App app;
  add_flags(app, config);
  app.parse("--packages --port 3");
  EXPECT_TRUE(config.packages);
  EXPECT_EQ(config.port, 3u);
}

TEST(Config, HasEachSettingOnce) {
  std::set<std::string_view> keys, flags;
  for (const Setting& each : settings()) {
    EXPECT_TRUE(keys.insert(each.key).second) << each.key;
    if (!each.flag.empty()) {
      EXPECT_TRUE(flags.insert(each.flag).second) << each.flag;
    }
    EXPECT_FALSE(each.help.empty());
  }
}

}  // namespace
}  // namespace membrane::service
