// What a sandbox's owner may do with its files, and what not.
#include "wasi/owner_files.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "wasi/program_testing.h"
#include "wasi/state.h"

namespace membrane::wasi {
namespace {

class OwnerFiles : public ::testing::Test {
 protected:
  host::HostResult<std::vector<FileFact>> act(FileAct act, std::string path, std::string to = {},
                                              bool is_deep = false) {
    return act_on_files(*program_.system, {act, std::move(path), std::move(to), is_deep});
  }
  host::Errno errno_of(FileAct what, std::string path, std::string to = {}, bool is_deep = false) {
    const auto done = act(what, std::move(path), std::move(to), is_deep);
    return done ? host::Errno::kOk : done.error().code;
  }
  std::vector<std::string> names(const std::string& path, bool is_deep = false) {
    std::vector<std::string> found;
    const auto facts = act(FileAct::kList, path, {}, is_deep);
    EXPECT_TRUE(facts) << facts.error().reason;
    if (!facts) return found;
    for (const FileFact& fact : *facts) found.push_back(fact.path);
    return found;
  }
  void put(std::string_view path, std::string_view bytes) {
    ASSERT_TRUE(program_.system->put_file(path, bytes));
  }

  Program program_;
};

using Names = std::vector<std::string>;

TEST_F(OwnerFiles, AreLookedAt) {
  put("/w/a.txt", "12345");
  const auto facts = act(FileAct::kStat, "/w/a.txt");
  ASSERT_TRUE(facts);
  ASSERT_EQ(facts->size(), 1u);
  EXPECT_EQ(facts->front().path, "/w/a.txt");
  EXPECT_EQ(facts->front().type, FileType::kRegularFile);
  EXPECT_EQ(facts->front().size_bytes, 5u);
  EXPECT_GT(facts->front().modified_ns, 0u);
  EXPECT_EQ(act(FileAct::kStat, "/w/")->front().type, FileType::kDirectory);
  EXPECT_EQ(act(FileAct::kStat, "/")->front().type, FileType::kDirectory);
  EXPECT_EQ(errno_of(FileAct::kStat, "/w/b"), host::Errno::kNotFound);
  EXPECT_EQ(errno_of(FileAct::kStat, "/w/a.txt/b"), host::Errno::kNotDir);
  EXPECT_EQ(errno_of(FileAct::kStat, "w"), host::Errno::kInvalid);
  EXPECT_EQ(errno_of(FileAct::kStat, ""), host::Errno::kInvalid);
  EXPECT_NE(errno_of(FileAct::kStat, "/../w"), host::Errno::kOk);
  EXPECT_EQ(errno_of(FileAct::kStat, std::string("/w\0a", 4)), host::Errno::kInvalid);
}

TEST(OwnerFilesOnARealClock, HaveTheTimeThatTheOwnerTells) {
  constexpr uint64_t kIn2023 = 1'700'000'000'000'000'000;
  policy::Policy policy;
  for (const bool is_real : {false, true}) {
    policy.time.real = is_real;
    Config config;
    config.policy = &policy;
    Program program(std::move(config));
    ASSERT_TRUE(act_on_files(*program.system, {.act = FileAct::kTellTime, .path = {}, .time_ns = kIn2023}));
    ASSERT_TRUE(program.system->put_file("/w/a", "a"));
    ASSERT_TRUE(act_on_files(*program.system, {.act = FileAct::kMakeDirectory, .path = "/d"}));
    for (const char* const path : {"/w/a", "/w", "/d"}) {
      const auto facts = act_on_files(*program.system, {.act = FileAct::kStat, .path = path});
      ASSERT_TRUE(facts);
      EXPECT_EQ(facts->front().modified_ns == kIn2023, is_real) << path;
    }
  }
}

TEST_F(OwnerFiles, AreNewerWhenTheyAreWrittenAgain) {
  put("/w/a.txt", "one");
  const uint64_t before = act(FileAct::kStat, "/w/a.txt")->front().modified_ns;
  put("/w/a.txt", "two");
  EXPECT_GT(act(FileAct::kStat, "/w/a.txt")->front().modified_ns, before);
}

TEST_F(OwnerFiles, AreListedByName) {
  put("/w/b", "");
  put("/w/a/c", "");
  put("/w/a/d/e", "");
  EXPECT_EQ(names("/w"), Names({"/w/a", "/w/b"}));
  EXPECT_EQ(names("/w/", true), Names({"/w/a", "/w/a/c", "/w/a/d", "/w/a/d/e", "/w/b"}));
  EXPECT_EQ(errno_of(FileAct::kList, "/w/b"), host::Errno::kNotDir);
  const Names top = names("/");
  EXPECT_NE(std::ranges::find(top, "/w"), top.end());
}

TEST_F(OwnerFiles, LinksAreNotFollowedBelow) {
  put("/w/a", "x");
  program_.symlink("..", "w/up");
  EXPECT_EQ(names("/w", true), Names({"/w/a", "/w/up"}));
  EXPECT_EQ(errno_of(FileAct::kRemove, "/w/up", "", true), host::Errno::kOk);
  EXPECT_EQ(names("/w"), Names({"/w/a"}));
}

TEST_F(OwnerFiles, DirectoriesAreMadeWithThoseAbove) {
  EXPECT_EQ(errno_of(FileAct::kMakeDirectory, "/a/b/c"), host::Errno::kOk);
  EXPECT_EQ(errno_of(FileAct::kMakeDirectory, "/a/b/c/"), host::Errno::kOk);
  EXPECT_EQ(act(FileAct::kStat, "/a/b/c")->front().type, FileType::kDirectory);
  put("/a/f", "");
  EXPECT_EQ(errno_of(FileAct::kMakeDirectory, "/a/f"), host::Errno::kNotDir);
  EXPECT_EQ(errno_of(FileAct::kMakeDirectory, "/a/f/g"), host::Errno::kNotDir);
  EXPECT_EQ(errno_of(FileAct::kMakeDirectory, "/"), host::Errno::kOk);
}

TEST_F(OwnerFiles, AreRemoved) {
  put("/w/a/b", "x");
  put("/w/c", "x");
  EXPECT_EQ(errno_of(FileAct::kRemove, "/w"), host::Errno::kNotEmpty);
  EXPECT_EQ(errno_of(FileAct::kRemove, "/w/c"), host::Errno::kOk);
  EXPECT_EQ(errno_of(FileAct::kRemove, "/w/c"), host::Errno::kNotFound);
  EXPECT_EQ(errno_of(FileAct::kRemove, "/w", "", true), host::Errno::kOk);
  EXPECT_EQ(errno_of(FileAct::kStat, "/w"), host::Errno::kNotFound);
  EXPECT_EQ(errno_of(FileAct::kRemove, "/", "", true), host::Errno::kInvalid);
  EXPECT_EQ(program_.system->state().files->broken_invariant({}), "");
}

TEST_F(OwnerFiles, WhatIsOpenIsReadToItsEnd) {
  put("/w/a", "still here");
  const int64_t opened = program_.open("w/a");
  EXPECT_EQ(errno_of(FileAct::kRemove, "/w", "", true), host::Errno::kOk);
  EXPECT_EQ(program_.read(static_cast<uint32_t>(opened)), "still here");
}

TEST_F(OwnerFiles, AreMoved) {
  put("/w/a", "1");
  put("/w/b", "2");
  EXPECT_EQ(errno_of(FileAct::kMove, "/w/a", "/w/b"), host::Errno::kOk);
  EXPECT_EQ(program_.system->read_file("/w/b").value(), "1");
  EXPECT_EQ(errno_of(FileAct::kMove, "/w/a", "/w/c"), host::Errno::kNotFound);
  EXPECT_EQ(errno_of(FileAct::kMove, "/w/b", "/none/c"), host::Errno::kNotFound);
  EXPECT_EQ(errno_of(FileAct::kMove, "/w", "/w/inside"), host::Errno::kInvalid);
  EXPECT_EQ(errno_of(FileAct::kMove, "/w", "/"), host::Errno::kInvalid);
  EXPECT_EQ(errno_of(FileAct::kMove, "/w", "/x"), host::Errno::kOk);
  EXPECT_EQ(names("/x"), Names({"/x/b"}));
}

TEST_F(OwnerFiles, DevicesStay) {
  EXPECT_EQ(errno_of(FileAct::kRemove, "/dev/null"), host::Errno::kAccess);
  EXPECT_EQ(errno_of(FileAct::kMove, "/dev/null", "/n"), host::Errno::kAccess);
}

}  // namespace
}  // namespace membrane::wasi
