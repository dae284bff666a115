#include "base/user_directory.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace membrane {
namespace {

// Each case runs in its own process, so that the variables are its own.
class UserDirectoryTest : public testing::Test {
 protected:
  UserDirectoryTest() {
    for (const char* each : {"XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"})
      unsetenv(each);
    setenv("HOME", "/home/a", 1);
  }
};

TEST_F(UserDirectoryTest, IsInTheHome) {
  EXPECT_EQ(user_path(UserDirectory::kCache, "a"), "/home/a/.cache/membrane/a");
  EXPECT_EQ(user_path(UserDirectory::kConfig, "a.json"), "/home/a/.config/membrane/a.json");
  EXPECT_EQ(user_path(UserDirectory::kData, "a"), "/home/a/.local/share/membrane/a");
  EXPECT_EQ(user_path(UserDirectory::kState, "a"), "/home/a/.local/state/membrane/a");
}

TEST_F(UserDirectoryTest, IsWhereItsVariableSays) {
  setenv("XDG_STATE_HOME", "/var/b", 1);
  EXPECT_EQ(user_path(UserDirectory::kState, "a"), "/var/b/membrane/a");
  EXPECT_EQ(user_path(UserDirectory::kData, "a"), "/home/a/.local/share/membrane/a");
}

TEST_F(UserDirectoryTest, IsNeverRelative) {
  setenv("XDG_STATE_HOME", "b", 1);
  EXPECT_EQ(user_path(UserDirectory::kState, "a"), "/home/a/.local/state/membrane/a");
  setenv("HOME", "home", 1);
  EXPECT_EQ(user_path(UserDirectory::kState, "a"), "");
  unsetenv("HOME");
  EXPECT_EQ(user_path(UserDirectory::kCache, "a"), "");
}

}  // namespace
}  // namespace membrane
