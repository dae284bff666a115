#include "service/receipts.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>

#include "service/image_files.h"
#include "service/simulated_disk_testing.h"

namespace membrane::service {
namespace {

class ReceiptsTest : public ::testing::Test {
 protected:
  ReceiptsTest() {
    std::filesystem::create_directory(directory_);
    start();
  }
  ~ReceiptsTest() override {
    receipts_ = nullptr;
    state_ = nullptr;
    std::filesystem::remove_all(directory_);
  }

  // A service that starts with what the previous one has left.
  void start(ReceiptBounds bounds = {}) {
    receipts_ = nullptr;
    state_ = nullptr;
    state_ = *State::open(directory_);
    images_ = *ImageFiles::open(files_);
    receipts_ = *Receipts::open(files_, *state_, *images_, bounds);
    images_->sweep();
  }
  void add_sandbox(const std::string& id) {
    const SandboxRow row{.id = id, .tenant = "t", .template_name = "wat", .expires_at_ms = INT64_MAX};
    ASSERT_TRUE(state_->put(row, Hold::kCrash));
  }
  Answer<void> keep(const std::string& sandbox, const std::string& exec) {
    return receipts_->keep("t", sandbox, {.exec = exec, .digest = {}},
                           {"text of " + exec, "private text of " + exec, "digest"});
  }
  Answer<std::string> text(const std::string& sandbox, const std::string& exec, bool is_private = false) {
    return receipts_->text("t", sandbox, exec, is_private);
  }

  const std::string directory_ =
      std::filesystem::temp_directory_path() / ("receipts-" + std::to_string(getpid()));
  SimulatedDisk disk_{1};
  DurableFiles files_{disk_};
  std::unique_ptr<State> state_;
  std::unique_ptr<ImageFiles> images_;
  std::unique_ptr<Receipts> receipts_;
};

TEST_F(ReceiptsTest, AreThereAfterThePowerWent) {
  add_sandbox("sbx1");
  ASSERT_TRUE(keep("sbx1", "exe1"));
  disk_.restart();
  start();
  EXPECT_EQ(text("sbx1", "exe1").value_or(""), "text of exe1");
  EXPECT_EQ(text("sbx1", "exe1", true).value_or(""), "private text of exe1");
  EXPECT_EQ(receipts_->text("another", "sbx1", "exe1", false).error().code, ApiCode::kNotFound);
  EXPECT_EQ(receipts_->list("another", "sbx1").error().code, ApiCode::kNotFound);
}

TEST_F(ReceiptsTest, GoWithTheirSandbox) {
  add_sandbox("sbx1");
  add_sandbox("sbx2");
  ASSERT_TRUE(keep("sbx1", "exe1"));
  ASSERT_TRUE(keep("sbx2", "exe2"));
  receipts_->forget("sbx1");
  EXPECT_EQ(text("sbx1", "exe1").error().code, ApiCode::kNotFound);
  ASSERT_TRUE(state_->remove_sandbox("sbx2", Hold::kCrash));  // and the service ended before it forgot
  start();
  EXPECT_EQ(text("sbx2", "exe2").error().code, ApiCode::kNotFound);
  EXPECT_TRUE(files_.list("images")->empty());
}

// The calls of a put: for each of two files, write, sync, rename, and sync of its directory.
TEST_F(ReceiptsTest, AreKeptWholeOrNotAtAll) {
  add_sandbox("sbx1");
  for (uint64_t call = 0; call < 8; ++call) {
    disk_.fail_at(disk_.calls() + call);
    EXPECT_FALSE(keep("sbx1", "exe1")) << call;
    EXPECT_FALSE(text("sbx1", "exe1")) << call;
  }
  ASSERT_TRUE(keep("sbx1", "exe1"));
  EXPECT_TRUE(text("sbx1", "exe1"));
}

TEST_F(ReceiptsTest, OfATenantAndOfASandboxAreBounded) {
  start({.most_bytes_of_tenant = 60, .most_of_sandbox = 2});
  EXPECT_TRUE(receipts_->has_room("t", "sbx1"));
  ASSERT_TRUE(keep("sbx1", "exe1"));
  EXPECT_TRUE(receipts_->has_room("t", "sbx1"));
  ASSERT_TRUE(keep("sbx1", "exe2"));
  EXPECT_EQ(receipts_->has_room("t", "sbx1").error().code, ApiCode::kQuotaExceeded);
  EXPECT_EQ(receipts_->has_room("t", "sbx2").error().code, ApiCode::kQuotaExceeded);
  EXPECT_TRUE(receipts_->has_room("another", "sbx3"));
  receipts_->forget("sbx1");
  EXPECT_TRUE(receipts_->has_room("t", "sbx2"));
}

TEST_F(ReceiptsTest, DamageIsNoReceipt) {
  add_sandbox("sbx1");
  ASSERT_TRUE(keep("sbx1", "exe1"));
  const std::vector<std::string> images = *files_.list("images");
  for (const std::string& image : images) disk_.damage("images/" + image);
  EXPECT_EQ(text("sbx1", "exe1").error().code, ApiCode::kUnavailable);
}

TEST_F(ReceiptsTest, TheKeyIsOnTheDiskBeforeItSigns) {
  const auto key = receipts_->signing_key();
  if (!key) GTEST_SKIP() << key.error().message;
  disk_.restart();
  start();
  EXPECT_EQ(receipts_->signing_key()->id, key->id);
  const auto rotated = receipts_->rotate();
  ASSERT_TRUE(rotated);
  disk_.restart();
  start();
  EXPECT_EQ(receipts_->signing_key()->id, *rotated);
  disk_.fail_at(disk_.calls());
  EXPECT_FALSE(receipts_->rotate());
  EXPECT_EQ(receipts_->signing_key()->id, *rotated);
}

}  // namespace
}  // namespace membrane::service
