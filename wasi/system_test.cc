// Each function at the boundary, on files of the program's own.
#include "wasi/system.h"

#include <gtest/gtest.h>

#include "wasi/program_testing.h"

namespace membrane::wasi {
namespace {

using Names = std::vector<std::string>;

Config with_files(std::initializer_list<std::pair<std::string, std::string_view>> files) {
  std::vector<Layer> layers;
  for (const auto& [path, bytes] : files)
    layers.push_back({.path = path, .bytes = {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}});
  Config config;
  config.image = Image::make(layers).value();
  return config;
}

// -- the table ------------------------------------------------------------------------------

TEST(WasiFunctions, AreAllFortySixWithTheirTypes) {
  EXPECT_EQ(functions().size(), 46u);
  const Function* open = find_function("path_open");
  ASSERT_NE(open, nullptr);
  EXPECT_EQ(open->type.params.size(), 9u);
  EXPECT_EQ(open->type.params[5], wasm::ValType::kI64);
  EXPECT_EQ(open->type.results.size(), 1u);
  EXPECT_TRUE(find_function("proc_exit")->type.results.empty());
  EXPECT_EQ(find_function("fd_open"), nullptr);
}

// -- process ----------------------------------------------------------------------------------

TEST(WasiProcess, GivesArgumentsAndEnvironment) {
  Config config;
  config.arguments = {"prog", "a b"};
  config.environment = {{"HOME", "/home"}};
  Program program(std::move(config));
  const uint32_t count = program.room(4), size = program.room(4);
  EXPECT_EQ(program.call("args_sizes_get", {count, size}), Errno::kSuccess);
  EXPECT_EQ(program.load<uint32_t>(count), 2u);
  EXPECT_EQ(program.load<uint32_t>(size), 9u);
  const uint32_t list = program.room(8), texts = program.room(16);
  EXPECT_EQ(program.call("args_get", {list, texts}), Errno::kSuccess);
  EXPECT_EQ(program.bytes(program.load<uint32_t>(list + 4), 4), std::string("a b\0", 4));
  EXPECT_EQ(program.call("environ_sizes_get", {count, size}), Errno::kSuccess);
  EXPECT_EQ(program.load<uint32_t>(size), 11u);
  EXPECT_EQ(program.call("environ_get", {list, texts}), Errno::kSuccess);
  EXPECT_EQ(program.bytes(program.load<uint32_t>(list), 11), std::string("HOME=/home\0", 11));
  EXPECT_EQ(program.call("args_get", {0xFFFF'FFF0, texts}), Errno::kFault);
}

TEST(WasiProcess, ExitsWithItsCode) {
  Program program;
  program.call("proc_exit", {7});
  EXPECT_EQ(program.outcome.end, End::kExit);
  EXPECT_EQ(program.system->exit_code(), 7u);
}

TEST(WasiProcess, RaisesSignals) {
  Program program;
  EXPECT_EQ(program.call("proc_raise", {0}), Errno::kSuccess);
  EXPECT_EQ(program.call("proc_raise", {99}), Errno::kInval);
  program.call("proc_raise", {6});
  EXPECT_EQ(program.outcome.end, End::kTrap);
  EXPECT_NE(program.outcome.message.find("abrt"), std::string::npos);
}

TEST(WasiProcess, HasNoSockets) {
  Program program;
  EXPECT_EQ(program.call("sock_shutdown", {3, 0}), Errno::kNotsock);
  EXPECT_EQ(program.call("sock_accept", {77, 0, 0}), Errno::kBadf);
}

TEST(WasiProcess, RandomnessIsTheSeedsStream) {
  policy::Policy policy;
  policy.random.seed = 7;
  const auto drawn = [&] {
    Config config;
    config.policy = &policy;
    Program program(std::move(config));
    const uint32_t to = program.room(64);
    EXPECT_EQ(program.call("random_get", {to, 64}), Errno::kSuccess);
    return program.bytes(to, 64);
  };
  const std::string first = drawn();
  EXPECT_EQ(first, drawn());
  policy.random.seed = 8;
  EXPECT_NE(first, drawn());
  Program program;
  EXPECT_EQ(program.call("random_get", {0xFFFF'0000, 0xFFFF'0000}), Errno::kFault);
}

// -- stdio ----------------------------------------------------------------------------------------

TEST(WasiStdio, PrintsWholeCharactersOnly) {
  Program program;
  EXPECT_EQ(program.write(1, "a\xC3"), 2);
  EXPECT_EQ(program.guest.stdout_text, "a");
  EXPECT_EQ(program.write(1, "\xA9\xFFz\xE2\x82"), 5);
  EXPECT_EQ(program.guest.stdout_text, "a\xC3\xA9\xEF\xBF\xBDz");
  EXPECT_EQ(program.write(2, "err"), 3);
  EXPECT_EQ(program.guest.stderr_text, "err");
  program.system->finish(program.guest);
  EXPECT_EQ(program.guest.stdout_text, "a\xC3\xA9\xEF\xBF\xBDz\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST(WasiStdio, EndsAtTheOutputLimit) {
  Program program;
  program.guest.output_left = 3;
  program.write(1, "abcdef");
  EXPECT_EQ(program.outcome.end, End::kOutOfOutput);
  EXPECT_EQ(program.guest.stdout_text, "abc");
}

TEST(WasiStdio, ReadsStdinToItsEnd) {
  Config config;
  config.stdin_text = "hello";
  Program program(std::move(config));
  EXPECT_EQ(program.read(0, 3), "hel");
  EXPECT_EQ(program.read(0, 3), "lo");
  EXPECT_EQ(program.read(0, 3), "");
  EXPECT_EQ(program.error, Errno::kSuccess);
  EXPECT_EQ(program.seek(0, 0, Whence::kCur), Errno::kSpipe);
}

TEST(WasiStdio, WaitsForStdinWithoutBeingPaid) {
  Config config;
  config.stdin_waits = true;
  Program program(std::move(config));
  const uint64_t fuel = program.guest.fuel;
  program.read(0);
  EXPECT_EQ(program.outcome.end, End::kWait);
  EXPECT_EQ(program.guest.fuel, fuel);
  program.system->give_stdin("now");
  EXPECT_EQ(program.read(0), "now");
  program.system->close_stdin();
  EXPECT_EQ(program.read(0), "");
  EXPECT_EQ(program.outcome.end, End::kReturn);
}

// -- fuel ---------------------------------------------------------------------------------------------

TEST(WasiFuel, IsTakenBeforeAnythingHappens) {
  Program program;
  program.guest.fuel = 10;
  EXPECT_EQ(program.open("tmp/a", oflag::kCreat, Program::kReadWrite), -1);
  EXPECT_EQ(program.outcome.end, End::kOutOfFuel);
  program.guest.fuel = 1'000;
  EXPECT_EQ(program.names("tmp"), Names());
  program.put("tmp/a", std::string(8'000, 'x'));
  EXPECT_EQ(program.outcome.end, End::kReturn);
  EXPECT_LT(program.guest.fuel, 1'000u);
}

TEST(WasiFuel, CountsCallsAndBytes) {
  Program program;
  const int64_t file = program.open("tmp/a", oflag::kCreat, Program::kReadWrite);
  uint64_t before = program.guest.fuel;
  program.write(static_cast<uint32_t>(file), std::string(8'000, 'x'));
  EXPECT_EQ(before - program.guest.fuel, kCallFuel + 1'000);
  program.seek(static_cast<uint32_t>(file), 0, Whence::kSet);
  before = program.guest.fuel;
  program.read(static_cast<uint32_t>(file), 4'096);
  EXPECT_EQ(before - program.guest.fuel, kCallFuel + 512);
}

// -- files ----------------------------------------------------------------------------------------------

TEST(WasiFiles, AreMadeWrittenReadAndRemoved) {
  Program program;
  const auto file = static_cast<uint32_t>(program.open("tmp/a.txt", oflag::kCreat, Program::kReadWrite));
  EXPECT_EQ(program.write(file, "hello"), 5);
  EXPECT_EQ(program.seek(file, 1, Whence::kSet), Errno::kSuccess);
  EXPECT_EQ(program.read(file), "ello");
  uint64_t at = 0;
  EXPECT_EQ(program.seek(file, -2, Whence::kEnd, &at), Errno::kSuccess);
  EXPECT_EQ(at, 3u);
  EXPECT_EQ(program.seek(file, -4, Whence::kCur), Errno::kInval);
  EXPECT_EQ(program.close(file), Errno::kSuccess);
  EXPECT_EQ(program.close(file), Errno::kBadf);
  EXPECT_EQ(program.stat("tmp/a.txt").size, 5u);
  EXPECT_EQ(program.names("tmp"), (Names{"a.txt"}));
  EXPECT_EQ(program.unlink("tmp/a.txt"), Errno::kSuccess);
  EXPECT_EQ(program.unlink("tmp/a.txt"), Errno::kNoent);
}

TEST(WasiFiles, AppendGoesToTheEnd) {
  Program program;
  program.put("tmp/a", "one");
  const auto file = static_cast<uint32_t>(program.open("tmp/a", 0, Program::kReadWrite, fdflag::kAppend));
  program.write(file, "+two");
  EXPECT_EQ(program.get("tmp/a"), "one+two");
}

TEST(WasiFiles, OfLayersOverAnImageStandBesideItsOwn) {
  const auto below = with_files({{"/lib/a", "below"}, {"/lib/b", "below"}});
  const auto layer = [](const std::string& path, std::string_view bytes) {
    return Layer{.path = path, .bytes = {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}};
  };
  Config config;
  config.image = below.image->with({layer("/lib/b", "over"), layer("/usr/lib/c", "over")}).value();
  Program program(std::move(config));
  EXPECT_EQ(program.get("lib/a"), "below");
  EXPECT_EQ(program.get("lib/b"), "over");
  EXPECT_EQ(program.get("usr/lib/c"), "over");
  EXPECT_EQ(program.names("lib"), (Names{"a", "b"}));
  EXPECT_FALSE(below.image->with({layer("/lib", "a file in the place of a directory")}));
  Config unchanged;
  unchanged.image = below.image;
  EXPECT_EQ(Program(std::move(unchanged)).get("lib/b"), "below");
}

TEST(WasiFiles, OfTheImageAreReadAndCopiedWhenWritten) {
  Program program(with_files({{"/lib/a", "from the image"}, {"/lib/b", "gone"}}));
  EXPECT_EQ(program.get("lib/a"), "from the image");
  const auto file = static_cast<uint32_t>(program.open("lib/a", 0, Program::kReadWrite));
  program.write(file, "FROM");
  EXPECT_EQ(program.get("lib/a"), "FROM the image");
  EXPECT_EQ(program.unlink("lib/b"), Errno::kSuccess);
  EXPECT_EQ(program.names("lib"), (Names{"a"}));
  Program other(with_files({{"/lib/a", "from the image"}, {"/lib/b", "gone"}}));
  EXPECT_EQ(other.get("lib/a"), "from the image");
}

TEST(WasiFiles, LiveOnWhileTheyAreOpen) {
  Program program;
  program.put("tmp/a", "still here");
  const auto file = static_cast<uint32_t>(program.open("tmp/a"));
  EXPECT_EQ(program.unlink("tmp/a"), Errno::kSuccess);
  EXPECT_EQ(program.read(file), "still here");
}

TEST(WasiFiles, HaveTheirDevices) {
  Program program;
  const auto zero = static_cast<uint32_t>(program.open("dev/zero"));
  EXPECT_EQ(program.read(zero, 3), std::string(3, '\0'));
  const auto null = static_cast<uint32_t>(program.open("dev/null", 0, Program::kReadWrite));
  EXPECT_EQ(program.write(null, "gone"), 4);
  EXPECT_EQ(program.read(null), "");
  const auto random = static_cast<uint32_t>(program.open("dev/urandom"));
  EXPECT_NE(program.read(random, 16), program.read(random, 16));
  EXPECT_EQ(program.unlink("dev/null"), Errno::kPerm);
}

TEST(WasiFiles, WhereDevicesAreNothingElseIs) {
  Program program;
  const Names devices = program.names("dev");
  EXPECT_EQ(program.put("dev/tty", "x"), Errno::kAcces);
  EXPECT_EQ(program.mkdir("dev/shm"), Errno::kAcces);
  EXPECT_EQ(program.symlink("/tmp", "dev/shm"), Errno::kAcces);
  program.put("tmp/a", "a");
  EXPECT_EQ(program.link("tmp/a", "dev/a"), Errno::kAcces);
  EXPECT_EQ(program.rename("tmp/a", "dev/a"), Errno::kAcces);
  EXPECT_EQ(program.rename("tmp/a", "dev/null"), Errno::kAcces);
  EXPECT_EQ(program.get("tmp/a"), "a");
  EXPECT_EQ(program.names("dev"), devices);
  EXPECT_EQ(program.open("dev/tty"), -1);
  EXPECT_EQ(program.error, Errno::kNoent);
  EXPECT_EQ(program.mkdir("dev/null"), Errno::kExist);
  EXPECT_EQ(program.rename("dev", "tmp/dev"), Errno::kBusy);
  EXPECT_EQ(program.rmdir("dev"), Errno::kNotempty);
  EXPECT_EQ(program.put("dev/null", "gone"), Errno::kSuccess);
}

TEST(WasiFiles, TheDeviceOfMembraneAnswersEachWrite) {
  Config config;
  config.world.device = [](std::string_view request) { return "you said " + std::string(request); };
  Program program(std::move(config));
  const auto device = static_cast<uint32_t>(program.open("dev/membrane", 0, Program::kReadWrite));
  EXPECT_EQ(program.read(device), "");
  EXPECT_EQ(program.write(device, "hi"), 2);
  EXPECT_EQ(program.read(device, 3), "you");
  EXPECT_EQ(program.read(device), " said hi");
  EXPECT_EQ(program.read(device), "");
  program.write(device, "one");
  program.write(device, "two");
  EXPECT_EQ(program.read(device), "you said two");
}

// -- names ----------------------------------------------------------------------------------------------

TEST(WasiNames, DirectoriesAreMadeAndRemoved) {
  Program program;
  EXPECT_EQ(program.mkdir("tmp/d"), Errno::kSuccess);
  EXPECT_EQ(program.mkdir("tmp/d"), Errno::kExist);
  EXPECT_EQ(program.mkdir("tmp/x/y"), Errno::kNoent);
  program.put("tmp/d/f", "");
  EXPECT_EQ(program.rmdir("tmp/d"), Errno::kNotempty);
  EXPECT_EQ(program.unlink("tmp/d"), Errno::kIsdir);
  EXPECT_EQ(program.rmdir("tmp/d/f"), Errno::kNotdir);
  program.unlink("tmp/d/f");
  EXPECT_EQ(program.rmdir("tmp/d"), Errno::kSuccess);
}

TEST(WasiNames, RenameMovesAndReplaces) {
  Program program;
  program.put("tmp/a", "a");
  program.put("tmp/b", "b");
  program.mkdir("tmp/d");
  EXPECT_EQ(program.rename("tmp/a", "tmp/b"), Errno::kSuccess);
  EXPECT_EQ(program.get("tmp/b"), "a");
  EXPECT_EQ(program.rename("tmp/b", "tmp/d"), Errno::kIsdir);
  EXPECT_EQ(program.rename("tmp/d", "tmp/b"), Errno::kNotdir);
  EXPECT_EQ(program.rename("tmp/d", "tmp/d/e"), Errno::kInval);
  EXPECT_EQ(program.rename("tmp/d", "tmp/e"), Errno::kSuccess);
  EXPECT_EQ(program.names("tmp"), (Names{"b", "e/"}));
}

TEST(WasiNames, LinksAreFollowed) {
  Program program;
  program.put("tmp/a", "text");
  EXPECT_EQ(program.symlink("a", "tmp/l"), Errno::kSuccess);
  EXPECT_EQ(program.symlink("/tmp", "tmp/t"), Errno::kSuccess);
  EXPECT_EQ(program.symlink("loop", "tmp/loop"), Errno::kSuccess);
  EXPECT_EQ(program.get("tmp/l"), "text");
  EXPECT_EQ(program.get("tmp/t/l"), "text");
  EXPECT_EQ(program.readlink("tmp/l"), "a");
  EXPECT_EQ(program.stat("tmp/l", 0).type, FileType::kSymbolicLink);
  EXPECT_EQ(program.stat("tmp/l").type, FileType::kRegularFile);
  program.get("tmp/loop");
  EXPECT_EQ(program.error, Errno::kLoop);
  EXPECT_EQ(program.link("tmp/a", "tmp/hard"), Errno::kSuccess);
  program.put("tmp/hard", "other");
  EXPECT_EQ(program.get("tmp/a"), "other");
  EXPECT_EQ(program.stat("tmp/a").links, 2u);
}

TEST(WasiNames, NoPathLeavesItsDirectory) {
  Program program;
  program.mkdir("tmp/d");
  program.put("tmp/secret", "s");
  const auto directory = static_cast<uint32_t>(program.open("tmp/d", oflag::kDirectory));
  program.symlink("../secret", "tmp/d/up");
  program.symlink("/tmp/secret", "tmp/d/root");
  for (const char* path : {"../secret", "up", "root", "x/../../secret", "/tmp/secret", ".."}) {
    EXPECT_EQ(program.open(path, 0, Program::kRead, 0, directory), -1) << path;
    EXPECT_TRUE(program.error == Errno::kNotcapable || program.error == Errno::kNoent) << path;
  }
  EXPECT_EQ(program.get("tmp/d/up"), "s");
  EXPECT_EQ(program.open(".."), -1);
  EXPECT_EQ(program.error, Errno::kNotcapable);
}

}  // namespace
}  // namespace membrane::wasi
