#include "base/sealed_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <functional>

namespace membrane {
namespace {

namespace fs = std::filesystem;

class SealedFile : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = ::testing::TempDir() + "sealed-XXXXXX";
    ASSERT_NE(mkdtemp(directory_.data()), nullptr);
    path_ = directory_ + "/file";
    std::ofstream(path_) << "content";
    file_ = open(path_.c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_GE(file_, 0);
  }
  void TearDown() override {
    close(file_);
    fs::remove_all(directory_);
  }

  [[nodiscard]] struct stat status() const {
    struct stat now{};
    EXPECT_EQ(fstat(file_, &now), 0);
    return now;
  }
  static int64_t changed_ns(const struct stat& s) {
    return int64_t{s.st_ctim.tv_sec} * 1'000'000'000 + s.st_ctim.tv_nsec;
  }
  // Seals the file as if it were old enough.
  void seal_it() const {
    const struct stat before = status();
    ASSERT_TRUE(seal(path_, file_, before, changed_ns(before) + kSealAfterNs));
    if (!is_sealed(path_, file_)) GTEST_SKIP() << "the system does not say when it was started";
  }
  // Repeats until the file system's clock has moved: a real change comes at least two seconds later.
  void change(const std::function<void()>& how) const {
    const int64_t before = changed_ns(status());
    do how();
    while (changed_ns(status()) == before);
  }

  std::string directory_, path_;
  int file_ = -1;
};

TEST_F(SealedFile, HoldsAsLongAsNothingWasWritten) {
  EXPECT_FALSE(is_sealed(path_, file_));
  seal_it();
  std::string text;
  std::ifstream(path_) >> text;
  EXPECT_TRUE(is_sealed(path_, file_));
  touch_seal(path_);
  EXPECT_TRUE(is_sealed(path_, file_));
  change([&] { EXPECT_EQ(pwrite(file_, "C", 1, 0), 1); });
  EXPECT_FALSE(is_sealed(path_, file_));
}

TEST_F(SealedFile, AChangeThatHidesItsTimeIsSeen) {
  seal_it();
  const struct stat before = status();
  change([&] {
    EXPECT_EQ(pwrite(file_, "C", 1, 0), 1);
    const std::array<timespec, 2> times = {before.st_atim, before.st_mtim};
    EXPECT_EQ(futimens(file_, times.data()), 0);
  });
  EXPECT_FALSE(is_sealed(path_, file_));
}

TEST_F(SealedFile, IsOfOneFileAndNotOfOneThatTookItsPlace) {
  seal_it();
  fs::copy_file(path_, directory_ + "/copy");
  fs::rename(directory_ + "/copy", path_);
  const int other = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(other, 0);
  EXPECT_FALSE(is_sealed(path_, other));
  close(other);
}

TEST_F(SealedFile, WhatChangedInTheLastMomentsOrMeanwhileIsNotSealed) {
  const struct stat before = status();
  ASSERT_TRUE(seal(path_, file_, before, changed_ns(before) + kSealAfterNs - 1));
  EXPECT_FALSE(is_sealed(path_, file_));
  ASSERT_TRUE(seal(path_, file_, before, changed_ns(before) - 1)) << "of the future";
  EXPECT_FALSE(is_sealed(path_, file_));
  change([&] { EXPECT_EQ(pwrite(file_, "C", 1, 0), 1); });
  ASSERT_TRUE(seal(path_, file_, before, changed_ns(status()) + kSealAfterNs));
  EXPECT_FALSE(is_sealed(path_, file_));
}

TEST_F(SealedFile, ASealThatIsDamagedOrOfOthersIsNone) {
  seal_it();
  const std::string path = seal_path_of(path_);
  for (size_t at = 0; at < fs::file_size(path); at += 5) {
    std::fstream seal_file(path, std::ios::in | std::ios::out | std::ios::binary);
    seal_file.seekg(static_cast<std::streamoff>(at));
    const auto byte = static_cast<char>(seal_file.get());
    seal_file.seekp(static_cast<std::streamoff>(at));
    seal_file.put(static_cast<char>(byte ^ 1)).flush();
    EXPECT_FALSE(is_sealed(path_, file_)) << at;
    seal_file.seekp(static_cast<std::streamoff>(at));
    seal_file.put(byte).flush();
    EXPECT_TRUE(is_sealed(path_, file_)) << at;
  }
  fs::permissions(path, fs::perms::others_write, fs::perm_options::add);
  EXPECT_FALSE(is_sealed(path_, file_));
  fs::permissions(path, fs::perms::others_write, fs::perm_options::remove);
  fs::create_hard_link(path, directory_ + "/second");
  EXPECT_FALSE(is_sealed(path_, file_));
  fs::remove(directory_ + "/second");
  EXPECT_TRUE(is_sealed(path_, file_));
  fs::resize_file(path, fs::file_size(path) - 1);
  EXPECT_FALSE(is_sealed(path_, file_));
}

}  // namespace
}  // namespace membrane
