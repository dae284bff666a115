#include "computers/image_digests.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

namespace membrane::computers {
namespace {

class ImageDigestsTest : public ::testing::Test {
 protected:
  ImageDigestsTest() {
    std::string name = testing::TempDir() + "digests-XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~ImageDigestsTest() override { std::filesystem::remove_all(folder_); }
  [[nodiscard]] std::string directory() const { return folder_ + "/images"; }
  struct stat file(const std::string& bytes) {
    std::ofstream(folder_ + "/image", std::ios::binary) << bytes;
    struct stat facts = {};
    EXPECT_EQ(stat((folder_ + "/image").c_str(), &facts), 0);
    return facts;
  }

  std::string folder_;
  const std::string digest_ = std::string(64, 'a');
};

TEST_F(ImageDigestsTest, KeepsTheDigestOfAnUnchangedFile) {
  const ImageDigests digests(directory());
  const std::string mark = ImageDigests::mark_of(file("one"));
  EXPECT_EQ(digests.find(mark), std::nullopt);
  digests.keep(mark, digest_);
  EXPECT_EQ(digests.find(mark), digest_);
  EXPECT_EQ(ImageDigests(directory()).find(mark), digest_);
  EXPECT_EQ(digests.find(ImageDigests::mark_of(file("another"))), std::nullopt);
  EXPECT_EQ(ImageDigests("").find(mark), std::nullopt);
}

TEST_F(ImageDigestsTest, BelievesNothingThatOthersCanWrite) {
  const ImageDigests digests(directory());
  const std::string mark = ImageDigests::mark_of(file("one"));
  digests.keep(mark, digest_);
  ASSERT_EQ(chmod(directory().c_str(), 0777), 0);
  EXPECT_EQ(digests.find(mark), std::nullopt);
  ASSERT_EQ(chmod(directory().c_str(), 0700), 0);
  for (const auto& each : std::filesystem::directory_iterator(directory()))
    ASSERT_EQ(chmod(each.path().c_str(), 0666), 0);
  EXPECT_EQ(digests.find(mark), std::nullopt);
}

TEST_F(ImageDigestsTest, BelievesNoRecordThatIsDamaged) {
  const ImageDigests digests(directory());
  const std::string mark = ImageDigests::mark_of(file("one"));
  for (const std::string& record : {std::string(), mark, mark + "short", mark + std::string(64, 'Z')}) {
    digests.keep(mark, digest_);
    for (const auto& each : std::filesystem::directory_iterator(directory()))
      std::ofstream(each.path(), std::ios::binary | std::ios::trunc) << record;
    EXPECT_EQ(digests.find(mark), std::nullopt) << record;
  }
}

TEST_F(ImageDigestsTest, AFileThatJustChangedIsNotSettled) {
  const struct stat facts = file("one");
  EXPECT_FALSE(ImageDigests::is_settled(facts, facts.st_ctim.tv_sec + 2));
  EXPECT_TRUE(ImageDigests::is_settled(facts, facts.st_ctim.tv_sec + 3));
}

}  // namespace
}  // namespace membrane::computers
