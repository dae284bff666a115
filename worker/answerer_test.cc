// Arbitrary requests of a compromised worker to its supervisor.
#include "worker/answerer.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/sqlite.h"
#include "sandbox/run/run_context.h"
#include "worker/messages.h"

namespace membrane::worker {
namespace {

using sandbox::Outcome;
using sandbox::Report;

// A private database, and few host calls.
class Queries : public testing::Test {
 protected:
  Queries() {
    sqlite::Connection db(**sqlite::api());
    EXPECT_EQ(db.open(path_, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE), SQLITE_OK);
    EXPECT_EQ(db.execute("CREATE TABLE t (s); INSERT INTO t VALUES ('secret')"), SQLITE_OK);
    options_.policy.trifecta.emplace();
    options_.policy.sql.push_back({.name = "db",
                                   .path = path_,
                                   .timeout_ms = 600'000,
                                   .marks = {.is_private = true, .is_untrusted = {}}});
    options_.policy.limits.host_calls = 3;
    budget_ = std::make_shared<policy::Budget>(options_.policy.limits);
    begin();
  }
  ~Queries() override { std::filesystem::remove(path_); }
  void begin() {
    answerer_.emplace(options_, sandbox::world_of(options_, budget_), 64u << 20);
    answerer_->begin();
  }

  Result<std::string> say(const std::string& sql, host::Work work) {
    return answerer_->answer(
        bytes_of(Question::kBroker, BrokerCall::sql_query, uint64_t{32} << 20, "db", sql, "", work));
  }
  using Answer = std::pair<host::HostResult<std::string>, host::Work>;
  Answer ask(const std::string& sql, uint64_t most) {
    const auto answer = say(sql, {.most = most});
    EXPECT_TRUE(answer);
    Reader in(*answer);
    return in.get<Answer>();
  }
  std::vector<std::string> shown() {
    Report report;
    answerer_->write_calls({}, report);
    std::vector<std::string> calls;
    for (const auto& line : report.host_calls) calls.push_back(line.error + " " + line.arguments);
    return calls;
  }
  std::optional<std::string> difference(Outcome outcome) {
    Report report;
    report.outcome = outcome;
    return answerer_->difference(report, {});
  }

