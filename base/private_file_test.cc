#include "base/private_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>

#include "base/sealed_file.h"

namespace membrane {
namespace {

namespace fs = std::filesystem;

class PrivateFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = ::testing::TempDir() + "private-XXXXXX";
    ASSERT_NE(mkdtemp(directory_.data()), nullptr);
  }
  void TearDown() override { fs::remove_all(directory_); }

  // A file last used `hours` ago.
  std::string write(const std::string& name, size_t bytes, int hours = 0) {
    std::string path = directory_ + "/" + name;
    std::ofstream(path) << std::string(bytes, 'x');
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(hours));
    return path;
  }
  std::string directory_;
};

TEST_F(PrivateFileTest, ADirectoryIsMadeWithThoseAboveItAndClosed) {
  const std::string made = directory_ + "/a/b/c";
  EXPECT_TRUE(make_directory(made));
  EXPECT_TRUE(make_directory(made));
  struct stat status{};
  ASSERT_EQ(stat(made.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
  EXPECT_TRUE(is_private(status));
  write("file", 1);
  EXPECT_FALSE(make_directory(directory_ + "/file/in"));
  EXPECT_EQ(errno, ENOTDIR);
}

TEST_F(PrivateFileTest, RoomIsMadeByRemovingWhatWasNotUsedForLongest) {
  const std::string oldest = write("a.code", 100, 3), older = write("b.code", 100, 2),
                    recent = write("c.code", 100, 1), used = write("d.code", 100, 4),
                    other = write("a.image", 100, 5);
  make_room(directory_, ".code", 400, used);
  EXPECT_TRUE(fs::exists(oldest));
  make_room(directory_, ".code", 250, used);
  EXPECT_FALSE(fs::exists(oldest));
  EXPECT_FALSE(fs::exists(older));
  for (const std::string& stays : {recent, used, other}) EXPECT_TRUE(fs::exists(stays)) << stays;
  make_room(directory_, ".code", 0, used);
  EXPECT_FALSE(fs::exists(recent));
  EXPECT_TRUE(fs::exists(used));
}

TEST_F(PrivateFileTest, TheSealGoesWithItsFileAndTellsWhenItWasUsed) {
  const std::string sealed = write("a.code", 100, 3), plain = write("b.code", 100, 2);
  write("a.code.seal", 10, 1);
  make_room(directory_, ".code", 100, "");
  EXPECT_TRUE(fs::exists(sealed)) << "it was used an hour ago";
  EXPECT_FALSE(fs::exists(plain));
  make_room(directory_, ".code", 0, "");
  EXPECT_FALSE(fs::exists(sealed));
  EXPECT_FALSE(fs::exists(seal_path_of(sealed)));
}

TEST_F(PrivateFileTest, FilesAreTakenOnlyFromADirectoryThatOthersMayNotWriteTo) {
  EXPECT_TRUE(check_private_directory(directory_, "code"));
  fs::create_directory_symlink(directory_, directory_ + "/link");
  EXPECT_TRUE(check_private_directory(directory_ + "/link", "code"));
  for (const mode_t mode : {0777u, 0775u, 01777u}) {
    ASSERT_EQ(chmod(directory_.c_str(), mode), 0);
    const Status refused = check_private_directory(directory_, "code");
    ASSERT_FALSE(refused) << mode;
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(refused.error().hint.find("chmod go-w " + directory_), std::string::npos);
  }
  ASSERT_EQ(chmod(directory_.c_str(), 0755), 0);
  EXPECT_EQ(check_private_directory(write("file", 1), "code").error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(check_private_directory(directory_ + "/none", "code").error().code, ErrorCode::kUnavailable);
}

TEST_F(PrivateFileTest, OnlyWhatNobodyElseMayWriteToIsPrivate) {
  const std::string path = write("file", 5);
  ASSERT_EQ(chmod(path.c_str(), 0644), 0);
  EXPECT_TRUE(PrivateFile(path).usable());
  EXPECT_EQ(PrivateFile(path).bytes(), 5u);
  fs::create_symlink(path, directory_ + "/link");
  EXPECT_FALSE(PrivateFile(directory_ + "/link").usable());
  EXPECT_TRUE(OpenedFile(directory_ + "/link").usable());
  fs::create_hard_link(path, directory_ + "/second");
  EXPECT_FALSE(PrivateFile(path).usable()) << "the other name may be in a directory of somebody else";
  EXPECT_TRUE(OpenedFile(path).usable());
  fs::remove(directory_ + "/second");
  EXPECT_TRUE(PrivateFile(path).usable());
  ASSERT_EQ(chmod(path.c_str(), 0664), 0);
  EXPECT_FALSE(PrivateFile(path).usable());
  EXPECT_EQ(PrivateFile(path).bytes(), 0u);
  EXPECT_EQ(OpenedFile(path).bytes(), 5u);
}

TEST_F(PrivateFileTest, WhatIsNoFileIsNotUsable) {
  for (const std::string& path : {directory_, directory_ + "/none"}) {
    EXPECT_FALSE(PrivateFile(path).usable()) << path;
    EXPECT_FALSE(OpenedFile(path).usable()) << path;
  }
}

TEST_F(PrivateFileTest, ANewFileIsThereWhenItIsPublishedAndNotBefore) {
  const std::string path = directory_ + "/new";
  const uint8_t bytes[] = {'a', 'b'};
  {
    auto file = NewFile::create(path);
    ASSERT_TRUE(file);
    ASSERT_TRUE(file->write(0, bytes));
    EXPECT_FALSE(fs::exists(path));
  }
  EXPECT_TRUE(fs::is_empty(directory_));
  auto file = NewFile::create(path);
  ASSERT_TRUE(file && file->write(1, bytes) && file->resize(2) && file->publish());
  EXPECT_TRUE(PrivateFile(path).usable());
  EXPECT_EQ(fs::file_size(path), 2u);
}

TEST_F(PrivateFileTest, ANewFileThatCannotBeMadeSaysWhy) {
  const auto file = NewFile::create(directory_ + "/none/new");
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(file.error().message.find("cannot make " + directory_ + "/none/new"), std::string::npos);
  EXPECT_NE(file.error().message.find("No such file"), std::string::npos);
}

}  // namespace
}  // namespace membrane
