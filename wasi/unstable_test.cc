// wasi_unstable: the differences of snapshot 0 from preview 1.
#include <gtest/gtest.h>

#include "wasi/program_testing.h"

namespace membrane::wasi {
namespace {

Errno call(Program& program, std::string_view name, std::initializer_list<uint64_t> arguments) {
  return program.call_of(kUnstableModule, name, arguments);
}

TEST(WasiUnstable, HasAllFunctionsButSockAccept) {
  for (const Function& function : functions()) {
    const Function* older = find_function(kUnstableModule, function.name);
    if (function.name == "sock_accept") {
      EXPECT_EQ(older, nullptr);
      continue;
    }
    ASSERT_NE(older, nullptr) << function.name;
    EXPECT_EQ(older->type, function.type) << function.name;
    EXPECT_EQ(older->abi, Abi::kUnstable);
    EXPECT_EQ(find_function(kModule, function.name)->abi, Abi::kPreview1);
  }
  EXPECT_EQ(find_function("wasi_snapshot_preview2", "fd_read"), nullptr);
  EXPECT_EQ(find_function(kUnstableModule, "fd_open"), nullptr);
}

TEST(WasiUnstable, WhenceBeginsWithTheCurrentPosition) {
  Program program;
  program.put("f", "0123456789");
  const auto file = static_cast<uint32_t>(program.open("f"));
  const uint32_t to = (program.free_memory(), program.room(8));
  const auto seek = [&](int64_t by, uint64_t whence) {
    EXPECT_EQ(call(program, "fd_seek", {file, static_cast<uint64_t>(by), whence, to}), Errno::kSuccess);
    return program.load<uint64_t>(to);
  };
  EXPECT_EQ(seek(4, 2), 4u);
  EXPECT_EQ(seek(1, 0), 5u);
  EXPECT_EQ(seek(-2, 1), 8u);
  EXPECT_EQ(call(program, "fd_seek", {file, 0, 3, to}), Errno::kInval);
}

TEST(WasiUnstable, AFilestatHas56Bytes) {
  Program program;
  program.put("f", "12345");
  program.link("f", "g");
  const Stat stat = program.stat("f");
  program.free_memory();
  const uint32_t name = program.place("f"), to = program.room(72);
  std::fill_n(program.guest.memory().begin() + to, 72, uint8_t{0xEE});
  EXPECT_EQ(call(program, "path_filestat_get", {Program::kRoot, 0, name, 1, to}), Errno::kSuccess);
  EXPECT_EQ(program.load<uint64_t>(to), stat.device);
  EXPECT_EQ(program.load<uint64_t>(to + 8), stat.inode);
  EXPECT_EQ(program.load<uint8_t>(to + 16), static_cast<uint8_t>(FileType::kRegularFile));
  EXPECT_EQ(program.load<uint32_t>(to + 20), 2u);
  EXPECT_EQ(program.load<uint64_t>(to + 24), 5u);
  EXPECT_EQ(program.load<uint64_t>(to + 32), stat.accessed_ns);
  EXPECT_EQ(program.load<uint64_t>(to + 40), stat.modified_ns);
  EXPECT_EQ(program.load<uint64_t>(to + 48), stat.changed_ns);
  EXPECT_EQ(program.load<uint64_t>(to + 56), 0xEEEE'EEEE'EEEE'EEEEu);
  const uint64_t last = program.guest.memory().size() - FileStat::kUnstableBytes;
  EXPECT_EQ(call(program, "fd_filestat_get", {Program::kRoot, last}), Errno::kSuccess);
  EXPECT_EQ(call(program, "fd_filestat_get", {Program::kRoot, last + 1}), Errno::kFault);
}

TEST(WasiUnstable, ASubscriptionOfAClockHasAnIdentifier) {
  Program program;
  const uint32_t in = program.room(2 * kUnstableSubscriptionBytes), out = program.room(2 * kEventBytes),
                 count = program.room(4);
  program.guest.poke(in, 7);        // user data
  program.guest.poke(in + 16, 99);  // the identifier, which is ignored
  program.guest.poke(in + 24, 1);   // the monotonic clock
  program.guest.poke(in + 32, 1'000);
  const uint32_t second = in + kUnstableSubscriptionBytes;
  program.guest.poke(second, 8);
  program.guest.poke(second + 8, 2);   // to write
  program.guest.poke(second + 16, 1);  // to stdout
  EXPECT_EQ(call(program, "poll_oneoff", {in, out, 2, count}), Errno::kSuccess);
  ASSERT_EQ(program.load<uint32_t>(count), 1u);
  EXPECT_EQ(program.load<uint64_t>(out), 8u);
  EXPECT_EQ(program.load<uint8_t>(out + 10), 2u);
  EXPECT_EQ(call(program, "poll_oneoff", {in, out, 1, count}), Errno::kSuccess);
  ASSERT_EQ(program.load<uint32_t>(count), 1u);
  EXPECT_EQ(program.load<uint64_t>(out), 7u);
  EXPECT_EQ(program.load<uint16_t>(out + 8), 0u);
}

}  // namespace
}  // namespace membrane::wasi
