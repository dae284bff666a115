#include "service/idempotency.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

namespace membrane::service {
namespace {

class IdempotencyTest : public testing::Test {
 protected:
  IdempotencyTest() {
    directory_ = testing::TempDir() + "idempotency_" + std::to_string(getpid());
    std::filesystem::create_directories(directory_);
    reopen();
  }
  ~IdempotencyTest() override {
    kept_.reset();
    state_.reset();
    std::filesystem::remove_all(directory_);
  }

  // As the next service does.
  void reopen(size_t most_kept = 10'000) {
    kept_.reset();
    state_.reset();
    state_ = *State::open(directory_);
    kept_ = *Idempotency::open(*state_, most_kept);
  }
  Idempotency& kept() { return *kept_; }

 private:
  std::string directory_;
  std::unique_ptr<State> state_;
  std::unique_ptr<Idempotency> kept_;
};

TEST_F(IdempotencyTest, TheSameRequestHasTheSameAnswer) {
  ASSERT_EQ(kept().begin("t", "k", "request", 0), std::nullopt);
  EXPECT_EQ(kept().begin("t", "k", "request", 1).error().code, ApiCode::kConflict);
  kept().finish("t", "k", {.status = 201, .body = "made"});
  const auto again = kept().begin("t", "k", "request", 2);
  ASSERT_TRUE(again && *again);
  EXPECT_EQ((*again)->status, 201);
  EXPECT_EQ((*again)->body, "made");
  EXPECT_EQ(kept().begin("t", "k", "another", 3).error().code, ApiCode::kInvalidValue);
  EXPECT_EQ(kept().begin("other", "k", "another", 3), std::nullopt);
}

TEST_F(IdempotencyTest, KeysOfOneDoNotPressOutAnothers) {
  reopen(2);
  ASSERT_EQ(kept().begin("t", "k", "request", 0), std::nullopt);
  kept().finish("t", "k", {.status = 200});
  for (const char* key : {"a", "b", "c", "d"}) {
    ASSERT_EQ(kept().begin("other", key, "request", 0), std::nullopt);
    kept().finish("other", key, {.status = 200});
  }
  EXPECT_TRUE(*kept().begin("t", "k", "request", 0));
  EXPECT_EQ(kept().begin("other", "a", "request", 0), std::nullopt);
}

TEST_F(IdempotencyTest, TheNextServiceGivesTheSameAnswer) {
  ASSERT_EQ(kept().begin("t", "k", "request", 0), std::nullopt);
  ASSERT_EQ(kept().begin("t", "open", "request", 0), std::nullopt);
  const std::string bytes("a\0\xff\n", 4);
  Response made{.status = 201, .body = bytes};
  made.headers.add("Location", "/v1/x");
  kept().finish("t", "k", made);
  reopen();
  const auto again = kept().begin("t", "k", "request", 1);
  ASSERT_TRUE(again && *again);
  EXPECT_EQ((*again)->status, 201);
  EXPECT_EQ((*again)->body, bytes);
  EXPECT_EQ((*again)->headers.find("location"), "/v1/x");
  EXPECT_EQ(kept().begin("t", "k", "another", 1).error().code, ApiCode::kInvalidValue);
  EXPECT_EQ(kept().begin("t", "open", "request", 1), std::nullopt);  // it was never answered
}

TEST_F(IdempotencyTest, WhatPassesIsNotKept) {
  ASSERT_EQ(kept().begin("t", "k", "request", 0), std::nullopt);
  kept().finish("t", "k", {.status = 503});
  EXPECT_EQ(kept().begin("t", "k", "request", 1), std::nullopt);
}

TEST_F(IdempotencyTest, AnswersAreKeptForADay) {
  ASSERT_EQ(kept().begin("t", "k", "request", 0), std::nullopt);
  kept().finish("t", "k", {.status = 200});
  EXPECT_TRUE(*kept().begin("t", "k", "request", Idempotency::kKeptForMs - 1));
  EXPECT_EQ(kept().begin("t", "k", "request", Idempotency::kKeptForMs), std::nullopt);
}

TEST_F(IdempotencyTest, TheOldestGoFirst) {
  reopen(2);
  for (const char* key : {"a", "b", "c", "d"}) {
    ASSERT_EQ(kept().begin("t", key, "request", 0), std::nullopt);
    kept().finish("t", key, {.status = 200});
  }
  EXPECT_TRUE(*kept().begin("t", "d", "request", 0));
  EXPECT_EQ(kept().begin("t", "a", "request", 0), std::nullopt);
}

TEST_F(IdempotencyTest, StreamsAreNotKept) {
  ASSERT_EQ(kept().begin("t", "k", "request", 0), std::nullopt);
  kept().finish("t", "k", {.status = 200, .body = std::string(Idempotency::kMostBodyBytes + 1, 'x')});
  EXPECT_EQ(kept().begin("t", "k", "request", 0).error().code, ApiCode::kConflict);
}

TEST_F(IdempotencyTest, InvalidKeysAreRefused) {
  for (const std::string& key :
       {std::string(), std::string(256, 'x'), std::string("a b"), std::string("\xC3\xA4")})
    EXPECT_EQ(kept().begin("t", key, "request", 0).error().code, ApiCode::kInvalidRequest);
}

}  // namespace
}  // namespace membrane::service
