// Open files on the real file system. Ways out of a grant are tested by file_access_test.cc for what both share, and
// from a program's point of view in wasi/host_files_test.cc.
#include "host/files/file_handles.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "host/broker_gate.h"
#include "host/files/file_access.h"
#include "host/local_broker.h"

namespace membrane::host {
namespace {

namespace fs = std::filesystem;
using policy::FsMode;
using policy::Resource;

class Handles : public testing::TestWithParam<PathResolution> {
 public:
  ~Handles() override { fs::remove_all(root); }

 protected:
  Handles() {
    std::string name =
        (fs::is_directory("/dev/shm") ? "/dev/shm" : "/tmp") + std::string("/membrane_handles_XXXXXX");
    root = mkdtemp(name.data());
    std::ofstream(root / "a") << "hello";
    grant.guest = "/w";
    grant.host = root.string();
    grant.mode = FsMode::kWrite;
  }
  void SetUp() override {
    if (GetParam() == PathResolution::kOpenat2 && !has_openat2()) GTEST_SKIP() << "there is no openat2 here";
  }
  FileAccess& access() {
    if (!opened) opened = FileAccess::open({grant}, budget).value();  // throws when it is refused
    return *opened;
  }
  FileHandles& handles() { return access().handles(); }

  const PathResolutionForTesting resolution{GetParam()};
  fs::path root;
  policy::FsGrant grant;
  policy::Budget budget;
  std::unique_ptr<FileAccess> opened;
};

INSTANTIATE_TEST_SUITE_P(By, Handles, testing::Values(PathResolution::kOpenat2, PathResolution::kWalk),
                         [](const auto& way) { return std::string(name_of(way.param)); });

TEST_P(Handles, ReadAndWriteInPlace) {
  const FileHandle file = handles().open("/w/a", {.write = true})->handle;
  EXPECT_EQ(handles().read(file, 1, 3).value(), "ell");
  EXPECT_EQ(handles().read(file, 99, 3).value(), "");
  EXPECT_TRUE(handles().write(file, 4, "O!"));
  EXPECT_EQ(handles().status(file)->size_bytes, 6u);
  EXPECT_EQ(access().read("/w/a").value(), "hellO!");
  EXPECT_TRUE(handles().close(file));
  EXPECT_EQ(handles().read(file, 0, 1).error().code, Errno::kInvalid);
  EXPECT_EQ(handles().close(file).error().code, Errno::kInvalid);
}

TEST_P(Handles, OnesForReadingDoNotWrite) {
  const FileHandle file = handles().open("/w/a", {})->handle;
  EXPECT_EQ(handles().write(file, 0, "x").error().code, Errno::kInvalid);
  EXPECT_EQ(handles().resize(file, 0).error().code, Errno::kInvalid);
}

TEST_P(Handles, AreBounded) {
  for (size_t i = 0; i < FileHandles::kMostOpen; ++i) ASSERT_TRUE(handles().open("/w/a", {}));
  EXPECT_EQ(handles().open("/w/a", {}).error().code, Errno::kQuota);
}

TEST_P(Handles, ShareTheQuotasOfWholeFiles) {
  grant.max_total_bytes = 10;
  grant.max_files = 2;
  EXPECT_TRUE(access().write("/w/b", "123456", FileMode::kCreateOrReplace));
  const FileHandle file = handles().open("/w/c", {.write = true, .create = true})->handle;
  EXPECT_EQ(handles().write(file, 0, "12345").error().code, Errno::kQuota);
  EXPECT_TRUE(handles().write(file, 0, "1234"));
  EXPECT_EQ(handles().make_directory("/w/d").error().code, Errno::kQuota);
  EXPECT_EQ(access().write("/w/b", "1", FileMode::kAppend).error().code, Errno::kQuota);
}

TEST_P(Handles, SayWhatIsNotEmptyOrNotADirectory) {
  EXPECT_TRUE(handles().make_directory("/w/d"));
  EXPECT_TRUE(access().write("/w/d/x", "", FileMode::kCreateOrReplace));
  EXPECT_EQ(handles().remove_directory("/w/d").error().code, Errno::kNotEmpty);
  EXPECT_EQ(handles().remove_directory("/w/a").error().code, Errno::kNotDir);
  EXPECT_EQ(handles().unlink("/w/d").error().code, Errno::kIsDir);
  EXPECT_EQ(handles().rename("/w/d", "/w/d/e").error().code, Errno::kInvalid);
  EXPECT_EQ(handles().open("/w/d", {}).error().code, Errno::kIsDir);
  EXPECT_EQ(handles().open("/w/none/x", {.write = true, .create = true}).error().code, Errno::kNotFound);
}

TEST_P(Handles, MoveADirectoryNearerWhenItsLinksStayBeneath) {
  grant.links = true;
  fs::create_directories(root / "x/y/deep");
  fs::create_symlink("../inside", root / "x/y/deep/fine");
  fs::create_symlink("/etc/passwd", root / "x/y/absolute");  // leads out as much as before
  EXPECT_TRUE(handles().rename("/w/x/y", "/w/y"));
  fs::rename(root / "y", root / "x/y");
  fs::create_symlink("../../../a", root / "x/y/deep/up");
  EXPECT_EQ(handles().rename("/w/x/y", "/w/y").error().code, Errno::kUnsupported);
  EXPECT_TRUE(fs::exists(root / "x/y/deep/up"));
}

TEST_P(Handles, LinksTogetherDoNotLeadOut) {
  grant.links = true;
  EXPECT_TRUE(handles().make_directory("/w/d"));
  EXPECT_TRUE(handles().make_symlink("..", "/w/d/s"));
  EXPECT_EQ(handles().make_symlink("s/../secret", "/w/d/l").error().code, Errno::kAccess);
  EXPECT_EQ(handles().make_symlink("../d/s/../../secret", "/w/d/l").error().code, Errno::kAccess);
  EXPECT_TRUE(handles().make_symlink("./../d/./x", "/w/d/l"));
}

TEST_P(Handles, AreNotMovedNearerWithALinkThatGoesUpFromAName) {
  grant.links = true;
  fs::create_directories(root / "x/y/z");
  fs::create_symlink("z/../../../a", root / "x/y/up");
  EXPECT_EQ(handles().rename("/w/x/y", "/w/y").error().code, Errno::kUnsupported);
  EXPECT_EQ(handles().rename("/w/x/y/up", "/w/x/y/z/up").error().code, Errno::kAccess);
}

TEST_P(Handles, AreMovedByOneMembraneAtATime) {
  grant.links = true;
  fs::create_directories(root / "x/y");
  const Fd directory(open(root.c_str(), O_RDONLY | O_DIRECTORY));
  ASSERT_EQ(flock(directory.get(), LOCK_EX), 0);
  EXPECT_EQ(handles().rename("/w/x/y", "/w/y").error().code, Errno::kHost);
  EXPECT_EQ(handles().make_symlink("..", "/w/x/s").error().code, Errno::kHost);
  ASSERT_EQ(flock(directory.get(), LOCK_UN), 0);
  EXPECT_TRUE(handles().rename("/w/x/y", "/w/y"));
  EXPECT_TRUE(handles().make_symlink("..", "/w/x/s"));
  EXPECT_EQ(flock(directory.get(), LOCK_EX | LOCK_NB), 0) << "what took it has given it back";
}

TEST_P(Handles, WhatIsWrittenRunsAsNobodyElse) {
  ASSERT_EQ(chmod((root / "a").c_str(), 06755), 0);
  ASSERT_TRUE(handles().open("/w/a", {}));
  EXPECT_EQ(static_cast<unsigned>(fs::status(root / "a").permissions()), 06755u);
  ASSERT_TRUE(handles().open("/w/a", {.write = true}));
  EXPECT_EQ(static_cast<unsigned>(fs::status(root / "a").permissions()), 0755u);
  ASSERT_EQ(chmod((root / "a").c_str(), 06755), 0);
  ASSERT_TRUE(access().write("/w/a", "more", FileMode::kAppend));
  EXPECT_EQ(static_cast<unsigned>(fs::status(root / "a").permissions()), 0755u);
}

TEST_P(Handles, TakeTimesBefore1970) {
  ASSERT_TRUE(handles().set_times("/w/a", {.accessed_ns = {}, .modified_ns = -1'500'000'000}));
  EXPECT_EQ(handles().status("/w/a")->modified_ns, -1'500'000'000);
}

TEST_P(Handles, RefuseFifosWithoutWaiting) {
  ASSERT_EQ(mkfifo((root / "fifo").c_str(), 0666), 0);
  EXPECT_EQ(handles().open("/w/fifo", {}).error().code, Errno::kAccess);
  EXPECT_EQ(handles().open("/w/fifo", {.write = true}).error().code, Errno::kAccess);
  EXPECT_EQ(handles().unlink("/w/fifo").error().code, Errno::kAccess);
  EXPECT_TRUE(fs::exists(root / "fifo"));
}

TEST_P(Handles, ThroughTheGate256ReadsAreOneHostCallAndAllAreJournaled) {
  policy::Policy policy;
  policy.fs.push_back(grant);
  budget.set(Resource::kHostCalls, 2);
  LocalBroker local(policy, budget, nullptr, nullptr);
  Journal journal;
  BrokerGate gate = BrokerGate::to_world(local, &budget, &journal);
  const auto file = gate.file_open("/w/a", {});
  ASSERT_TRUE(file);
  EXPECT_EQ(budget.left(Resource::kHostCalls), 1u);
  for (int i = 0; i < 511; ++i) ASSERT_EQ(gate.file_read_at(file->handle, 0, 5).value(), "hello");
  EXPECT_EQ(budget.left(Resource::kHostCalls), 0u);
  EXPECT_EQ(gate.file_read_at(file->handle, 0, 5).error().code, Errno::kBudget);
  EXPECT_TRUE(gate.file_close(file->handle));

  BrokerGate replay = BrokerGate::to_journal(journal);
  const auto again = replay.file_open("/w/a", {});
  ASSERT_TRUE(again);
  EXPECT_EQ(again->handle, file->handle);
  EXPECT_EQ(again->status.size_bytes, 5u);
  EXPECT_EQ(replay.file_read_at(again->handle, 0, 5).value(), "hello");
  EXPECT_FALSE(replay.file_read_at(again->handle, 1, 5));
  EXPECT_TRUE(replay.divergence());
}

}  // namespace
}  // namespace membrane::host
