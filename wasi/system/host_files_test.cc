// Granted directories of the host, through the real broker: granted operations work, and attempts to escape fail.
#include "wasi/system/host_files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "wasi/system/host_world_testing.h"

namespace membrane::wasi {
namespace {

namespace fs = std::filesystem;
using policy::FsMode;
using policy::Resource;
using Names = std::vector<std::string>;

TEST(WasiHost, ReadsWhatIsGranted) {
  HostWorld world;
  world.put("inside/a.txt", "hello");
  fs::create_directory(world.root / "inside/d");
  world.allow("/data", "inside", FsMode::kRead);
  Program program(world.config());
  EXPECT_EQ(program.get("data/a.txt"), "hello");
  EXPECT_EQ(program.get("data/d/../a.txt"), "hello");
  EXPECT_EQ(program.get("tmp/../data/./a.txt"), "hello");
  EXPECT_EQ(program.names("data"), (Names{"a.txt", "d/"}));
  EXPECT_EQ(program.stat("data/a.txt").size, 5u);
  EXPECT_EQ(program.stat("data").type, FileType::kDirectory);
  EXPECT_EQ(program.names("."), (Names{"data", "dev/", "tmp/"}));
  program.open("data/missing");
  EXPECT_EQ(program.error, Errno::kNoent);
  program.open("data/a.txt/");
  EXPECT_EQ(program.error, Errno::kNotdir);
  program.open("data/missing/../a.txt");
  EXPECT_EQ(program.error, Errno::kNoent);
}

TEST(WasiHost, WritesWhatIsGranted) {
  HostWorld world;
  world.allow("/out", "inside", FsMode::kWrite);
  Program program(world.config());
  EXPECT_EQ(program.put("out/a", "one"), Errno::kSuccess);
  EXPECT_EQ(world.got("inside/a"), "one");
  const auto file = static_cast<uint32_t>(program.open("out/a", 0, Program::kReadWrite, fdflag::kAppend));
  EXPECT_EQ(program.write(file, "+two"), 4);
  EXPECT_EQ(world.got("inside/a"), "one+two");
  EXPECT_EQ(program.call("fd_filestat_set_size", {file, 2}), Errno::kSuccess);
  EXPECT_EQ(world.got("inside/a"), "on");
  EXPECT_EQ(program.call("fd_sync", {file}), Errno::kSuccess);
  EXPECT_EQ(program.mkdir("out/d"), Errno::kSuccess);
  EXPECT_EQ(program.rename("out/a", "out/d/b"), Errno::kSuccess);
  EXPECT_EQ(program.rmdir("out/d"), Errno::kNotempty);
  EXPECT_EQ(program.rename("out/d", "tmp/d"), Errno::kXdev);
  EXPECT_EQ(program.unlink("out/d/b"), Errno::kSuccess);
  EXPECT_EQ(program.rmdir("out/d"), Errno::kSuccess);
  EXPECT_EQ(program.names("out"), Names());
  EXPECT_EQ(program.symlink("a", "out/l"), Errno::kPerm);
}

TEST(WasiHost, ASecondNameOfAHostFileIsNotWritten) {
  HostWorld world;
  world.put("inside/a", "kept");
  fs::create_hard_link(world.root / "inside/a", world.root / "inside/b");
  world.allow("/out", "inside", FsMode::kWrite);
  Program program(world.config());
  EXPECT_EQ(program.put("out/b", "x"), Errno::kAcces);
  EXPECT_EQ(world.got("inside/a"), "kept");
}

TEST(WasiHost, ARefusalSaysWhatWouldAllowIt) {
  HostWorld world;
  world.put("inside/a", "a");
  world.allow("/data", "inside", FsMode::kRead);
  Program program(world.config());
  EXPECT_EQ(program.put("data/a", "x"), Errno::kRofs);
  ASSERT_NE(program.system->last_denial(), nullptr);
  EXPECT_EQ(program.system->last_denial()->grant,
            "--allow fs:write:" + (world.root / "inside").string() + ":/data");
  EXPECT_EQ(program.mkdir("data/d"), Errno::kRofs);
  EXPECT_EQ(program.unlink("data/a"), Errno::kRofs);
  program.open("secrets/key");
  EXPECT_EQ(program.error, Errno::kNoent);
  EXPECT_EQ(program.system->last_denial()->grant, "--allow fs:read:HOST_DIRECTORY:/secrets");
}

TEST(WasiHost, MountsStayWhereTheyAre) {
  HostWorld world;
  fs::create_directory(world.root / "inside/ro");
  world.allow("/w", "inside", FsMode::kWrite);
  world.allow("/w/ro", "inside/ro", FsMode::kRead);
  Program program(world.config());
  EXPECT_EQ(program.rmdir("w"), Errno::kBusy);
  EXPECT_EQ(program.unlink("w"), Errno::kPerm);
  EXPECT_EQ(program.rename("w", "tmp/w"), Errno::kBusy);
  EXPECT_EQ(program.rename("w/ro", "w/x"), Errno::kXdev);
  EXPECT_EQ(program.rmdir("w/ro"), Errno::kRofs);
  EXPECT_EQ(program.put("w/ro/x", "x"), Errno::kRofs);
  EXPECT_EQ(program.put("w/x", "x"), Errno::kSuccess);
}

TEST(WasiHost, AGrantThatCannotBeMountedIsRefused) {
  HostWorld world;
  world.allow("/dev", "inside", FsMode::kRead);
  EXPECT_FALSE(System::create(world.config()));
  Config nobody;
  world.policy.fs[0].guest = "/data";
  nobody.policy = &world.policy;
  EXPECT_FALSE(System::create(std::move(nobody)));
}

TEST(WasiHost, ADirectoryAtTheRootIsHiddenByOwnNames) {
  HostWorld world;
  fs::create_directories(world.root / "inside/dev");
  fs::create_directories(world.root / "inside/tmp");
  world.put("inside/a", "of the host");
  world.put("inside/dev/null", "hidden");
  world.put("inside/tmp/x", "hidden");
  world.put("outside/data", "of another grant");
  world.allow("/", "inside", FsMode::kWrite);
  world.allow("/other", "outside", FsMode::kRead);
  Program program(world.config());
  EXPECT_EQ(program.get("a"), "of the host");
  EXPECT_EQ(program.get("dev/null"), "");
  EXPECT_EQ(program.open("tmp/x"), -1);
  EXPECT_EQ(program.get("other/data"), "of another grant");
  EXPECT_EQ(program.put("new", "made"), Errno::kSuccess);
  EXPECT_EQ(program.put("tmp/mine", "made"), Errno::kSuccess);
  EXPECT_EQ(program.rename("new", "newer"), Errno::kSuccess);
  EXPECT_EQ(program.rename("newer", "tmp/newer"), Errno::kXdev);
  EXPECT_EQ(world.got("inside/newer"), "made");
  EXPECT_FALSE(fs::exists(world.root / "inside/tmp/mine"));
  std::vector<std::string> names = program.names(".");
  std::ranges::sort(names);
  EXPECT_EQ(names, (std::vector<std::string>{"a", "dev/", "newer", "other", "tmp/"}));
  fs::remove_all(world.root / "inside/dev");
  fs::remove_all(world.root / "inside/tmp");
  names = program.names(".");
  std::ranges::sort(names);
  EXPECT_EQ(names, (std::vector<std::string>{"a", "newer", "other"})) << "what the directory does not have";
  EXPECT_EQ(program.get("tmp/mine"), "made");
  for (const char* path : {"../outside/secret", "..", "a/../../outside/secret"})
    EXPECT_EQ(program.open(path), -1) << path;
}

TEST(WasiHost, NoPathLeavesTheGrantedDirectory) {
  HostWorld world;
  fs::create_symlink("../outside", world.root / "inside/up");
  fs::create_symlink(world.root / "outside/secret", world.root / "inside/absolute");
  fs::create_symlink("/proc/self/root", world.root / "inside/magic");
  fs::create_symlink("a", world.root / "inside/fine");
  world.put("inside/a", "a");
  ASSERT_EQ(mkfifo((world.root / "inside/fifo").c_str(), 0666), 0);
  world.allow("/w", "inside", FsMode::kWrite);
  Program program(world.config());
  for (const char* path : {"w/up/secret", "w/absolute", "w/magic/etc/passwd", "w/fifo", "w/up", "w/up/new"}) {
    EXPECT_EQ(program.open(path), -1) << path;
    EXPECT_EQ(program.error, Errno::kAcces) << path;
    EXPECT_NE(program.put(path, "x"), Errno::kSuccess) << path;
    EXPECT_NE(program.unlink(path), Errno::kSuccess) << path;
    EXPECT_NE(program.mkdir(path), Errno::kSuccess) << path;
    EXPECT_NE(program.rename("w/a", path), Errno::kSuccess) << path;
  }
  // ".." is resolved by name, and never by the kernel.
  for (const char* path : {"w/../../outside/secret", "w/up/../../secret", "w/d/../../../x", "../w/a"})
    EXPECT_EQ(program.open(path), -1) << path;
  EXPECT_EQ(program.get("w/../w/a"), "a");
  // Links that stay inside are followed by reading only.
  EXPECT_EQ(program.get("w/fine"), "a");
  EXPECT_NE(program.put("w/fine", "x"), Errno::kSuccess);
  EXPECT_NE(program.unlink("w/fine"), Errno::kSuccess);
  EXPECT_EQ(world.got("inside/a"), "a");
  EXPECT_TRUE(world.is_outside_untouched());
}

TEST(WasiHost, LinksOfTheProgramsOwnLeadToGrantsAndNoFurther) {
  HostWorld world;
  world.put("inside/a", "a");
  world.allow("/data", "inside", FsMode::kRead);
  Program program(world.config());
  program.symlink("/data/a", "tmp/in");
  program.symlink("../data/../../etc/passwd", "tmp/out");
  EXPECT_EQ(program.get("tmp/in"), "a");
  EXPECT_EQ(program.open("tmp/out"), -1);
  EXPECT_EQ(program.error, Errno::kNotcapable);
}

TEST(WasiHost, AThreadThatSwapsADirectoryForALinkOpensNothing) {
  HostWorld world;
  fs::create_directory(world.root / "inside/d");
  world.put("inside/d/secret", "the guest's own");
  world.allow("/w", "inside", FsMode::kWrite);
  world.budget.set(Resource::kHostCalls, policy::Budget::kUnlimited);
  Program program(world.config());
  std::atomic<bool> stop{false};
  std::thread swapper([&] {
    while (!stop) {
      fs::rename(world.root / "inside/d", world.root / "inside/e");
      fs::create_symlink("../outside", world.root / "inside/d");
      fs::remove(world.root / "inside/d");
      fs::rename(world.root / "inside/e", world.root / "inside/d");
    }
  });
  for (int i = 0; i < 2'000; ++i) {
    const std::string text = program.get("w/d/secret");
    EXPECT_TRUE(text.empty() || text == "the guest's own") << text;
    const int64_t file = program.open("w/d/new", oflag::kCreat, Program::kReadWrite);
    if (file >= 0) {
      program.write(static_cast<uint32_t>(file), "x");
      program.close(static_cast<uint32_t>(file));
    }
    program.mkdir("w/d/made");
    program.unlink("w/d/new");
  }
  stop = true;
  swapper.join();
  EXPECT_TRUE(world.is_outside_untouched());
}

TEST(WasiHost, QuotasOfTheGrantAreExact) {
  HostWorld world;
  policy::FsGrant& grant = world.allow("/out", "inside", FsMode::kWrite);
  grant.max_file_bytes = 10;
  grant.max_total_bytes = 15;
  grant.max_files = 2;
  Program program(world.config());
  const auto file = static_cast<uint32_t>(program.open("out/a", oflag::kCreat, Program::kReadWrite));
  EXPECT_EQ(program.write(file, "0123456789"), 10);
  EXPECT_EQ(program.write(file, "x"), -1);
  EXPECT_EQ(program.error, Errno::kFbig);
  EXPECT_EQ(program.call("fd_filestat_set_size", {file, 11}), Errno::kFbig);
  program.seek(file, 0, Whence::kSet);
  EXPECT_EQ(program.write(file, "012345"), -1);
  EXPECT_EQ(program.error, Errno::kDquot);
  EXPECT_EQ(program.write(file, "01234"), 5);
  EXPECT_EQ(program.mkdir("out/d"), Errno::kSuccess);
  EXPECT_EQ(program.mkdir("out/e"), Errno::kDquot);
  EXPECT_EQ(program.open("out/f", oflag::kCreat, Program::kReadWrite), -1);
  EXPECT_EQ(program.error, Errno::kDquot);
}

TEST(WasiHost, PathsAreHostCallsAndReadsAreBytes) {
  HostWorld world;
  world.put("inside/a", std::string(100'000, 'x'));
  world.allow("/data", "inside", FsMode::kRead);
  world.budget.set(Resource::kHostCalls, 3);
  world.budget.set(Resource::kBytesIn, 60'000);
  Program program(world.config());
  const auto file = static_cast<uint32_t>(program.open("data/a"));
  EXPECT_EQ(world.budget.left(Resource::kHostCalls), 2u);
  for (int i = 0; i < 14; ++i) EXPECT_EQ(program.read(file).size(), 4'096u);
  EXPECT_EQ(world.budget.left(Resource::kHostCalls), 2u);
  EXPECT_EQ(program.read(file), "");
  EXPECT_EQ(program.error, Errno::kDquot);
  program.stat("data/a");
  program.stat("data/a");
  EXPECT_EQ(program.error, Errno::kSuccess);
  program.stat("data/a");
  EXPECT_EQ(program.error, Errno::kDquot);
}

TEST(WasiHost, TheReportHasOneLineForEachOpenedFile) {
  HostWorld world;
  world.put("inside/a", std::string(10'000, 'x'));
  world.allow("/data", "inside", FsMode::kRead);
  Program program(world.config());
  program.get("data/a");
  program.open("data/a");
  program.system->finish(program.guest);
  const auto records = program.system->take_records();
  ASSERT_EQ(records.size(), 4u);
  EXPECT_EQ(records[0].name, "fs.open");
  EXPECT_EQ(records[1].name, "fs.file_read");
  EXPECT_EQ(records[1].bytes_in, 10'000u);
  EXPECT_EQ(records[1].arguments, "/data/a");
  EXPECT_EQ(records[3].bytes_in, 0u);
  EXPECT_TRUE(program.system->take_records().empty());
}

// A turn closes its open files, and the next one reopens them.
TEST(WasiHost, AnErrorOfAnOpenFileIsReportedOnce) {
  HostWorld world;
  world.allow("/out", "inside", FsMode::kWrite).max_file_bytes = 10;
  Program program(world.config());
  const auto file = static_cast<uint32_t>(program.open("out/a", oflag::kCreat, Program::kReadWrite));
  EXPECT_EQ(program.write(file, "more than ten bytes"), -1);
  program.system->finish(program.guest);
  const auto first = program.system->take_records();
  ASSERT_EQ(first.size(), 2u);
  EXPECT_EQ(first[1].code, host::Errno::kTooBig);
  EXPECT_EQ(program.write(file, "few"), 3);
  program.system->finish(program.guest);
  const auto second = program.system->take_records();
  ASSERT_EQ(second.size(), 1u);
  EXPECT_EQ(second[0].name, "fs.file_written");
  EXPECT_EQ(second[0].code, host::Errno::kOk);
  EXPECT_EQ(second[0].reason, "");
  EXPECT_EQ(second[0].bytes_out, 3u);
}

TEST(WasiHost, AJournalAnswersWithoutTheWorld) {
  HostWorld world;
  world.put("inside/a", "hello");
  world.allow("/out", "inside", FsMode::kWrite);
  const auto act = [](Program& program) {
    std::string seen = program.get("out/a") + "|";
    program.put("out/b", "new");
    for (const std::string& name : program.names("out")) seen += name + ",";
    seen += std::to_string(program.stat("out/b").modified_ns);
    program.open("out/none");
    return seen + std::string(name_of(program.error));
  };
  Program program(world.config());
  const std::string first = act(program);
  EXPECT_NE(first.find("hello|a,b,"), std::string::npos) << first;
  fs::remove_all(world.root / "inside");
  host::BrokerGate replay = host::BrokerGate::to_journal(world.journal);
  Config config;
  config.policy = &world.policy;
  config.world.broker = &replay;
  Program again(std::move(config));
  EXPECT_EQ(act(again), first);
  EXPECT_EQ(replay.divergence(), std::nullopt);
  EXPECT_EQ(replay.entries_left(), 0u);
}

TEST(WasiHost, AFileIsLoadedAsTheProgramWouldReadIt) {
  HostWorld world;
  world.put("inside/a", std::string(600'000, 'a'));
  fs::create_symlink(world.root / "outside/secret", world.root / "inside/out");
  world.allow("/data", "inside", FsMode::kRead);
  Program program(world.config());
  program.put("tmp/own", "mine");
  const auto load = [&](const char* path, uint64_t most = 1u << 20) {
    return program.system->load_file(program.guest, path, most);
  };
  EXPECT_EQ(load("/data/a").value().size(), 600'000u);
  EXPECT_EQ(load("/tmp/../tmp/own").value(), "mine");
  EXPECT_EQ(load("/data/a", 1'000).error().code, host::Errno::kTooBig);
  EXPECT_EQ(load("/tmp/own", 3).error().code, host::Errno::kTooBig);
  EXPECT_EQ(load("/data/none").error().code, host::Errno::kNotFound);
  EXPECT_EQ(load("/data").error().code, host::Errno::kIsDir);
  EXPECT_EQ(load("/tmp").error().code, host::Errno::kIsDir);
  EXPECT_EQ(load("/dev/zero").error().code, host::Errno::kAccess);
  EXPECT_EQ(load("/data/out").error().code, host::Errno::kAccess);
  EXPECT_EQ(load("/../etc/passwd").error().code, host::Errno::kAccess);
  const auto elsewhere = load("/elsewhere/x");
  EXPECT_EQ(elsewhere.error().code, host::Errno::kAccess);
  EXPECT_NE(elsewhere.error().grant.find("/elsewhere"), std::string::npos);
  EXPECT_TRUE(std::ranges::any_of(program.system->take_records(), [](const host::CallRecord& record) {
    return record.name == "fs.file_read" && record.bytes_in == 600'000;
  }));
}

TEST(WasiHost, ALargeFileIsReadPieceByPiece) {
  HostWorld world;
  world.put("inside/big", "");
  fs::resize_file(world.root / "inside/big", 1ull << 30);
  world.allow("/data", "inside", FsMode::kRead).max_file_bytes = 2ull << 30;
  world.budget.set(Resource::kBytesIn, policy::Budget::kUnlimited);
  Program program(world.config());
  const auto file = static_cast<uint32_t>(program.open("data/big"));
  EXPECT_EQ(program.seek(file, -5, Whence::kEnd), Errno::kSuccess);
  EXPECT_EQ(program.read(file), std::string(5, '\0'));
  HostWorld small;
  small.put("inside/big", std::string(2'000, 'x'));
  small.allow("/data", "inside", FsMode::kRead).max_file_bytes = 1'000;
  Program other(small.config());
  EXPECT_EQ(other.open("data/big"), -1);
  EXPECT_EQ(other.error, Errno::kFbig);
}

TEST(WasiHost, AForkOpensItsFilesByName) {
  HostWorld world;
  world.put("inside/a", "0123456789");
  world.allow("/data", "inside", FsMode::kRead);
  Program program(world.config());
  const auto file = static_cast<uint32_t>(program.open("data/a"));
  EXPECT_EQ(program.read(file, 3), "012");
  ForkConfig fork{.fork_number = 1, .policy = &world.policy, .world = {.broker = &*world.gate}};
  Program child(program.system->fork(fork).value());
  EXPECT_EQ(child.read(file, 3), "345");
  EXPECT_EQ(program.read(file, 3), "345");
  // The forking side decides what is granted.
  Program closed(program.system->fork({.fork_number = 2}).value());
  EXPECT_EQ(closed.read(file, 3), "");
  EXPECT_EQ(closed.error, Errno::kNotsup);
  EXPECT_EQ(closed.names("data"), Names());
}

}  // namespace
}  // namespace membrane::wasi
