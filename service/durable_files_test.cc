#include "service/durable_files.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "service/image_files.h"
#include "service/simulated_disk_testing.h"

namespace membrane::service {
namespace {

constexpr uint64_t kSeeds = 200;

std::span<const uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// Promised data is there; other data is complete or as before, whenever the power fails.
TEST(DurableFiles, KeepWhatWasPromisedThroughAPowerCut) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    SimulatedDisk disk(seed);
    DurableFiles files(disk);
    disk.lose_power_at(seed % 40);
    std::string promised, tried;
    for (int version = 1; version <= 10; ++version) {
      tried = "version " + std::to_string(version);
      if (!files.write("token", tried)) break;
      promised = tried;
    }
    disk.restart();
    const auto found = files.read("token");
    if (promised.empty() && !found) continue;
    ASSERT_TRUE(found) << seed;
    EXPECT_TRUE(*found == promised || *found == tried) << seed << ": " << *found;
    ASSERT_TRUE(files.clean(""));
    EXPECT_EQ(disk.list("")->size(), 1u) << seed;
  }
}

TEST(DurableFiles, SayThatAWriteFailedAndKeepWhatWasThere) {
  for (uint64_t call = 0; call < 4; ++call) {
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
      SimulatedDisk disk(seed);
      DurableFiles files(disk);
      ASSERT_TRUE(files.write("token", "before"));
      disk.fail_at(disk.calls() + call);
      EXPECT_FALSE(files.write("token", "after")) << call;
      if (seed % 2 == 1) disk.restart();
      const auto found = files.read("token");
      ASSERT_TRUE(found);
      EXPECT_TRUE(*found == "before" || *found == "after") << call << ": " << *found;
      EXPECT_TRUE(files.write("token", "again"));
      EXPECT_EQ(files.read("token"), "again");
    }
  }
}

TEST(DurableFiles, KeepWhatWasAppended) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    SimulatedDisk disk(seed);
    DurableFiles files(disk);
    disk.lose_power_at(seed % 30);
    std::string promised;
    for (char letter = 'a'; letter <= 'h'; ++letter) {
      if (!files.append("log", std::string(3, letter))) break;
      promised += std::string(3, letter);
    }
    disk.restart();
    EXPECT_TRUE(files.read("log").value_or("").starts_with(promised)) << seed;
  }
}

TEST(DurableFiles, AreOnTheMachinesDisk) {
  const std::string root = ::testing::TempDir() + "durable_files";
  std::filesystem::remove_all(root);
  const auto disk = disk_below(root);
  DurableFiles files(*disk);
  ASSERT_TRUE(files.make_directory(""));
  ASSERT_TRUE(files.make_directory("images"));
  ASSERT_TRUE(files.make_directory("images"));
  ASSERT_TRUE(files.write("images/a", "one"));
  ASSERT_TRUE(files.write("images/a", "two"));
  ASSERT_TRUE(files.append("log", "x"));
  ASSERT_TRUE(files.append("log", "yz"));
  ASSERT_TRUE(files.truncate("log", 2));
  ASSERT_TRUE(disk->write("images/b.1.unfinished", "half"));
  EXPECT_EQ(files.read("images/a"), "two");
  EXPECT_EQ(files.read("log"), "xy");
  EXPECT_EQ(files.read("log", 1).error().code, ErrorCode::kTooLong);
  EXPECT_EQ(files.read("none").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(*files.list("images"), std::vector<std::string>{"a"});
  ASSERT_TRUE(files.clean("images"));
  EXPECT_EQ(disk->list("images")->size(), 1u);
  using std::filesystem::perms;
  EXPECT_EQ(std::filesystem::status(root + "/log").permissions(), perms::owner_read | perms::owner_write);
  ASSERT_TRUE(files.remove("log"));
  EXPECT_TRUE(files.remove("log"));
  std::filesystem::remove_all(root);
}

TEST(ImageFiles, KeepWhatWasPromisedThroughAPowerCut) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    SimulatedDisk disk(seed);
    DurableFiles files(disk);
    disk.lose_power_at(seed % 40);
    std::vector<std::string> promised;
    if (const auto images = ImageFiles::open(files))
      for (int i = 0; i < 10; ++i)
        if (const auto hash = (*images)->put(bytes_of("image " + std::to_string(i))))
          promised.push_back(*hash);
    disk.restart();
    const auto images = ImageFiles::open(files);
    ASSERT_TRUE(images);
    for (const std::string& hash : promised) {
      EXPECT_TRUE((*images)->keep(hash)) << seed;
      EXPECT_TRUE((*images)->get(hash)) << seed;
    }
    (*images)->sweep();
    EXPECT_EQ(disk.list("images")->size(), promised.size()) << seed;
  }
}

TEST(ImageFiles, GoWithTheLastReference) {
  SimulatedDisk disk(1);
  DurableFiles files(disk);
  const auto images = *ImageFiles::open(files);
  const std::string hash = *images->put(bytes_of("one"));
  EXPECT_EQ(*images->put(bytes_of("one")), hash);
  images->drop(hash);
  EXPECT_TRUE(images->get(hash));
  images->drop(hash);
  EXPECT_EQ(images->get(hash).error().code, ErrorCode::kNotFound);
  images->drop(hash);
  EXPECT_EQ(images->keep(hash).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(images->get("../state.db").error().code, ErrorCode::kNotFound);
}

TEST(ImageFiles, SayThatTheyAreDamaged) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    SimulatedDisk disk(seed);
    DurableFiles files(disk);
    const auto images = *ImageFiles::open(files);
    const std::string hash = *images->put(bytes_of("what a session held"));
    disk.damage("images/" + hash);
    EXPECT_EQ(images->get(hash).error().code, ErrorCode::kInvalidInput);
  }
}

// The remains of a service that lost its power are not mistaken for an image.
TEST(ImageFiles, AreWrittenAgainWhenNobodyKeptThem) {
  SimulatedDisk disk(1);
  DurableFiles files(disk);
  const std::string hash = *(*ImageFiles::open(files))->put(bytes_of("one"));
  disk.damage("images/" + hash);
  const auto images = *ImageFiles::open(files);
  EXPECT_EQ(*images->put(bytes_of("one")), hash);
  EXPECT_TRUE(images->get(hash));
}

}  // namespace
}  // namespace membrane::service
