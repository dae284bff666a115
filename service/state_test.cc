#include "service/state.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

namespace membrane::service {
namespace {

namespace fs = std::filesystem;

SandboxRow sandbox(const std::string& id) {
  return {.id = id,
          .tenant = "t",
          .template_name = "python",
          .metadata = {{"a", "b"}},
          .labels = {"x", "y"},
          .environment = {{"LANG", "C"}},
          .created_at_ms = 1'000,
          .last_used_at_ms = 2'000,
          .expires_at_ms = 10'000,
          .idle_timeout_s = 5};
}

class StateTest : public ::testing::Test {
 protected:
  StateTest() : directory_(::testing::TempDir() + "state-" + std::to_string(getpid())) {
    fs::remove_all(directory_);
    fs::create_directory(directory_);
  }
  ~StateTest() override { fs::remove_all(directory_); }

  std::unique_ptr<State> open() {
    auto state = State::open(directory_);
    EXPECT_TRUE(state) << state.error().to_string();
    return state ? *std::move(state) : nullptr;
  }
  [[nodiscard]] std::string file() const { return directory_ + "/state.db"; }
  [[nodiscard]] std::string bytes() const {
    std::ifstream in(file(), std::ios::binary);
    std::ostringstream out;
    out << in.rdbuf();
    return out.str();
  }

  const std::string directory_;
};

TEST_F(StateTest, IsReadableByItsUserAlone) {
  const mode_t before = umask(022);
  for (int i = 0; i < 2; ++i) {
    const auto state = open();
    ASSERT_TRUE(state->put(sandbox("one"), Hold::kCrash));
    for (const char* const ending : {"", "-wal"})
      EXPECT_EQ(fs::status(file() + ending).permissions(), fs::perms::owner_read | fs::perms::owner_write)
          << ending;
    fs::permissions(file(), fs::perms(0644));  // as an earlier version made it
    fs::permissions(file() + "-wal", fs::perms(0644));
  }
  umask(before);
}

TEST_F(StateTest, IsLoadedAgain) {
  {
    const auto state = open();
    ASSERT_TRUE(state->put(sandbox("one"), Hold::kCrash));
    ASSERT_TRUE(state->put({.hash = "h",
                            .id = "tok",
                            .tenant = "t",
                            .name = "n",
                            .scopes = {"exec"},
                            .quotas = {{"sandboxes", 3}},
                            .created_at_ms = 1,
                            .expires_at_ms = 9}));
    ASSERT_TRUE(state->put(SnapshotRow{
        .id = "snap", .tenant = "t", .template_name = "python", .sandbox = "one", .images = {"abc"}}));
    ASSERT_TRUE(state->put(TemplateRow{"t", "mine", "snap", 5}));
    ASSERT_TRUE(state->put(SecretRow{"t", "KEY", std::string("\0\1\2", 3), {"example.com"}, 6}));
  }
  const auto state = open();
  const auto sandboxes = *state->sandboxes();
  ASSERT_EQ(sandboxes.size(), 1u);
  EXPECT_EQ(sandboxes[0].labels, (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(sandboxes[0].metadata.at("a"), "b");
  EXPECT_EQ(sandboxes[0].environment.at("LANG"), "C");
  EXPECT_EQ(sandboxes[0].idle_timeout_s, 5u);
  EXPECT_EQ(sandboxes[0].state, "live");
  const auto tokens = *state->tokens();
  ASSERT_EQ(tokens.size(), 1u);
  EXPECT_EQ(tokens[0].quotas.at("sandboxes"), 3u);
  EXPECT_EQ(tokens[0].expires_at_ms, 9);
  EXPECT_EQ((*state->snapshots())[0].images, std::vector<std::string>{"abc"});
  EXPECT_EQ((*state->templates())[0].snapshot, "snap");
  EXPECT_EQ((*state->secrets())[0].ciphertext, std::string("\0\1\2", 3));
}

TEST_F(StateTest, SettlesWhatTheServiceBeforeHeld) {
  {
    const auto state = open();
    ASSERT_TRUE(state->put(sandbox("live"), Hold::kCrash));
    SandboxRow paused = sandbox("paused");
    paused.state = "paused";
    paused.images = {"abc"};
    ASSERT_TRUE(state->put(paused, Hold::kPowerCut));
    SandboxRow idle = paused;
    idle.id = "idle";
    idle.state = "parked";
    idle.last_used_at_ms = 0;
    ASSERT_TRUE(state->put(idle, Hold::kPowerCut));
    SandboxRow over = paused;
    over.id = "over";
    over.expires_at_ms = 6'000;
    ASSERT_TRUE(state->put(over, Hold::kPowerCut));
  }
  const auto state = open();
  ASSERT_TRUE(state->settle_sandboxes(6'000, "the service ended"));
  const auto rows = *state->sandboxes();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].id + " " + rows[0].state + " " + rows[0].reason, "live lost the service ended");
  EXPECT_EQ(rows[1].id + " " + rows[1].state, "paused paused");
}

TEST_F(StateTest, KeepsASnapshotThatATemplateIsMadeOf) {
  const auto state = open();
  EXPECT_EQ(state->put(TemplateRow{"t", "mine", "snap", 5}).error().code, ErrorCode::kNotFound);
  ASSERT_TRUE(state->put(SnapshotRow{
      .id = "snap", .tenant = "t", .template_name = "python", .sandbox = "one", .images = {"abc"}}));
  ASSERT_TRUE(state->put(TemplateRow{"t", "mine", "snap", 5}));
  EXPECT_EQ(state->remove_snapshot("snap").error().code, ErrorCode::kDenied);
  ASSERT_TRUE(state->remove_template("t", "mine"));
  EXPECT_TRUE(state->remove_snapshot("snap"));
}

TEST_F(StateTest, AddsUpWhatWasUsed) {
  const auto state = open();
  ASSERT_TRUE(state->add({{"t", 5, 10, 1, 1}, {"u", 5, 7, 0, 1}}));
  ASSERT_TRUE(state->add({{"t", 5, 10, 2, 1}}));
  ASSERT_TRUE(state->add({{"t", 6, uint64_t{1} << 63, 0, 1}}));
  ASSERT_TRUE(state->add({{"t", 6, uint64_t{1} << 63, 0, 1}}));
  const auto rows = *state->usage(5);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].fuel, 20u);
  EXPECT_EQ(rows[0].egress_bytes, 3u);
  EXPECT_EQ(rows[0].execs, 2u);
  EXPECT_EQ(rows[2].fuel, static_cast<uint64_t>(INT64_MAX));
  EXPECT_EQ(state->usage(6)->size(), 1u);
}

TEST_F(StateTest, KeepsAnswers) {
  const std::string bytes("a\0b\xff", 4);
  const AnswerRow row{
      .tenant = "t", .key = "k", .request_hash = "h", .created_at_ms = 5, .size_bytes = 4, .answer = bytes};
  ASSERT_TRUE(open()->put(row, Hold::kCrash));
  const auto state = open();
  const auto rows = *state->answers();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].request_hash, "h");
  EXPECT_EQ(rows[0].size_bytes, 4u);
  EXPECT_EQ(rows[0].answer, "");
  EXPECT_EQ(state->answer("t", "k")->answer, bytes);
  EXPECT_EQ(state->answer("other", "k").error().code, ErrorCode::kNotFound);
  ASSERT_TRUE(state->remove_answer("t", "k"));
  EXPECT_EQ(state->answer("t", "k").error().code, ErrorCode::kNotFound);
}

