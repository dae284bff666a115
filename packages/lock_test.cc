#include "packages/lock.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace membrane::packages {
namespace {

const std::string kDigest(64, 'a');

Lock example() {
  Lock lock;
  lock.python = LockedLanguage{.asked = {"rich==13.7.1"},
                               .made_for = "3.15.0 abc",
                               .packages = {{"rich", "13.7.1", "rich-13.7.1-py3-none-any.whl", kDigest}},
                               .built_in = {"numpy==2.5.2"},
                               .package_lock = {}};
  lock.javascript = LockedLanguage{.asked = {"lodash"},
                                   .made_for = "npm",
                                   .packages = {{"lodash", "4.17.21", {}, {}}},
                                   .built_in = {},
                                   .package_lock = R"({"packages":{}})"};
  return lock;
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), by);
}

TEST(LockTest, ItsTextReadsBackToTheSameLock) {
  const auto read = read_lock(to_text(example()));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->python, example().python);
  EXPECT_EQ(read->javascript, example().javascript);
}

// Its contents are passed to pip and npm.
TEST(LockTest, WhatIsNoNameVersionOrDigestIsRefused) {
  const std::string text = to_text(example());
  for (const auto& [what, by] : {std::pair<std::string, std::string>{"\"rich\"", "\"--index-url=x\""},
                                 {"\"rich\"", "\"rich @ file:///x\""},
                                 {"\"13.7.1\"", "\"13.7.1 --pre\""},
                                 {"\"13.7.1\"", "\"13.*\""},
                                 {"\"13.7.1\"", "7"},
                                 {kDigest, "abc"},
                                 {kDigest, std::string(64, 'g')},
                                 {"3.15.0 abc", "3.15\\nx"},
                                 {"\"numpy==2.5.2\"", "\"-r x\""},
                                 {"\"membrane_lock\": 1", "\"membrane_lock\": 2"},
                                 {"\"lodash\"", "\"../x\""},
                                 {"\"package_lock\": {", "\"package_log\": {"}}) {
    const auto read = read_lock(replaced(text, what, by));
    EXPECT_FALSE(read) << what << " -> " << by;
  }
  EXPECT_FALSE(read_lock(""));
  EXPECT_FALSE(read_lock("[]"));
  EXPECT_FALSE(read_lock(R"({"membrane_lock": 1, "python": []})"));
}

TEST(LockTest, AFileIsReplacedAndReadableByOthers) {
  std::string directory = ::testing::TempDir() + "lock-XXXXXX";
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  const std::string path = directory + "/policy.toml.lock";
  ASSERT_TRUE(load_lock(path));
  EXPECT_FALSE(load_lock(path)->python);
  ASSERT_TRUE(save_lock(path, {}, LockPlace::kBesidePolicy));
  ASSERT_TRUE(save_lock(path, example(), LockPlace::kBesidePolicy));
  EXPECT_EQ(load_lock(path)->python, example().python);
  struct stat status{};
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  const mode_t mask = umask(0);
  umask(mask);
  EXPECT_EQ(status.st_mode & 0777, 0666 & ~mask);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory), {}), 1);
  EXPECT_FALSE(save_lock(directory + "/none/policy.lock", {}, LockPlace::kCache));
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace membrane::packages
