// Links of a granted directory of the host, through the real broker: they work if the grant allows links, and never
// lead out of it.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "wasi/host_world_testing.h"

namespace membrane::wasi {
namespace {

namespace fs = std::filesystem;
using policy::FsMode;
using Names = std::vector<std::string>;

// A world with a grant that has links, at /w.
struct LinkedWorld : HostWorld {
  LinkedWorld() { allow("/w", "inside", FsMode::kWrite).links = true; }
  void point(const std::string& target, const std::string& name) {
    ASSERT_EQ(symlink(target.c_str(), (root / "inside" / name).c_str()), 0);
  }
};

TEST(WasiLinks, AreMadeReadAndFollowed) {
  LinkedWorld world;
  Program program(world.config());
  EXPECT_EQ(program.mkdir("w/d"), Errno::kSuccess);
  EXPECT_EQ(program.put("w/d/file", "hello"), Errno::kSuccess);
  EXPECT_EQ(program.symlink("d/file", "w/to_file"), Errno::kSuccess);
  EXPECT_EQ(program.symlink("d", "w/to_dir"), Errno::kSuccess);
  EXPECT_EQ(program.readlink("w/to_file"), "d/file");
  EXPECT_EQ(program.readlink("w/to_dir"), "d");
  EXPECT_EQ(fs::read_symlink(world.root / "inside/to_file"), "d/file");
  EXPECT_EQ(program.get("w/to_file"), "hello");
  EXPECT_EQ(program.get("w/to_dir/file"), "hello");
  EXPECT_EQ(program.put("w/to_file", "changed"), Errno::kSuccess);
  EXPECT_EQ(world.got("inside/d/file"), "changed");
  EXPECT_TRUE(fs::is_symlink(world.root / "inside/to_file"));
  EXPECT_EQ(program.put("w/to_dir/new", "x"), Errno::kSuccess);
  EXPECT_EQ(world.got("inside/d/new"), "x");
  EXPECT_EQ(program.stat("w/to_file").type, FileType::kRegularFile);
  EXPECT_EQ(program.stat("w/to_file", 0).type, FileType::kSymbolicLink);
  EXPECT_EQ(program.stat("w/to_file", 0).size, 6u);
  EXPECT_EQ(program.names("w/to_dir"), (Names{"file", "new"}));
  EXPECT_EQ(program.names("w"), (Names{"d/", "to_dir", "to_file"}));
}

TEST(WasiLinks, DotDotBehindALinkIsTheParentOfWhatItLeadsTo) {
  LinkedWorld world;
  fs::create_directories(world.root / "inside/a/b");
  world.put("inside/a/here", "in a");
  world.put("inside/here", "above");
  world.point("a/b", "l");
  Program program(world.config());
  EXPECT_EQ(program.get("w/l/../here"), "in a");
  EXPECT_EQ(program.get("w/a/b/../../here"), "above");
  world.point("../l/../here", "a/again");
  EXPECT_EQ(program.get("w/a/again"), "in a");
}

TEST(WasiLinks, ALinkIsNotFollowedWhereThatIsNotAsked) {
  LinkedWorld world;
  world.put("inside/file", "kept");
  world.point("file", "l");
  world.point("nowhere", "dangling");
  Program program(world.config());
  EXPECT_EQ(program.open("w/l", 0, Program::kRead, 0, Program::kRoot, 0), -1);
  EXPECT_EQ(program.error, Errno::kLoop);
  EXPECT_EQ(program.open("w/dangling", 0, Program::kRead, 0, Program::kRoot, 0), -1);
  EXPECT_EQ(program.error, Errno::kLoop);
  EXPECT_EQ(program.open("w/l", oflag::kCreat | oflag::kExcl, Program::kReadWrite), -1);
  EXPECT_EQ(program.error, Errno::kExist);
  EXPECT_EQ(program.open("w/dangling"), -1);
  EXPECT_EQ(program.error, Errno::kNoent);
  EXPECT_EQ(program.put("w/dangling", "made"), Errno::kSuccess);
  EXPECT_EQ(world.got("inside/nowhere"), "made");
  EXPECT_EQ(program.rename("w/l", "w/m"), Errno::kSuccess);
  EXPECT_EQ(program.readlink("w/m"), "file");
  EXPECT_EQ(program.unlink("w/m"), Errno::kSuccess);
  EXPECT_EQ(world.got("inside/file"), "kept");
  EXPECT_EQ(program.symlink("x", "w/file"), Errno::kExist);
  EXPECT_EQ(program.symlink("x", "w/file/"), Errno::kExist);
  EXPECT_EQ(program.symlink("x", "w/free/"), Errno::kNoent);
}

TEST(WasiLinks, NoneLeadsOut) {
  LinkedWorld world;
  fs::create_directories(world.root / "inside/a/b");
  world.point("../outside/secret", "up");
  world.point((world.root / "outside/secret").string(), "absolute");
  world.point((world.root / "inside/a").string(), "absolute_inside");
  world.point("../outside", "dir");
  world.point("a/b/../../../outside/secret", "winding");
  world.point("/proc/self/root", "magic");
  world.point("up", "chain");
  Program program(world.config());
  for (const char* path : {"w/up", "w/absolute", "w/absolute_inside", "w/dir/secret", "w/winding",
                           "w/magic/etc/passwd", "w/chain"}) {
    EXPECT_EQ(program.open(path), -1) << path;
    EXPECT_TRUE(program.error == Errno::kNotcapable || program.error == Errno::kAcces) << path;
    EXPECT_NE(program.put(path, "x"), Errno::kSuccess) << path;
    EXPECT_EQ(program.stat(path).type, FileType::kUnknown) << path;
  }
  EXPECT_NE(program.mkdir("w/dir/new"), Errno::kSuccess);
  EXPECT_NE(program.unlink("w/dir/secret"), Errno::kSuccess);
  EXPECT_NE(program.rename("w/dir/secret", "w/mine"), Errno::kSuccess);
  EXPECT_NE(program.link("w/dir/secret", "w/mine"), Errno::kSuccess);
  EXPECT_TRUE(world.is_outside_untouched());
}

TEST(WasiLinks, NoneLeadsIntoTheProgramsOwnFilesOrASiblingGrant) {
  LinkedWorld world;
  fs::create_directories(world.root / "inside/ro/deep");
  world.put("inside/x", "above");
  world.allow("/other", "outside", FsMode::kRead);
  world.allow("/w/ro", "inside/ro", FsMode::kRead).links = true;
  world.point("../other/secret", "to_sibling");
  world.point("../tmp/mine", "to_own");
  world.point("../x", "ro/above_its_grant");
  world.point("deep/../..", "ro/winding");
  Program program(world.config());
  EXPECT_EQ(program.put("tmp/mine", "own"), Errno::kSuccess);
  for (const char* path : {"w/to_sibling", "w/to_own", "w/ro/above_its_grant", "w/ro/winding/x"}) {
    EXPECT_EQ(program.get(path), "") << path;
    EXPECT_EQ(program.error, Errno::kNotcapable) << path;
  }
  // A ".." in the program's own path may.
  EXPECT_EQ(program.get("w/ro/../../tmp/mine"), "own");
}

TEST(WasiLinks, NoneIsMadeThatLeadsOut) {
  LinkedWorld world;
  Program program(world.config());
  program.mkdir("w/a");
  EXPECT_EQ(program.symlink("/etc/passwd", "w/l"), Errno::kPerm);
  EXPECT_EQ(program.symlink("../outside/secret", "w/l"), Errno::kPerm);
  EXPECT_EQ(program.symlink("../../x", "w/a/l"), Errno::kPerm);
  EXPECT_EQ(program.symlink("a/../../x", "w/l"), Errno::kPerm);
  EXPECT_EQ(program.symlink("../x", "w/a/l"), Errno::kSuccess);
  EXPECT_NE(program.rename("w/a/l", "w/l"), Errno::kSuccess);
  EXPECT_NE(program.link("w/a/l", "w/l"), Errno::kSuccess);
  EXPECT_FALSE(fs::is_symlink(world.root / "inside/l"));
}

TEST(WasiLinks, LoopsEnd) {
  LinkedWorld world;
  world.point("b", "a");
  world.point("a", "b");
  world.point("self/self", "self");
  Program program(world.config());
  program.open("w/a");
  EXPECT_EQ(program.error, Errno::kLoop);
  program.open("w/self/x");
  EXPECT_EQ(program.error, Errno::kLoop);
  EXPECT_EQ(program.readlink("w/a"), "b");
}

TEST(WasiLinks, LeadIntoAnotherGrantUnderItsRules) {
  LinkedWorld world;
  fs::create_directory(world.root / "inside/ro");
  world.put("inside/ro/x", "kept");
  world.allow("/w/ro", "inside/ro", FsMode::kRead);
  world.point("ro/x", "l");
  world.point("ro", "d");
  Program program(world.config());
  EXPECT_EQ(program.get("w/l"), "kept");
  EXPECT_EQ(program.put("w/l", "x"), Errno::kRofs);
  EXPECT_EQ(program.put("w/d/y", "x"), Errno::kRofs);
  EXPECT_EQ(program.link("w/ro/x", "w/mine"), Errno::kXdev);
  EXPECT_EQ(world.got("inside/ro/x"), "kept");
}

TEST(WasiLinks, AreRefusedWhereTheGrantHasNone) {
  LinkedWorld world;
  world.policy.fs[0].links = false;
  world.put("inside/file", "f");
  world.point("file", "l");
  Program program(world.config());
  EXPECT_EQ(program.symlink("file", "w/new"), Errno::kPerm);
  EXPECT_EQ(program.link("w/file", "w/new"), Errno::kPerm);
  program.readlink("w/l");
  EXPECT_EQ(program.error, Errno::kInval);
  EXPECT_EQ(program.get("w/l"), "f");
  EXPECT_EQ(program.put("w/l", "x"), Errno::kAcces);
  world.policy.fs[0].links = true;
  world.policy.fs[0].mode = FsMode::kRead;
  Program reader(world.config());
  EXPECT_EQ(reader.symlink("file", "w/new"), Errno::kRofs);
  EXPECT_EQ(reader.link("w/file", "w/new"), Errno::kRofs);
  EXPECT_EQ(reader.readlink("w/l"), "file");
}

TEST(WasiLinks, AFileHasOneIdentityUnderAllItsNames) {
  LinkedWorld world;
  Program program(world.config());
  program.put("w/one", "text");
  const Stat before = program.stat("w/one");
  EXPECT_EQ(program.link("w/one", "w/two"), Errno::kSuccess);
  const Stat one = program.stat("w/one"), two = program.stat("w/two");
  EXPECT_EQ(before.inode, one.inode);
  EXPECT_EQ(one.inode, two.inode);
  EXPECT_EQ(one.links, 2u);
  EXPECT_EQ(program.put("w/two", "changed"), Errno::kSuccess);
  EXPECT_EQ(program.get("w/one"), "changed");
  EXPECT_EQ(program.unlink("w/one"), Errno::kSuccess);
  EXPECT_EQ(program.stat("w/two").links, 1u);
  EXPECT_EQ(program.put("w/two", "again"), Errno::kSuccess);
  EXPECT_EQ(program.link("w", "w/dir"), Errno::kAcces);
  EXPECT_EQ(program.link("w/two", "w/two"), Errno::kExist);
}

TEST(WasiLinks, AFileWithANameFromElsewhereIsNotWritten) {
  LinkedWorld world;
  fs::create_hard_link(world.root / "outside/secret", world.root / "inside/hard");
  Program program(world.config());
  EXPECT_EQ(program.put("w/hard", "x"), Errno::kAcces);
  EXPECT_EQ(program.link("w/hard", "w/harder"), Errno::kAcces);
  EXPECT_EQ(program.put("w/harder", "new"), Errno::kSuccess);
  EXPECT_EQ(world.got("outside/secret"), "the secret");
}

TEST(WasiLinks, AListingHasTheNumbersThatStatHas) {
  LinkedWorld world;
  fs::create_directory(world.root / "inside/d");
  Program program(world.config());
  const auto directory = static_cast<uint32_t>(program.open("w/d", oflag::kDirectory));
  const uint32_t to = (program.free_memory(), program.room(256)), used = program.room(4);
  ASSERT_EQ(program.call("fd_readdir", {directory, to, 256, 0, used}), Errno::kSuccess);
  ASSERT_EQ(program.load<uint32_t>(used), 2 * kDirentBytes + 3);
  const auto itself = program.load<uint64_t>(to + 8),
             parent = program.load<uint64_t>(to + kDirentBytes + 1 + 8);
  EXPECT_EQ(itself, program.stat("w/d").inode);
  EXPECT_EQ(parent, program.stat("w").inode);
}

TEST(WasiLinks, TimesOfALinkAreItsOwn) {
  LinkedWorld world;
  Program program(world.config());
  program.put("w/file", "x");
  program.symlink("file", "w/l");
  const uint64_t was = program.stat("w/file").modified_ns;
  const uint32_t at = (program.free_memory(), program.place("w/l"));
  EXPECT_EQ(
      program.call("path_filestat_set_times", {Program::kRoot, 0, at, 3, 0, 5'000'000'000, fstflag::kMtim}),
      Errno::kSuccess);
  EXPECT_EQ(program.stat("w/l", 0).modified_ns, 5'000'000'000u);
  EXPECT_EQ(program.stat("w/file").modified_ns, was);
}

TEST(WasiLinks, CountInTheGrantsFiles) {
  LinkedWorld world;
  world.policy.fs[0].max_files = 3;
  Program program(world.config());
  EXPECT_EQ(program.put("w/f", "x"), Errno::kSuccess);
  EXPECT_EQ(program.symlink("f", "w/l"), Errno::kSuccess);
  EXPECT_EQ(program.link("w/f", "w/h"), Errno::kSuccess);
  EXPECT_EQ(program.symlink("f", "w/m"), Errno::kDquot);
  EXPECT_EQ(program.link("w/f", "w/i"), Errno::kDquot);
}

// Another thread on the host swaps a directory for a link that leads out, as fast as it can.
TEST(WasiLinks, ThreadsThatSwapALinkGetNothingOut) {
  LinkedWorld world;
  fs::create_directory(world.root / "inside/real");
  world.put("inside/real/secret", "harmless");
  fs::create_symlink("../outside", world.root / "inside/evil");
  fs::create_symlink("real", world.root / "inside/good");
  fs::create_symlink("real", world.root / "inside/x");
  std::atomic<bool> stop = false;
  std::thread swapper([&] {
    while (!stop) {
      for (const char* target : {"../outside", "real", "good/../../outside", "evil"}) {
        const fs::path fresh = world.root / "inside/fresh";
        std::error_code ignored;
        fs::remove(fresh, ignored);
        fs::create_symlink(target, fresh, ignored);
        fs::rename(fresh, world.root / "inside/x", ignored);
      }
    }
  });
  Program program(world.config());
  for (int i = 0; i < 1'000; ++i) {
    const std::string got = program.get("w/x/secret");
    EXPECT_TRUE(got.empty() || got == "harmless" || got == "mine") << got;
    program.put("w/x/secret", "mine");
    program.put("w/x/new", "mine");
    program.unlink("w/x/new");
    program.link("w/x/secret", "w/taken");
    EXPECT_NE(program.get("w/taken"), "the secret");
    program.unlink("w/taken");
  }
  stop = true;
  swapper.join();
  EXPECT_TRUE(world.is_outside_untouched());
}

TEST(WasiLinks, AreAnsweredFromTheJournal) {
  LinkedWorld world;
  world.put("inside/file", "text");
  world.point("file", "l");
  std::string first;
  {
    Config config = world.config();
    world.gate.emplace(host::BrokerGate::to_world(*world.local, &world.budget, &world.journal));
    config.world.broker = &*world.gate;
    Program program(std::move(config));
    first = program.readlink("w/l") + program.get("w/l") + std::to_string(program.stat("w/l").inode);
    EXPECT_EQ(program.names("w"), (Names{"file", "l"}));
  }
  fs::remove_all(world.root / "inside");
  host::BrokerGate replay = host::BrokerGate::to_journal(world.journal);
  Config config;
  config.policy = &world.policy;
  config.world.broker = &replay;
  Program program(std::move(config));
  EXPECT_EQ(program.readlink("w/l") + program.get("w/l") + std::to_string(program.stat("w/l").inode), first);
  EXPECT_EQ(program.names("w"), (Names{"file", "l"}));
  EXPECT_FALSE(replay.divergence());
}

}  // namespace
}  // namespace membrane::wasi
