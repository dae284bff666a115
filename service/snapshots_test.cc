#include "service/snapshots.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "service/kept_record.h"

namespace membrane::service {
namespace {

namespace fs = std::filesystem;

class SnapshotsTest : public ::testing::Test {
 protected:
  SnapshotsTest() : directory_(::testing::TempDir() + "snapshots-" + std::to_string(getpid())) {
    fs::remove_all(directory_);
    fs::create_directory(directory_);
    state_ = *State::open(directory_);
  }
  ~SnapshotsTest() override {
    state_.reset();
    fs::remove_all(directory_);
  }
  void add(Snapshots& snapshots, const std::string& id) {
    ASSERT_TRUE(snapshots.add({.id = id, .tenant = "t", .sandbox = "sbx", .template_name = "wat", .name = {}},
                              {{"wat", {}}, {}}));
  }

  const std::string directory_;
  std::unique_ptr<State> state_;
  std::unique_ptr<Guests> guests_ = local_guests({});
  std::unique_ptr<Images> images_ = images_in_memory();
};

// Whatever of them is installed.
constexpr const char* kBuiltIn[] = {"python", "py", "js", "javascript", "node", "wat", "linux", "ts"};

TEST_F(SnapshotsTest, TakeNoNameThatIsBuiltInOrMisleads) {
  Snapshots snapshots(*images_, *guests_, state_.get());
  add(snapshots, "snp1");
  for (const char* const name : kBuiltIn) {
    const auto named = snapshots.promote("t", "snp1", name);
    ASSERT_FALSE(named) << name;
    EXPECT_EQ(named.error().code, ApiCode::kConflict) << name;
  }
  for (const std::string& name : {std::string(), std::string(" "), std::string("../x"), std::string("A"),
                                  std::string("\x1b[2Jx"), std::string("a\nb"), std::string("linux:mine"),
                                  std::string("a\0b", 3), std::string(65, 'a'), std::string(900'000, 'a')}) {
    const auto named = snapshots.promote("t", "snp1", name);
    ASSERT_FALSE(named) << name.substr(0, 80);
    EXPECT_EQ(named.error().code, ApiCode::kInvalidValue) << name.substr(0, 80);
    EXPECT_LT(named.error().message.size(), 200u);
  }
  EXPECT_TRUE(state_->templates()->empty());
  EXPECT_TRUE(snapshots.promote("t", "snp1", std::string(64, 'a')));
}

TEST_F(SnapshotsTest, LoseNamesOfAnEarlierVersionThatAreRefusedNow) {
  {
    Snapshots snapshots(*images_, *guests_, state_.get());
    for (const char* const id : {"snp1", "snp2", "snp3"}) add(snapshots, id);
    ASSERT_TRUE(snapshots.promote("t", "snp3", "mine"));
  }
  ASSERT_TRUE(state_->put(TemplateRow{"t", "python", "snp1", 1}));
  ASSERT_TRUE(state_->put(TemplateRow{"t", "\x1b[2Jx", "snp2", 1}));
  Snapshots snapshots(*images_, *guests_, state_.get());
  const auto problems = snapshots.load();
  ASSERT_TRUE(problems) << problems.error().to_string();
  EXPECT_EQ(problems->size(), 2u);
  EXPECT_FALSE(snapshots.find_template("t", "python"));
  EXPECT_FALSE(snapshots.find_template("t", "\x1b[2Jx"));
  EXPECT_TRUE(snapshots.find_template("t", "mine"));
  EXPECT_EQ(state_->templates()->size(), 1u);
  EXPECT_TRUE(snapshots.remove("t", "snp1"));  // no name holds it
}

}  // namespace
}  // namespace membrane::service