  const std::string path_ = testing::TempDir() + "queries_" + std::to_string(getpid()) + ".db";
  sandbox::RunOptions options_;
  std::shared_ptr<policy::Budget> budget_;
  std::optional<Answerer> answerer_;
};

TEST_F(Queries, AWorkerWithoutFuelPaysForWhatItAsksAndIsSeen) {
  for (const char* const letter : {"1", "2", "3"})
    EXPECT_FALSE(ask("SELECT substr(s, " + std::string(letter) + ", 1) FROM t", 0).first);
  EXPECT_EQ(budget_->left(policy::Resource::kHostCalls), 0u);
  EXPECT_EQ(ask("SELECT 4", 0).second.done, 0u) << "there is no host call left";
  const std::vector<std::string> calls = shown();
  ASSERT_EQ(calls.size(), 4u);
  EXPECT_EQ(calls[0], "EBUDGET db, SELECT substr(s, 1, 1) FROM t");
  EXPECT_EQ(answerer_->world().flow_state().private_reads.first.size(), 1u);
  for (const Outcome outcome : {Outcome::kOk, Outcome::kOutOfFuel, Outcome::kFailed, Outcome::kInvalid})
    EXPECT_EQ(difference(outcome), "leaves out sql.query of db, SELECT substr(s, 1, 1) FROM t");
}

TEST_F(Queries, OneThatFallsShortHasNoLineWhereTheProgramEndsWithIt) {
  EXPECT_FALSE(ask("SELECT s FROM t", 0).first);
  EXPECT_EQ(difference(Outcome::kOk), "leaves out sql.query of db, SELECT s FROM t");
  EXPECT_EQ(difference(Outcome::kOutOfFuel), std::nullopt);
  EXPECT_EQ(shown(), std::vector<std::string>{"EBUDGET db, SELECT s FROM t"});
}

TEST_F(Queries, OneThatIsMadeAgainIsOne) {
  EXPECT_FALSE(ask("SELECT s FROM t", 0).first);
  answerer_->pause();
  answerer_->go_on();
  EXPECT_TRUE(ask("SELECT s FROM t", UINT64_MAX).first);
  EXPECT_EQ(budget_->left(policy::Resource::kHostCalls), 2u);
  EXPECT_EQ(shown(), std::vector<std::string>{" db, SELECT s FROM t"});
  EXPECT_EQ(answerer_->world().flow_state().calls, 1u);
}

TEST_F(Queries, OneIsNotMadeAgainForNothingInARunThatNobodyContinued) {
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(ask("SELECT s FROM t", 0).first);
  EXPECT_EQ(budget_->left(policy::Resource::kHostCalls), 0u);
  EXPECT_EQ(shown().size(), 5u);
  EXPECT_EQ(difference(Outcome::kOutOfFuel), "leaves out sql.query of db, SELECT s FROM t");
}

TEST_F(Queries, DirectoriesAreAskedForOnceAndInARun) {
  options_.policy.fs.push_back({.guest = "/data", .host = testing::TempDir(), .mode = policy::FsMode::kRead});
  const std::string question = bytes_of(Question::kDirectories, std::vector<std::string>{"read:/data"});
  answerer_.emplace(options_, sandbox::world_of(options_, budget_), 64u << 20);
  EXPECT_TRUE(answerer_->answer(question)) << "as a session is made";
  EXPECT_FALSE(answerer_->answer(question));
  answerer_->begin();
  EXPECT_TRUE(answerer_->answer(question));
  EXPECT_EQ(budget_->left(policy::Resource::kHostCalls), 2u) << "that was not needed";
}

TEST_F(Queries, ASessionClosesItsFilesAfterItsTurn) {
  const std::string directory = path_ + ".files";
  std::filesystem::create_directories(directory);
  options_.policy.fs.push_back({.guest = "/data", .host = directory, .mode = policy::FsMode::kWrite});
  begin();
  const auto opened =
      answerer_->answer(bytes_of(Question::kBroker, BrokerCall::file_open, UINT64_MAX, "/data/a",
                                 host::FileOpening{.write = true, .create = true}));
  ASSERT_TRUE(opened);
  Reader in(*opened);
  const auto file = in.get<host::HostResult<host::OpenedFile>>();
  ASSERT_TRUE(file) << file.error().reason;
  answerer_->pause();
  const std::string close = bytes_of(Question::kBroker, BrokerCall::file_close, UINT64_MAX, file->handle);
  EXPECT_TRUE(answerer_->answer(close));
  EXPECT_FALSE(answerer_->answer(close)) << "there is none to close";
  EXPECT_FALSE(answerer_->answer(bytes_of(Question::kBroker, BrokerCall::kv_get, UINT64_MAX, "k")));
  std::filesystem::remove_all(directory);
}

TEST_F(Queries, TheyUseTheFuelOfTheRunWhateverTheWorkerSays) {
  const uint64_t fuel = ask("SELECT s FROM t", UINT64_MAX).second.done;
  ASSERT_GT(fuel, 0u);
  options_.policy.limits.fuel = fuel + fuel / 2;
  budget_ = std::make_shared<policy::Budget>(options_.policy.limits);
  begin();
  EXPECT_TRUE(ask("SELECT s FROM t", UINT64_MAX).first);
  const auto refused = ask("SELECT s FROM t", UINT64_MAX).first;
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, host::Errno::kBudget);
  Report report;
  report.outcome = Outcome::kOk;
  EXPECT_GE(answerer_->fuel_used(report), fuel) << "its word is that it used none";
}

TEST_F(Queries, NothingHappensBeforeOne) {
  EXPECT_FALSE(say("SELECT 1", {.most = 1'000, .done = 1}));
  EXPECT_FALSE(say("SELECT 1", {.most = UINT64_MAX, .done = UINT64_MAX}));
}

// -- functions and sleeps of the embedder

class Embedder : public Queries {
 protected:
  Embedder() {
    auto functions = std::make_shared<sandbox::GuestFunctions>();
    functions->call = [this](std::span<const sandbox::FunctionCall> calls, const sandbox::MustStop&) {
      called_ += calls.size();
      return std::vector<sandbox::FunctionAnswer>(calls.size());
    };
    options_.guest_functions = std::move(functions);
    auto sources = std::make_shared<host::Sources>();
    sources->sleep = host::Sources::Sleep::kAsked;
    sources->sleep_ns = [this](uint64_t ns, const std::function<bool()>& must_stop) {
      slept_ns_ = ns;
      return !must_stop();
    };
    options_.sources = std::move(sources);
    begin();
  }
  std::optional<std::vector<sandbox::FunctionAnswer>> call(const std::vector<sandbox::FunctionCall>& calls) {
    const auto answer = answerer_->answer(bytes_of(Question::kFunctions, calls));
    if (!answer) return std::nullopt;
    return Reader(*answer).get<std::vector<sandbox::FunctionAnswer>>();
  }
  const sandbox::FunctionCall good_{"price", "[1]", "{}", ""};
  size_t called_ = 0;
  uint64_t slept_ns_ = 0;
};

TEST_F(Embedder, CallsThatNoProgramMakesAreNotMade) {
  for (const sandbox::FunctionCall& bad : {sandbox::FunctionCall{"", "[]", "{}", ""},
                                           {"f", "", "{}", ""},
                                           {"f", "[]", "", ""},
                                           {"f", "{}", "{}", ""},
                                           {"f", "[]", "[]", ""},
                                           {"f", "[", "{}", ""},
                                           {"f", "[]", "{}", "x"},
                                           {"f", "[]", "{}", "-1"},
                                           {"f", "1", "{}", ""}})
    EXPECT_FALSE(call({good_, bad})) << bad.arguments << bad.keywords << bad.object;
  EXPECT_FALSE(call({}));
  EXPECT_FALSE(call(std::vector(1001, good_)));
  EXPECT_EQ(called_, 0u);
  EXPECT_EQ(budget_->left(policy::Resource::kHostCalls), 3u);
}

TEST_F(Embedder, CallsBeyondTheLimitFailUncalled) {
  const auto answers = call(std::vector(5, good_));
  ASSERT_TRUE(answers);
  ASSERT_EQ(answers->size(), 5u);
  EXPECT_EQ(called_, 3u);
  EXPECT_EQ(answers->at(3).kind, sandbox::FunctionAnswer::Kind::kError);
  answerer_->pause();
  EXPECT_FALSE(call({good_})) << "outside of a turn";
}

TEST_F(Embedder, ASleepLearnsThatItsTurnIsOver) {
  const std::string question = bytes_of(Question::kSleep, uint64_t{5});
  std::atomic<bool> cancel = false;
  answerer_->bound(std::chrono::steady_clock::time_point::max(), &cancel);
  const auto slept = [&] { return Reader(*answerer_->answer(question)).get<bool>(); };
  EXPECT_TRUE(slept());
  EXPECT_EQ(slept_ns_, 5u);
  cancel = true;
  EXPECT_FALSE(slept());
  cancel = false;
  answerer_->bound(std::chrono::steady_clock::now(), &cancel);
  EXPECT_FALSE(slept());
  options_.sources = nullptr;
  EXPECT_FALSE(answerer_->answer(question));
}

TEST_F(Queries, InputIsReadInsideATurnOnly) {
  const std::string question = bytes_of(Question::kInput, uint64_t{5});
  begin();
  EXPECT_TRUE(answerer_->answer(question));
  answerer_->pause();
  EXPECT_FALSE(answerer_->answer(question));
}

TEST_F(Queries, EarlierUseIsCountedByTheSupervisor) {
  EXPECT_TRUE(answerer_->answer(bytes_of(Question::kTakeAfter, host::World::Amounts{.host_calls = 3})));
  EXPECT_EQ(budget_->left(policy::Resource::kHostCalls), 3u);
}

}  // namespace
}  // namespace membrane::worker
