// Forks and frozen states: they continue like their original, and share nothing that either side can change.
#include "wasi/frozen.h"

#include <gtest/gtest.h>

#include <thread>

#include "wasi/host_world_testing.h"

namespace membrane::wasi {
namespace {

using Names = std::vector<std::string>;

constexpr std::string_view kText = "what the image has";

std::shared_ptr<const Image> image() {
  static const std::shared_ptr<const Image> made = [] {
    std::vector<Layer> layers;
    for (const char* path : {"/lib/a", "/lib/b", "/lib/c"})
      layers.push_back(
          {.path = path, .bytes = {reinterpret_cast<const uint8_t*>(kText.data()), kText.size()}});
    return Image::make(layers).value();
  }();
  return made;
}

Config config() {
  Config config;
  config.image = image();
  config.arguments = {"prog"};
  config.environment = {{"A", "B"}};
  config.stdin_text = "input text";
  return config;
}

// A program with open files, a clock that has advanced, and so on.
Program busy() {
  Program program(config());
  program.read(0, 6);
  program.write(1, "\xC3");
  program.put("lib/a", "changed");
  program.unlink("lib/b");
  program.rename("lib/c", "tmp/c");
  program.mkdir("tmp/d");
  program.put("tmp/d/big", std::string(200'000, 'x'));
  program.symlink("d/big", "tmp/l");
  program.link("tmp/d/big", "tmp/hard");
  program.put("tmp/gone", "nameless");
  EXPECT_EQ(program.open("tmp/gone"), 4);
  EXPECT_EQ(program.read(4, 4), "name");
  program.unlink("tmp/gone");
  EXPECT_EQ(program.open("tmp", oflag::kDirectory), 5);
  program.call("clock_time_get", {0, 0, 64});
  program.call("random_get", {64, 5});
  return program;
}

std::string next_random(Program& program) {
  program.free_memory();
  const uint32_t to = program.room(16);
  program.call("random_get", {to, 16});
  return program.bytes(to, 16);
}

// The observable state of that program, except for its randomness.
void expect_as_busy(Program& program) {
  EXPECT_EQ(program.read(0), "text");
  program.write(1, "\xA9");
  EXPECT_EQ(program.guest.stdout_text, "\xC3\xA9");
  EXPECT_EQ(program.get("lib/a"), "changed");
  EXPECT_EQ(program.names("lib"), (Names{"a"}));
  EXPECT_EQ(program.names("tmp"), (Names{"c", "d/", "hard", "l"}));
  EXPECT_EQ(program.get("tmp/c"), kText);
  EXPECT_EQ(program.get("tmp/l"), std::string(200'000, 'x'));
  EXPECT_EQ(program.stat("tmp/hard").links, 2u);
  EXPECT_EQ(program.read(4), "less");
  EXPECT_EQ(
      program.system->state().files->broken_invariant({program.system->state().descriptors.find(4)->inode()}),
      "");
  program.close(4);
  EXPECT_EQ(program.system->state().files->broken_invariant({}), "");
}

TEST(WasiFork, GoesOnWhereItsParentStands) {
  Program program = busy();
  const auto frozen_before = program.system->freeze().value();
  Program child(program.system->fork({}).value());
  expect_as_busy(child);
  child.put("tmp/new", "n");
  child.put("lib/a", "other");
  // The parent is unaffected.
  EXPECT_EQ(program.system->freeze().value(), frozen_before);
  expect_as_busy(program);
}

TEST(WasiFork, PiecesOfLargeFilesAreSharedUntilTheyAreWritten) {
  Program program(config());
  program.put("tmp/big", std::string(300'000, 'x'));
  Program child(program.system->fork({}).value());
  const auto file = static_cast<uint32_t>(child.open("tmp/big", 0, Program::kReadWrite));
  child.seek(file, 70'000, Whence::kSet);
  child.write(file, "child");
  const auto own = static_cast<uint32_t>(program.open("tmp/big", 0, Program::kReadWrite));
  program.write(own, "parent");
  EXPECT_EQ(program.get("tmp/big"), "parent" + std::string(299'994, 'x'));
  EXPECT_EQ(child.get("tmp/big"), std::string(70'000, 'x') + "child" + std::string(229'995, 'x'));
}

TEST(WasiFork, HasRandomnessOfItsOwn) {
  Program program = busy();
  Program one(program.system->fork({.fork_number = 1}).value());
  Program same(program.system->fork({.fork_number = 1}).value());
  Program two(program.system->fork({.fork_number = 2}).value());
  Program grandchild(one.system->fork({.fork_number = 1}).value());
  const std::string seen = next_random(one);
  EXPECT_EQ(seen, next_random(same));
  EXPECT_NE(seen, next_random(two));
  EXPECT_NE(seen, next_random(program));
  EXPECT_NE(seen, next_random(grandchild));
}

TEST(WasiFork, IsGivenItsOwnInput) {
  Program program = busy();
  Program child(program.system->fork({.stdin_text = "mine"}).value());
  EXPECT_EQ(child.read(0), "mine");
  EXPECT_EQ(program.read(0), "text");
}

TEST(WasiFork, ThreadsForkOneParentAndWriteWhatTheyShare) {
  Program program = busy();
  std::vector<std::thread> threads;
  for (uint64_t number = 1; number <= 4; ++number)
    threads.emplace_back([&, number] {
      for (int i = 0; i < 50; ++i) {
        Program child(program.system->fork({.fork_number = number}).value());
        const std::string text = std::to_string(number);
        EXPECT_EQ(child.put("tmp/d/big", text), Errno::kSuccess);
        EXPECT_EQ(child.get("tmp/hard"), text);
        EXPECT_EQ(child.unlink("lib/a"), Errno::kSuccess);
        EXPECT_EQ(child.system->state().files->broken_invariant(
                      {child.system->state().descriptors.find(4)->inode()}),
                  "");
      }
    });
  for (std::thread& thread : threads) thread.join();
  expect_as_busy(program);
}

TEST(WasiFrozen, GoesOnWhereItStood) {
  Program program = busy();
  const auto bytes = program.system->freeze().value();
  Config again;
  again.image = image();
  Program thawed(System::thaw(bytes, again).value());
  EXPECT_EQ(thawed.system->freeze().value(), bytes);
  EXPECT_EQ(next_random(thawed), next_random(program));
  const uint32_t count = thawed.room(4), size = thawed.room(4);
  thawed.call("args_sizes_get", {count, size});
  EXPECT_EQ(thawed.load<uint32_t>(count), 1u);
  expect_as_busy(thawed);
}

TEST(WasiFrozen, HasOnlyWhatIsNotTheImages) {
  Program program(config());
  EXPECT_LT(program.system->freeze()->size(), 1'000u);
}

TEST(WasiFrozen, HostFilesAreFoundAgainByName) {
  HostWorld world;
  world.put("inside/a", "0123456789");
  world.allow("/data", "inside", policy::FsMode::kRead);
  Program program(world.config());
  const auto file = static_cast<uint32_t>(program.open("data/a"));
  program.read(file, 4);
  const auto bytes = program.system->freeze().value();
  Config again;
  again.policy = &world.policy;
  again.world.broker = &*world.gate;
  Program thawed(System::thaw(bytes, again).value());
  EXPECT_EQ(thawed.read(file), "456789");
  EXPECT_EQ(thawed.close(file), Errno::kSuccess);
  const auto records =
      thawed.system->take_records();  // of the whole run, without records that only thawing caused
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].name, "fs.file_read");
  EXPECT_EQ(records[0].bytes_in, 10u);
  EXPECT_EQ(thawed.get("data/a"), "0123456789");
  Program unread(System::thaw(bytes, again).value());
  EXPECT_EQ(unread.close(file), Errno::kSuccess);
  EXPECT_EQ(unread.system->take_records().at(0).bytes_in, 4u);
  Program closed(System::thaw(bytes, {}).value());
  EXPECT_EQ(closed.read(file), "");
  EXPECT_EQ(closed.names("data"), Names());
}

TEST(WasiFrozen, IsRefusedOverAnotherImageOrQuota) {
  const auto bytes = busy().system->freeze().value();
  EXPECT_EQ(System::thaw(bytes, {}).error().code, ErrorCode::kInvalidInput);
  Config small;
  small.image = image();
  small.quota.bytes = 100'000;
  EXPECT_FALSE(System::thaw(bytes, small));
  small.quota = {.files = 2};
  EXPECT_EQ(System::thaw(bytes, small).error().code, ErrorCode::kExhausted);
  auto newer = bytes;
  newer[4] = 2;
  Config fitting;
  fitting.image = image();
  EXPECT_EQ(System::thaw(newer, fitting).error().code, ErrorCode::kUnsupported);
}

TEST(WasiFrozen, TellsWhatItKeepsOfTheHostsMemory) {
  Program program;
  for (int i = 0; i < 100; ++i) program.put("tmp/" + std::string(200, 'f') + std::to_string(i), "some bytes");
  const auto directory = static_cast<uint32_t>(program.open("tmp", oflag::kDirectory));
  const uint32_t to = program.room(400), used = program.room(4);
  program.call("fd_readdir", {directory, to, 400, 0, used});
  Program thawed(System::thaw(program.system->freeze().value(), {}).value());
  EXPECT_TRUE(thawed.system->account_to(thawed.guest));
  EXPECT_EQ(thawed.guest.host_memory().kept(), program.guest.host_memory().kept());
  EXPECT_GT(thawed.guest.host_memory().kept(), 100 * (FileTree::kNameBytes + 200));
}

TEST(WasiFrozen, CutOrChangedItIsRefusedOrWhole) {
  Program small(config());
  small.put("tmp/a", "text");
  small.mkdir("tmp/d");
  small.open("tmp/d", oflag::kDirectory);
  const auto bytes = small.system->freeze().value();
  Config fitting;
  fitting.image = image();
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(System::thaw(std::span(bytes).first(size), fitting)) << size;
  for (size_t at = 0; at < bytes.size(); ++at)
    for (const uint8_t change : {uint8_t{0x01}, uint8_t{0x80}, uint8_t{0xFF}}) {
      auto changed = bytes;
      changed[at] ^= change;
      const auto thawed = System::thaw(changed, fitting);
      if (!thawed) continue;
      std::vector<Inode> open;
      for (const auto& [number, descriptor] : (*thawed)->state().descriptors.all())
        open.push_back(descriptor.inode());
      EXPECT_EQ((*thawed)->state().files->broken_invariant(open), "") << at;
    }
}

}  // namespace
}  // namespace membrane::wasi
