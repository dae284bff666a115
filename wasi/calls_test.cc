// Clocks, waiting, rights, quotas, and hostile arguments.
#include <gtest/gtest.h>

#include <random>
#include <stdexcept>

#include "wasi/host_world_testing.h"
#include "wasi/state.h"

namespace membrane::wasi {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

uint64_t now(Program& program, ClockId clock) {
  program.free_memory();
  const uint32_t to = program.room(8);
  EXPECT_EQ(program.call("clock_time_get", {static_cast<uint64_t>(clock), 0, to}), Errno::kSuccess);
  return program.load<uint64_t>(to);
}

// -- clocks --------------------------------------------------------------------------------

TEST(WasiClocks, TheVirtualOnesMoveOnTogether) {
  policy::Policy policy;
  policy.time.start_ms = 5'000;
  Config config;
  config.policy = &policy;
  Program program(std::move(config));
  EXPECT_EQ(now(program, ClockId::kMonotonic), kSecond) << "0 would look like a clock that was never started";
  EXPECT_EQ(now(program, ClockId::kRealtime), 5'001'000'000u);
  EXPECT_EQ(now(program, ClockId::kProcessCpu), 2'000'000u);
  EXPECT_EQ(now(program, ClockId::kThreadCpu), 3'000'000u);
  EXPECT_EQ(program.call("clock_time_get", {4, 0, 64}), Errno::kInval);
  EXPECT_EQ(program.call("clock_res_get", {1, 64}), Errno::kSuccess);
  EXPECT_EQ(program.load<uint64_t>(64), 1'000'000u);
  EXPECT_EQ(program.call("clock_res_get", {9, 64}), Errno::kInval);
}

TEST(WasiClocks, TheRealOneNeedsItsGrantAndNeverGoesBack) {
  HostWorld world;
  world.policy.time.real = true;
  Program program(world.config());
  EXPECT_GT(now(program, ClockId::kRealtime), 1'600'000'000 * kSecond);
  const uint64_t first = now(program, ClockId::kMonotonic);
  EXPECT_LT(first, 600 * kSecond);
  EXPECT_GE(now(program, ClockId::kMonotonic), first);
  EXPECT_EQ(world.journal.entries().size(), 3u);
}

TEST(WasiClocks, FilesHaveTheRealTimeBeforeTheProgramLooksAtAClock) {
  HostWorld world;
  world.policy.time.real = true;
  Program program(world.config());
  constexpr uint64_t kIn2020 = 1'577'836'800 * kSecond;
  const auto file = static_cast<uint32_t>(program.open("tmp/a", oflag::kCreat, Program::kReadWrite));
  EXPECT_EQ(world.journal.entries().size(), 1u);
  program.write(file, "0123456789");
  program.write(file, "0123456789");
  EXPECT_EQ(world.journal.entries().size(), 1u) << "writing asks the host for nothing";
  const uint64_t made = program.stat("tmp/a").modified_ns;
  EXPECT_GT(made, kIn2020);
  program.open("tmp/a");
  EXPECT_EQ(world.journal.entries().size(), 1u) << "nor does reading";
  program.open("tmp/a", 0, Program::kReadWrite);
  EXPECT_EQ(world.journal.entries().size(), 2u);
  program.free_memory();
  const uint32_t name = program.place("tmp/b");
  EXPECT_EQ(program.call("path_create_directory", {3, name, 5}), Errno::kSuccess);
  EXPECT_GE(program.stat("tmp/b").modified_ns, made);
  EXPECT_GE(now(program, ClockId::kRealtime), program.stat("tmp/b").modified_ns);

  Program closed;
  closed.put("tmp/a", "a");
  EXPECT_EQ(closed.stat("tmp/a").modified_ns, 946'684'800 * kSecond);
}

// -- poll_oneoff --------------------------------------------------------------------------------

struct Asked {
  uint64_t userdata;
  uint8_t tag;
  uint32_t id;
  uint64_t timeout = 0;
  uint16_t flags = 0;
};
struct Seen {
  uint64_t userdata;
  Errno error;
  uint8_t type;
  uint64_t bytes;
  uint16_t flags;
  bool operator==(const Seen&) const = default;
};

std::vector<Seen> poll(Program& program, const std::vector<Asked>& asked) {
  program.free_memory();
  const auto count = static_cast<uint32_t>(asked.size());
  const uint32_t from = program.room(count * kSubscriptionBytes), to = program.room(count * kEventBytes);
  const uint32_t seen = program.room(4);
  for (uint32_t i = 0; i < count; ++i) {
    const auto bytes = program.guest.memory().subspan(from + i * kSubscriptionBytes, kSubscriptionBytes);
    StructWriter out(bytes);
    out.put(0, asked[i].userdata);
    out.put(8, asked[i].tag);
    out.put(16, asked[i].id);
    out.put(24, asked[i].timeout);
    out.put(40, asked[i].flags);
  }
  program.error = program.call("poll_oneoff", {from, to, count, seen});
  std::vector<Seen> events;
  if (program.error != Errno::kSuccess || program.outcome.end != End::kReturn) return events;
  for (uint32_t i = 0, at = to; i < program.load<uint32_t>(seen); ++i, at += kEventBytes)
    events.push_back({program.load<uint64_t>(at), static_cast<Errno>(program.load<uint16_t>(at + 8)),
                      program.load<uint8_t>(at + 10), program.load<uint64_t>(at + 16),
                      program.load<uint16_t>(at + 24)});
  return events;
}

TEST(WasiPoll, ASleepMovesTheVirtualClockAndTakesNoTime) {
  Program program;
  EXPECT_EQ(poll(program, {{7, 0, 1, 3'600 * kSecond}}), (std::vector<Seen>{{7, Errno::kSuccess, 0, 0, 0}}));
  EXPECT_EQ(now(program, ClockId::kMonotonic), 3'601 * kSecond);
  // An absolute time on another clock; the longer wait is not over.
  const uint64_t wanted = now(program, ClockId::kRealtime) + kSecond;
  EXPECT_EQ(poll(program, {{1, 0, 0, wanted, 1}, {2, 0, 1, 5 * kSecond}}).size(), 1u);
  EXPECT_EQ(now(program, ClockId::kRealtime), wanted);
  EXPECT_EQ(poll(program, {{1, 0, 0, 1, 1}}).size(), 1u);
  EXPECT_EQ(now(program, ClockId::kRealtime), wanted + 1'000'000);
}

TEST(WasiPoll, TellsWhatIsReadyAndWhatIsWrong) {
  Config config;
  config.stdin_text = "abc";
  Program program(std::move(config));
  program.put("tmp/a", "12345");
  const auto file = static_cast<uint32_t>(program.open("tmp/a"));
  EXPECT_EQ(
      poll(program, {{1, 1, 0}, {2, 2, 1}, {3, 1, file}, {4, 1, 99}, {5, 0, 77}, {6, 2, 0}, {7, 0, 1, 1}}),
      (std::vector<Seen>{{1, Errno::kSuccess, 1, 3, 0},
                         {2, Errno::kSuccess, 2, 0, 0},
                         {3, Errno::kSuccess, 1, 5, 0},
                         {4, Errno::kBadf, 1, 0, 0},
                         {5, Errno::kInval, 0, 0, 0},
                         {6, Errno::kNotcapable, 2, 0, 0}}));
  program.read(0);
  EXPECT_EQ(poll(program, {{1, 1, 0}}), (std::vector<Seen>{{1, Errno::kSuccess, 1, 0, 1}}));
  EXPECT_TRUE(poll(program, {}).empty());
  EXPECT_EQ(program.error, Errno::kInval);
  poll(program, {{1, 9, 0}});
  EXPECT_EQ(program.error, Errno::kInval);
}

TEST(WasiPoll, WaitsForStdinOrForTheClockBesideIt) {
  Config config;
  config.stdin_waits = true;
  Program program(std::move(config));
  const uint64_t fuel = program.guest.fuel;
  poll(program, {{1, 1, 0}});
  EXPECT_EQ(program.outcome.end, End::kWait);
  EXPECT_EQ(program.guest.fuel, fuel);
  EXPECT_EQ(poll(program, {{1, 1, 0}, {2, 0, 1, kSecond}}),
            (std::vector<Seen>{{2, Errno::kSuccess, 0, 0, 0}}));
  program.system->give_stdin("x");
  EXPECT_EQ(poll(program, {{1, 1, 0}}).size(), 1u);
  program.call("fd_fdstat_set_flags", {0, fdflag::kNonblock});
  program.read(0);
  program.read(0);
  EXPECT_EQ(program.error, Errno::kAgain);
}

TEST(WasiPoll, ARealSleepIsItsOwnersToGrant) {
  HostWorld world;
  world.policy.time.real = true;
  Config config = world.config();
  std::vector<uint64_t> waits;
  config.world.wait = [&](uint64_t ns) {
    waits.push_back(ns);
    return waits.size() < 2;
  };
  Program program(std::move(config));
  EXPECT_EQ(poll(program, {{1, 0, 1, 5 * kSecond}}).size(), 1u);
  poll(program, {{1, 0, 1, kSecond}});
  EXPECT_EQ(program.error, Errno::kIntr);
  EXPECT_EQ(waits, (std::vector<uint64_t>{5 * kSecond, kSecond}));
}

// -- descriptors -------------------------------------------------------------------------------

TEST(WasiDescriptors, SeekPreadAndPwriteLeaveEachOtherAlone) {
  Program program;
  const auto file = static_cast<uint32_t>(program.open("tmp/a", oflag::kCreat, Program::kReadWrite));
  program.write(file, "0123456789");
  program.free_memory();
  const uint32_t vectors = program.room(16), count = program.room(4), at = program.place("abcd");
  program.guest.poke(vectors, at);
  program.guest.poke(vectors + 4, 2);
  program.guest.poke(vectors + 8, at + 2);
  program.guest.poke(vectors + 12, 2);
  EXPECT_EQ(program.call("fd_pwrite", {file, vectors, 2, 3, count}), Errno::kSuccess);
  EXPECT_EQ(program.load<uint32_t>(count), 4u);
  EXPECT_EQ(program.call("fd_pread", {file, vectors, 2, 8, count}), Errno::kSuccess);
  EXPECT_EQ(program.load<uint32_t>(count), 2u);
  EXPECT_EQ(program.bytes(at, 2), "89");
  EXPECT_EQ(program.call("fd_pread", {file, vectors, 2, ~0ull, count}), Errno::kInval);
  uint64_t stands = 0;
  program.seek(file, 0, Whence::kCur, &stands);
  EXPECT_EQ(stands, 10u);
  EXPECT_EQ(program.call("fd_tell", {file, count}), Errno::kSuccess);
  EXPECT_EQ(program.get("tmp/a"), "012abcd789");
  EXPECT_EQ(program.call("fd_allocate", {file, 8, 8}), Errno::kSuccess);
  EXPECT_EQ(program.stat("tmp/a").size, 16u);
  EXPECT_EQ(program.call("fd_allocate", {file, 0, 8}), Errno::kSuccess);
  EXPECT_EQ(program.stat("tmp/a").size, 16u);
  EXPECT_EQ(program.call("fd_allocate", {file, ~0ull, 8}), Errno::kInval);
  EXPECT_EQ(program.call("fd_advise", {file, 0, 0, 5}), Errno::kSuccess);
  EXPECT_EQ(program.call("fd_advise", {file, 0, 0, 6}), Errno::kInval);
  EXPECT_EQ(program.seek(file, INT64_MIN, Whence::kCur), Errno::kInval);
  EXPECT_EQ(program.seek(file, INT64_MAX, Whence::kEnd), Errno::kInval);
}

TEST(WasiDescriptors, ARenumberedOneReplaces) {
  Program program;
  program.put("tmp/a", "a");
  const auto file = static_cast<uint32_t>(program.open("tmp/a"));
  EXPECT_EQ(program.call("fd_renumber", {file, 99}), Errno::kBadf);
  EXPECT_EQ(program.call("fd_renumber", {file, 0}), Errno::kSuccess);
  EXPECT_EQ(program.read(0), "a");
  EXPECT_EQ(program.close(file), Errno::kBadf);
  EXPECT_EQ(program.open("tmp/a"), file);
}

TEST(WasiDescriptors, AreBounded) {
  Program program;
  program.put("tmp/a", "a");
  for (uint32_t i = 4; i < kMaxDescriptors; ++i) ASSERT_EQ(program.open("tmp/a"), i);
  EXPECT_EQ(program.open("tmp/a"), -1);
  EXPECT_EQ(program.error, Errno::kMfile);
  // Nothing is created without a free descriptor.
  EXPECT_EQ(program.open("tmp/new", oflag::kCreat, Program::kReadWrite), -1);
  EXPECT_EQ(program.stat("tmp/new").size, 0u);
  EXPECT_EQ(program.error, Errno::kNoent);
}

TEST(WasiDescriptors, RightsAreOnlyEverFewer) {
  Program program;
  program.put("tmp/a", "text");
  const auto file = static_cast<uint32_t>(program.open("tmp/a", 0, right::kFdRead));
  EXPECT_EQ(program.write(file, "x"), -1);
  EXPECT_EQ(program.error, Errno::kNotcapable);
  EXPECT_EQ(program.seek(file, 0, Whence::kSet), Errno::kNotcapable);
  EXPECT_EQ(program.call("fd_fdstat_set_rights", {file, right::kFdRead | right::kFdWrite, 0}),
            Errno::kNotcapable);
  EXPECT_EQ(program.call("fd_fdstat_set_rights", {file, 0, 0}), Errno::kSuccess);
  program.read(file);
  EXPECT_EQ(program.error, Errno::kNotcapable);
  // A directory passes on no more rights than it has.
  const auto directory = static_cast<uint32_t>(program.open("tmp", oflag::kDirectory, kDirectoryRights));
  EXPECT_EQ(program.call("fd_fdstat_set_rights", {directory, right::kPathOpen, right::kFdRead}),
            Errno::kSuccess);
  program.open("a", 0, Program::kReadWrite, 0, directory);
  EXPECT_EQ(program.error, Errno::kNotcapable);
  EXPECT_EQ(program.path("path_unlink_file", "a", directory), Errno::kNotcapable);
  program.free_memory();
  const uint32_t at = program.room(kFdStatBytes);
  EXPECT_EQ(program.call("fd_fdstat_get", {directory, at}), Errno::kSuccess);
  EXPECT_EQ(program.load<uint8_t>(at), static_cast<uint8_t>(FileType::kDirectory));
  EXPECT_EQ(program.load<uint64_t>(at + 8), right::kPathOpen);
}

TEST(WasiDescriptors, OnlyTheRootIsPreopened) {
  Program program;
  const uint32_t at = program.room(8);
  EXPECT_EQ(program.call("fd_prestat_get", {3, at}), Errno::kSuccess);
  EXPECT_EQ(program.load<uint8_t>(at), 0u);
  EXPECT_EQ(program.load<uint32_t>(at + 4), 1u);
  EXPECT_EQ(program.call("fd_prestat_dir_name", {3, at, 1}), Errno::kSuccess);
  EXPECT_EQ(program.bytes(at, 1), "/");
  EXPECT_EQ(program.call("fd_prestat_dir_name", {3, at, 0}), Errno::kNametoolong);
  EXPECT_EQ(program.call("fd_prestat_get", {4, at}), Errno::kBadf);
  EXPECT_EQ(program.call("fd_prestat_get", {0, at}), Errno::kBadf);
}

TEST(WasiDescriptors, ADirectoryIsListedAsItWasWhenItWasReadFromItsStart) {
  Program program;
  for (int i = 0; i < 100; ++i) program.put("tmp/f" + std::to_string(1'000 + i), "");
  const auto directory = static_cast<uint32_t>(program.open("tmp", oflag::kDirectory));
  program.free_memory();
  const uint32_t to = program.room(400), used = program.room(4);
  program.call("fd_readdir", {directory, to, 400, 0, used});
  EXPECT_EQ(program.load<uint32_t>(used), 400u);
  program.unlink("tmp/f1000");
  // Cookie 3 follows ".", ".." and f1000, which has been removed since.
  EXPECT_EQ(program.call("fd_readdir", {directory, to, 29, 3, used}), Errno::kSuccess);
  EXPECT_EQ(program.bytes(to + kDirentBytes, 5), "f1001");
  EXPECT_EQ(program.call("fd_readdir", {directory, to, 400, 102, used}), Errno::kSuccess);
  EXPECT_EQ(program.load<uint32_t>(used), 0u);
  EXPECT_EQ(program.call("fd_readdir", {directory, to, 400, ~0ull, used}), Errno::kSuccess);
  EXPECT_EQ(program.names("tmp").size(), 99u);
}

// Reads the start of a directory, so that its listing is made.
Errno begin_listing(Program& program, uint32_t directory, uint64_t cookie = 0) {
  program.free_memory();
  const uint32_t to = program.room(400), used = program.room(4);
  return program.call("fd_readdir", {directory, to, 400, cookie, used});
}

TEST(WasiDescriptors, ListingsAreKeptUntilTheirDirectoriesAreClosedOrReadAnew) {
  Program program;
  for (int i = 0; i < 100; ++i) program.put("tmp/" + std::string(200, 'f') + std::to_string(i), "");
  const uint64_t before = program.guest.host_memory().kept();
  const auto first = static_cast<uint32_t>(program.open("tmp", oflag::kDirectory));
  const auto second = static_cast<uint32_t>(program.open("tmp", oflag::kDirectory));
  EXPECT_EQ(begin_listing(program, first), Errno::kSuccess);
  const uint64_t one = program.guest.host_memory().kept() - before;
  EXPECT_GT(one, 100u * 200);
  EXPECT_EQ(begin_listing(program, second), Errno::kSuccess);
  EXPECT_EQ(begin_listing(program, second), Errno::kSuccess);
  EXPECT_EQ(program.guest.host_memory().kept(), before + 2 * one);
  EXPECT_EQ(program.call("fd_renumber", {first, second}), Errno::kSuccess);
  EXPECT_EQ(program.guest.host_memory().kept(), before + one);
  EXPECT_EQ(program.close(second), Errno::kSuccess);
  EXPECT_EQ(program.guest.host_memory().kept(), before);
}

TEST(WasiDescriptors, ListingsForWhichThereIsNoRoomAreForgottenOrRefused) {
  constexpr uint64_t kListings = 40;
  Program program;
  for (int i = 0; i < 2'000; ++i) program.put("tmp/" + std::string(240, 'f') + std::to_string(i), "");
  host::HostMemory& memory = program.guest.host_memory();
  // Leaves room for some of the listings.
  ASSERT_TRUE(memory.keep(host::HostMemory::Holder::kResult, memory.left_to_keep() - (5u << 20)));
  const uint64_t most = memory.kept() + memory.left_to_keep();
  std::vector<uint32_t> directories;
  for (uint64_t i = 0; i < kListings; ++i) {
    directories.push_back(static_cast<uint32_t>(program.open("tmp", oflag::kDirectory)));
    EXPECT_EQ(begin_listing(program, directories.back()), Errno::kSuccess);
    EXPECT_LE(memory.kept(), most);
  }
  EXPECT_EQ(begin_listing(program, directories[0], 50), Errno::kSuccess) << "it is read again";
  // Leaves less room than one listing takes.
  for (const uint32_t directory : directories) program.close(directory);
  ASSERT_TRUE(memory.keep(host::HostMemory::Holder::kAnswer, memory.left_to_keep() - 1'000));
  const auto directory = static_cast<uint32_t>(program.open("tmp", oflag::kDirectory));
  EXPECT_EQ(begin_listing(program, directory), Errno::kNomem);
  EXPECT_TRUE(memory.keep(host::HostMemory::Holder::kAnswer, 0));
  EXPECT_EQ(begin_listing(program, directory), Errno::kSuccess);
}

TEST(WasiDescriptors, TimesAreSetAndKept) {
  Program program;
  program.put("tmp/a", "a");
  const uint64_t made = program.stat("tmp/a").modified_ns;
  EXPECT_EQ(made, 946'684'800 * kSecond);
  now(program, ClockId::kMonotonic);
  program.put("tmp/a", "b");
  EXPECT_EQ(program.stat("tmp/a").modified_ns, made + 1'000'000);
  program.free_memory();
  const uint32_t at = program.place("tmp/a");
  EXPECT_EQ(program.call("path_filestat_set_times", {3, 0, at, 5, 11, 22, fstflag::kAtim | fstflag::kMtim}),
            Errno::kSuccess);
  EXPECT_EQ(program.call("path_filestat_set_times", {3, 0, at, 5, 0, 0, fstflag::kAtim | fstflag::kAtimNow}),
            Errno::kInval);
  EXPECT_EQ(program.stat("tmp/a").accessed_ns, 11u);
  EXPECT_EQ(program.stat("tmp/a").modified_ns, 22u);
}

// -- quotas ---------------------------------------------------------------------------------------

TEST(WasiQuota, BytesAreExactAndComeBack) {
  Config config;
  config.quota.bytes = 100;
  Program program(std::move(config));
  EXPECT_EQ(program.put("tmp/a", std::string(60, 'a')), Errno::kSuccess);
  EXPECT_EQ(program.put("tmp/b", std::string(41, 'b')), Errno::kNospc);
  EXPECT_EQ(program.stat("tmp/b").size, 0u);
  EXPECT_EQ(program.put("tmp/b", std::string(40, 'b')), Errno::kSuccess);
  EXPECT_EQ(program.symlink("a", "tmp/l"), Errno::kNospc);
  // An open file still counts.
  const auto file = static_cast<uint32_t>(program.open("tmp/a", 0, Program::kReadWrite));
  program.unlink("tmp/a");
  EXPECT_EQ(program.put("tmp/c", "c"), Errno::kNospc);
  EXPECT_EQ(program.call("fd_filestat_set_size", {file, 61}), Errno::kNospc);
  EXPECT_EQ(program.call("fd_filestat_set_size", {file, ~0ull}), Errno::kInval);
  program.close(file);
  EXPECT_EQ(program.put("tmp/c", std::string(60, 'c')), Errno::kSuccess);
  EXPECT_EQ(program.system->state().files->broken_invariant({}), "");
}

TEST(WasiQuota, NamesAreExactAndComeBack) {
  Config config;
  config.quota.files = 3;
  Program program(std::move(config));
  program.put("tmp/a", "");
  program.mkdir("tmp/d");
  program.link("tmp/a", "tmp/b");
  EXPECT_EQ(program.put("tmp/c", ""), Errno::kDquot);
  EXPECT_EQ(program.mkdir("tmp/e"), Errno::kDquot);
  EXPECT_EQ(program.symlink("a", "tmp/l"), Errno::kDquot);
  EXPECT_EQ(program.link("tmp/a", "tmp/f"), Errno::kDquot);
  EXPECT_EQ(program.rename("tmp/a", "tmp/d/a"), Errno::kSuccess);
  program.unlink("tmp/b");
  EXPECT_EQ(program.put("tmp/c", ""), Errno::kSuccess);
  EXPECT_EQ(program.system->state().files->broken_invariant({}), "");
}

// A file in memory that the owner's account has room for, but not the guest's, leaves no room for another.
TEST(WasiQuota, WhatTheOwnerPutThereCountsAsFarAsItFits) {
  Program program;
  host::HostMemory& memory = program.guest.host_memory();
  ASSERT_TRUE(memory.keep(host::HostMemory::Holder::kResult, memory.left_to_keep() - 1'000'000));
  ASSERT_TRUE(program.system->put_file("/tmp/large", std::string(2'000'000, 'x')));
  EXPECT_FALSE(program.system->account_to(program.guest));
  EXPECT_EQ(memory.left_to_keep(), 0u);
  EXPECT_EQ(program.put("tmp/more", "x"), Errno::kNospc);
  EXPECT_EQ(program.put("tmp/more", "x"), Errno::kNospc);
  program.unlink("tmp/large");
  EXPECT_EQ(program.put("tmp/more", "x"), Errno::kSuccess);
}

// -- hostile arguments ------------------------------------------------------------------------------

TEST(WasiArguments, WildPointersAndCountsAreRefused) {
  Config config;
  config.stdin_text = "input";
  Program program(std::move(config));
  program.put("tmp/a", "text");
  std::mt19937_64 random(1);
  constexpr uint64_t kWild[] = {0,
                                1,
                                2,
                                3,
                                4,
                                64,
                                65'535,
                                0xFFFFF,
                                0x100000,
                                0x7FFF'FFFF,
                                0x8000'0000,
                                0xFFFF'FFF8,
                                0xFFFF'FFFF,
                                0x7FFF'FFFF'FFFF'FFFF,
                                0x8000'0000'0000'0000,
                                ~0ull};
  const std::string path = "tmp/a";
  for (int round = 0; round < 20'000; ++round) {
    const Function& function = functions()[random() % functions().size()];
    if (function.id == FunctionId::proc_exit) continue;
    std::vector<uint64_t> arguments;
    for (const wasm::ValType type : function.type.params) {
      const uint64_t value = kWild[random() % std::size(kWild)];
      arguments.push_back(type == wasm::ValType::kI32 ? value & UINT32_MAX : value);
    }
    if (random() % 4 == 0) std::ranges::copy(path, program.guest.memory().begin() + 64);
    if (random() % 8 == 0)
      std::ranges::fill(program.guest.memory().first(256), static_cast<uint8_t>(random()));
    program.guest.fuel = 1'000'000'000;
    program.guest.output_left = 1'000;
    std::vector<uint64_t> results(1);
    program.system->call(function, program.guest, arguments, results);
    ASSERT_LE(results[0], static_cast<uint64_t>(Errno::kNotcapable)) << function.name;
  }
  std::vector<Inode> open;
  for (const auto& [number, descriptor] : program.system->state().descriptors.all())
    open.push_back(descriptor.inode());
  EXPECT_EQ(program.system->state().files->broken_invariant(open), "");
}

TEST(WasiArguments, BuffersOverEachOtherAreNoWayToTheHostsMemory) {
  Program program;
  constexpr uint32_t kCount = 1'000;
  const auto size = static_cast<uint32_t>(program.guest.memory().size());
  const uint32_t vectors = program.room(kCount * kIovecBytes);
  for (uint32_t i = 0; i < kCount; ++i) program.guest.poke(vectors + i * kIovecBytes + 4, size);
  EXPECT_EQ(program.call("fd_write", {1, vectors, kCount, 512}), Errno::kInval);
  EXPECT_EQ(program.guest.stdout_text, "");
}

TEST(WasiArguments, WhatALongWayCostsIsPaid) {
  Program program;
  std::string target;
  while (target.size() + 4 < 4'000) target += "../tmp/";
  for (char link = 'a'; link < 'h'; ++link)
    EXPECT_EQ(program.symlink(target + static_cast<char>(link + 1), std::string("tmp/") + link),
              Errno::kSuccess);
  program.put("tmp/h", "there");
  const uint64_t before = program.guest.fuel;
  EXPECT_EQ(program.stat("tmp/a").size, 5u);
  EXPECT_GT(before - program.guest.fuel, 7u * 1'000 * kStepFuel);
}

TEST(WasiArguments, WhatTheOwnersFunctionsThrowIsAnErrno) {
  Config config;
  config.world.device = [](std::string_view) -> std::string { throw std::runtime_error("trouble"); };
  Program program(std::move(config));
  EXPECT_EQ(program.put("dev/membrane", "x"), Errno::kIo);
}

TEST(WasiArguments, BadPathsAreRefused) {
  Program program;
  const std::pair<std::string, Errno> kBad[] = {{"", Errno::kNoent},
                                                {std::string("tmp\0x", 5), Errno::kInval},
                                                {"tmp/\xFF", Errno::kIlseq},
                                                {"/tmp", Errno::kNotcapable},
                                                {std::string(5'000, 'x'), Errno::kNametoolong},
                                                {"tmp/" + std::string(256, 'x'), Errno::kNametoolong},
                                                {"tmp/x/..", Errno::kNoent},
                                                {"dev/null/..", Errno::kNotdir},
                                                {"dev/null/x", Errno::kNotdir}};
  for (const auto& [path, expected] : kBad) {
    program.stat(path);
    EXPECT_EQ(program.error, expected) << path;
  }
}

TEST(WasiArguments, ArgumentsAndNamesWithNulAreRefused) {
  Config config;
  config.arguments = {std::string("a\0b", 3)};
  EXPECT_FALSE(System::create(config));
  config.arguments = {};
  config.environment = {{"A=B", "c"}};
  EXPECT_FALSE(System::create(config));
}

// -- the owner's view -----------------------------------------------------------------------------------

TEST(WasiOwner, PutsReadsAndListsFiles) {
  Program program;
  EXPECT_TRUE(program.system->put_file("/home/user/in.txt", "given"));
  EXPECT_EQ(program.get("home/user/in.txt"), "given");
  program.put("tmp/out", "made");
  EXPECT_EQ(program.system->read_file("/tmp/out").value(), "made");
  EXPECT_EQ(program.system->read_file("/tmp").error().code, host::Errno::kIsDir);
  EXPECT_EQ(program.system->read_file("/tmp/none").error().code, host::Errno::kNotFound);
  std::vector<std::string> paths;
  for (const FileEntry& entry : program.system->written_files()) paths.push_back(entry.path);
  EXPECT_EQ(paths, (std::vector<std::string>{"/home", "/home/user", "/home/user/in.txt", "/tmp/out"}));
}

TEST(WasiOwner, AnImageIsMadeOnceAndRefusesWhatIsNoPath) {
  static constexpr uint8_t kBytes[] = {'a'};
  EXPECT_FALSE(Image::make({{.path = "lib/a", .bytes = kBytes}}));
  EXPECT_FALSE(Image::make({{.path = "/lib/../a", .bytes = kBytes}}));
  EXPECT_FALSE(Image::make({{.path = "/a", .bytes = kBytes}, {.path = "/a/b", .bytes = kBytes}}));
  const auto image = Image::make({{.path = "/a", .bytes = kBytes}});
  ASSERT_TRUE(image);
  EXPECT_NE((*image)->digest().value(), Image::empty()->digest().value());
  Config config;
  config.image = *image;
  Program one(config), two(config);
  one.put("a", "changed");
  EXPECT_EQ(two.get("a"), "a");
}

}  // namespace
}  // namespace membrane::wasi