TEST_F(StateTest, SandboxesChangeByParts) {
  const auto state = open();
  SandboxRow row = sandbox("s");
  row.state = "paused";
  row.kept = "what";
  row.images = {"abc"};
  ASSERT_TRUE(state->put(row, Hold::kCrash));
  SandboxRow facts = sandbox("s");
  facts.labels = {"new"};
  ASSERT_TRUE(state->update_facts(facts, Hold::kCrash));
  SandboxRow now = (*state->sandboxes())[0];
  EXPECT_EQ(now.labels, facts.labels);
  EXPECT_EQ(now.state, "paused");
  EXPECT_EQ(now.kept, "what");
  ASSERT_TRUE(state->settle_sandbox("s", "live", "", Hold::kCrash));
  now = (*state->sandboxes())[0];
  EXPECT_EQ(now.state, "live");
  EXPECT_EQ(now.kept, "");
  EXPECT_TRUE(now.images.empty());
  ASSERT_TRUE(state->update(sandbox("none"), Hold::kCrash));
  EXPECT_EQ(state->sandboxes()->size(), 1u);
}

TEST_F(StateTest, IsOneServicesAtATime) {
  const auto state = open();
  const auto second = State::open(directory_);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kInvalidArgument) << second.error().message;
}

TEST_F(StateTest, IsNotAnotherProgramsDatabase) {
  std::ofstream(file())
      << "this is a text of more than a few bytes, and no database at all, whatever its name says";
  const auto state = State::open(directory_);
  ASSERT_FALSE(state);
  EXPECT_EQ(state.error().code, ErrorCode::kInvalidInput);
}

// Whatever the disk did to it: an error with a name, or an answer.
TEST_F(StateTest, SaysThatItIsDamaged) {
  {
    const auto state = open();
    for (int i = 0; i < 100; ++i)
      ASSERT_TRUE(state->put(sandbox("sandbox " + std::to_string(i)), Hold::kCrash));
  }
  const std::string whole = bytes();
  ASSERT_GT(whole.size(), 20'000u);
  std::mt19937_64 random(1);
  size_t noticed = 0;
  for (int round = 0; round < 100; ++round) {
    std::string damaged = whole;
    if (round % 4 == 0) damaged.resize(random() % whole.size());
    else
      for (int i = 0; i < 64; ++i) damaged[random() % damaged.size()] = static_cast<char>(random());
    fs::remove(file() + "-wal");
    std::ofstream(file(), std::ios::binary | std::ios::trunc) << damaged;
    const auto state = State::open(directory_);
    if (state) {
      const auto rows = (*state)->sandboxes();
      noticed += !rows || rows->size() != 100;
      static_cast<void>((*state)->settle_sandboxes(0, "x"));
    } else {
      EXPECT_NE(state.error().code, ErrorCode::kInternal);
      ++noticed;
    }
  }
  EXPECT_GT(noticed, 50u);
}

}  // namespace
}  // namespace membrane::service
