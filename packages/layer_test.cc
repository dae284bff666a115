#include "packages/layer.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace membrane::packages {
namespace {

namespace fs = std::filesystem;

class LayerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = ::testing::TempDir() + "layer-XXXXXX";
    ASSERT_NE(mkdtemp(directory_.data()), nullptr);
    tree_ = directory_ + "/tree";
    path_ = directory_ + "/a.layer";
    fs::create_directories(tree_ + "/b/c");
    std::ofstream(tree_ + "/b/c/two.py") << "two";
    std::ofstream(tree_ + "/b/empty.py");
    std::ofstream(tree_ + "/a one.py") << "one";
  }
  void TearDown() override { fs::remove_all(directory_); }

  std::string bytes() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::string directory_, tree_, path_;
};

TEST_F(LayerTest, FilesOfADirectoryAreFoundAgain) {
  ASSERT_TRUE(write_layer(path_, "the key", tree_));
  const auto layer = Layer::open(path_, "the key");
  ASSERT_TRUE(layer) << layer.error().message;
  const auto files = layer->files("/lib");
  ASSERT_EQ(files.size(), 3u);
  EXPECT_EQ(files[0].path, "/lib/a one.py");
  EXPECT_EQ(files[1].path, "/lib/b/c/two.py");
  EXPECT_EQ(std::string(files[1].bytes.begin(), files[1].bytes.end()), "two");
  EXPECT_TRUE(files[2].bytes.empty());
  EXPECT_EQ(Layer::open(path_, "another key").error().code, ErrorCode::kInvalidInput);
}

TEST_F(LayerTest, ADamagedOneIsNotUsed) {
  ASSERT_TRUE(write_layer(path_, "k", tree_));
  const std::string whole = bytes();
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    std::ofstream(path_, std::ios::binary) << damaged;
    EXPECT_FALSE(Layer::open(path_, "k")) << at;
    std::ofstream(path_, std::ios::binary) << whole.substr(0, at);
    EXPECT_FALSE(Layer::open(path_, "k")) << at;
  }
}

TEST_F(LayerTest, OneThatOthersMayWriteToIsNotUsed) {
  ASSERT_TRUE(write_layer(path_, "k", tree_));
  fs::permissions(path_, fs::perms::group_write, fs::perm_options::add);
  EXPECT_EQ(Layer::open(path_, "k").error().code, ErrorCode::kNotFound);
}

TEST_F(LayerTest, LinksAndDevicesAreRefused) {
  fs::create_symlink("/etc/passwd", tree_ + "/link");
  EXPECT_EQ(write_layer(path_, "k", tree_).error().code, ErrorCode::kInvalidInput);
  fs::remove(tree_ + "/link");
  fs::create_directory_symlink("/etc", tree_ + "/link");
  EXPECT_FALSE(write_layer(path_, "k", tree_));
  fs::remove(tree_ + "/link");
  ASSERT_EQ(mkfifo((tree_ + "/pipe").c_str(), 0600), 0);
  EXPECT_FALSE(write_layer(path_, "k", tree_));
  EXPECT_FALSE(fs::exists(path_));
}

TEST(LayerIndexTest, WhatDoesNotFitIsRefused) {
  EXPECT_EQ(read_layer_index("key k\nfile 2 a\nfile 1 b/c\n", "k", 3)->size(), 2u);
  for (const char* index :
       {"", "key k", "key other\n", "key k\nfile 2 a", "key k\nfile 4 a\n", "key k\nfile 2 a\n",
        "key k\nfile -1 a\n", "key k\nfile 3 /a\n", "key k\nfile 3 ../a\n", "key k\nfile 3 a//b\n",
        "key k\nfile 3 \n", "key k\nfile 3a\n", "key k\nfile 18446744073709551615 a\nfile 4 b\n",
        "key k\nlink 3 a\n"})
    EXPECT_FALSE(read_layer_index(index, "k", 3)) << index;
}

}  // namespace
}  // namespace membrane::packages
