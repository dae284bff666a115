// What an embedder gives its programs beside the policy: approval, a model, a person, receipts. The same in this process and in one of the
// session's own. Skipped where JavaScript is not installed (tools/get-languages).

#include "membrane/agents.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "face/inner.h"
#include "face/place_testing.h"
#include "membrane/session.hpp"
#include "sandbox/receipt_files.h"
#include "sandbox/template_testing.h"

namespace membrane {
namespace {

namespace fs = std::filesystem;

// What is read of the store is private and of untrusted origin, and the model is the way out.
constexpr std::string_view kPolicy = R"(
ask = true
[kv]
private = true
untrusted = true
[ai]
embed = true
[trifecta]
egress = "ask"
[limits]
fuel = "4e9"
memory = "256 MiB"
wall = "10 min"
)";
constexpr const char* kRead = "membrane.kv.set('k', 'secret'); membrane.kv.get('k')";
constexpr const char* kSend = "membrane.ai.complete('hello')";
constexpr const char* kSendOfWat =
    R"((func (export "main") (call $io.result (call $ai.complete! (string "hi")))))";

Policy policy() {
  auto parsed = Policy::parse(kPolicy);
  EXPECT_TRUE(parsed) << parsed.error().message;
  return *std::move(parsed);
}

Model echo(std::vector<ModelRequest>* heard = nullptr) {
  return {.complete = [heard](const ModelRequest& request) -> Expected<ModelAnswer> {
            if (heard != nullptr) heard->push_back(request);
            return ModelAnswer{.text = "said " + request.prompt, .tokens_in = 3, .tokens_out = 2};
          },
          .embed = [](std::string_view text, uint64_t) -> Expected<std::vector<float>> {
            return std::vector<float>{static_cast<float>(text.size()), 0.5F};
          }};
}

Approve says(Approval answer, std::vector<EgressQuestion>* asked = nullptr) {
  return [=](const EgressQuestion& question) {
    if (asked != nullptr) asked->push_back(question);
    return answer;
  };
}

std::string what_failed(const Report& report) {
  return report.failures.empty() ? "" : report.failures.front().message;
}

class AgentOptions : public ::testing::TestWithParam<Place> {
 protected:
  void SetUp() override {
    setenv("XDG_CACHE_HOME", sandbox::template_cache().c_str(), 0);
    auto opened = Language::open("js");
    if (!opened) GTEST_SKIP() << opened.error().message;
    language_ = *std::move(opened);
  }
  void TearDown() override {
    std::error_code ignored;
    fs::remove_all(directory_, ignored);
  }
  Expected<Session> create(SessionOptions options) {
    options.isolated = GetParam() == Place::kIsolated;
    return Session::create(language_, std::move(options));
  }
  Session session(SessionOptions options) {
    auto made = create(std::move(options));
    EXPECT_TRUE(made) << made.error().message;
    return *std::move(made);
  }
  Receipts receipts() {
    auto opened = Receipts::open(directory_ / "receipts", {.key_file = key_file_, .makes_key = true});
    EXPECT_TRUE(opened) << opened.error().message;
    return *std::move(opened);
  }
  [[nodiscard]] sandbox::KeyRing keys() const {
    auto loaded = sandbox::load_own_keys(key_file_);
    EXPECT_TRUE(loaded) << loaded.error().message;
    return *std::move(loaded);
  }
  // Differences; or why it could not be replayed.
  [[nodiscard]] std::vector<std::string> replay(const std::string& receipt) const {
    const auto turns = sandbox::read_turns(receipt, keys());
    if (!turns) return {turns.error().message};
    const auto replayed =
        sandbox::replay(*turns, {.open = [](const auto&) { return sandbox::open_template("js"); }});
    return replayed ? replayed->differences : std::vector{replayed.error().message};
  }
  // By a program that has nothing of Membrane.
  [[nodiscard]] bool verifies(const std::string& receipt) const {
    const fs::path published = directory_ / "published.json";
    std::ofstream(published) << keys().to_json(false);
    const std::string command = "python3 -B '" MEMBRANE_SOURCE_DIR "/tools/verify-receipt' --keys '" +
                                published.string() + "' '" + receipt + "' > /dev/null";
    return std::system(command.c_str()) == 0;
  }

  Language language_;
  const fs::path directory_ = ::testing::TempDir() + "membrane-agents-" + std::to_string(getpid());
  const fs::path key_file_ = directory_ / "keys" / "keys.json";
};

INSTANTIATE_TEST_SUITE_P(Places, AgentOptions, kPlaces, name_of_place);

TEST_P(AgentOptions, AskBeforeSomethingLeaves) {
  std::vector<EgressQuestion> asked;
  Session of = session({.policy = policy(), .approve = says(Approval::kYes, &asked), .model = echo()});
  EXPECT_EQ(of.run({.code = kSend}).result, "'said hello'") << "nothing was read yet";
  EXPECT_TRUE(asked.empty());
  EXPECT_EQ(of.run({.code = kRead}).outcome, Outcome::kOk);
  EXPECT_EQ(of.run({.code = kSend}).result, "'said hello'");
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].function, "ai.complete");
  EXPECT_EQ(asked[0].bytes, 5u);
  ASSERT_EQ(asked[0].private_reads.first.size(), 1u);
  EXPECT_EQ(asked[0].private_reads.first[0].function, "kv.get");
  EXPECT_EQ(asked[0].untrusted_reads.first.size(), 1u);
  EXPECT_GT(asked[0].until, std::chrono::steady_clock::now());
}

TEST_P(AgentOptions, LetNothingLeaveWithoutAYes) {
  const Approve throws = [](const EgressQuestion&) -> Approval { throw std::runtime_error("broken"); };
  for (const Approve& approve : {Approve(), says(Approval::kNo), says(Approval::kNobody), throws}) {
    std::vector<ModelRequest> heard;
    Session of = session({.policy = policy(), .approve = approve, .model = echo(&heard)});
    EXPECT_EQ(of.run({.code = kRead}).outcome, Outcome::kOk);
    const Report report = of.run({.code = kSend});
    EXPECT_TRUE(what_failed(report).contains("trifecta rule")) << what_failed(report);
    EXPECT_TRUE(heard.empty());
  }
}

TEST_P(AgentOptions, ShareWhatWasRead) {
  const Flows flows;
  Session reads = session({.policy = policy(), .flows = flows});
  Session sends = session({.policy = policy(), .flows = flows, .model = echo()});
  Session apart = session({.policy = policy(), .model = echo()});
  Sandbox sandbox(policy());
  sandbox.share(flows);
  sandbox.use(echo());
  EXPECT_EQ(sandbox.run({.source = kSendOfWat}).result, "said hi");
  EXPECT_FALSE(flows.is_closed());
  EXPECT_EQ(reads.run({.code = kRead}).outcome, Outcome::kOk);
  EXPECT_TRUE(flows.is_closed());
  EXPECT_EQ(flows.private_reads().first.at(0).function, "kv.get");
  EXPECT_EQ(flows.untrusted_reads().first.size(), 1u);
  EXPECT_TRUE(what_failed(sends.run({.code = kSend})).contains("trifecta rule"));
  EXPECT_EQ(sandbox.run({.source = kSendOfWat}).outcome, Outcome::kDenied);
  EXPECT_EQ(apart.run({.code = kSend}).outcome, Outcome::kOk);

  auto fork = reads.fork();
  ASSERT_TRUE(fork);
  EXPECT_EQ(fork->run({.code = "membrane.kv.set('other', '1'); membrane.kv.get('other')"}).outcome,
            Outcome::kOk);
  EXPECT_EQ(flows.private_reads().first.size(), 2u) << "a fork reads for all, too";
}

TEST_P(AgentOptions, AnswerByAModel) {
  std::vector<ModelRequest> heard;
  Session of = session({.policy = policy(), .model = echo(&heard)});
  EXPECT_EQ(of.run({.code = kSend}).result, "'said hello'");
  ASSERT_EQ(heard.size(), 1u);
  EXPECT_EQ(heard[0].prompt, "hello");
  EXPECT_GT(heard[0].max_tokens, 0u);
  EXPECT_GT(heard[0].timeout_ms, 0u);
  EXPECT_EQ(of.run({.code = "membrane.ai.embed('four').length"}).result, "2");
  auto fork = of.fork();
  ASSERT_TRUE(fork);
  EXPECT_EQ(fork->run({.code = kSend}).result, "'said hello'");
  EXPECT_EQ(heard.size(), 2u);
}

TEST_P(AgentOptions, PayTheModelFromTheBudget) {
  Policy small = policy();
  ASSERT_TRUE(small.limit("tokens", "9"));
  const Budget budget(small);
  Session of = session({.policy = small, .budget = budget, .model = echo()});
  EXPECT_EQ(of.run({.code = kSend}).outcome, Outcome::kOk);
  EXPECT_EQ(of.run({.code = kSend}).outcome, Outcome::kRaised)
      << "5 of 9 tokens are used, and it needs 5 more";
}

TEST_P(AgentOptions, TellTheProgramHowAModelFailed) {
  const auto error_of = [&](Model model) {
    Session of = session({.policy = policy(), .model = std::move(model)});
    return of.run({.code = "try { membrane.ai.complete('x') } catch (e) { `${e.name}: ${e.message}` }"})
        .result;
  };
  EXPECT_TRUE(error_of({.complete = [](const auto&) -> Expected<ModelAnswer> {
                return std::unexpected(Failure{.code = "ETIMEDOUT", .message = "The model is asleep."});
              }}).contains("TimeoutError"));
  EXPECT_TRUE(error_of({.complete = [](const auto&) -> Expected<ModelAnswer> {
                return std::unexpected(Failure{.code = "rate", .message = "Too many requests."});
              }}).contains("Too many requests."));
  EXPECT_TRUE(error_of({.complete = [](const auto&) -> Expected<ModelAnswer> {
                throw std::runtime_error("no connection");
              }}).contains("no connection"));
  EXPECT_TRUE(error_of({.embed = echo().embed}).contains("completes no text"));
  EXPECT_FALSE(error_of({}).empty());
}

TEST_P(AgentOptions, AskAPerson) {
  std::string heard;
  Session of =
      session({.policy = policy(), .ask = [&](std::string_view question, uint64_t) -> Expected<std::string> {
                 heard = question;
                 return "1984";
               }});
  EXPECT_EQ(of.run({.code = "membrane.agent.ask('Which year?')"}).result, "'1984'");
  EXPECT_EQ(heard, "Which year?");
  Session alone = session({.policy = policy()});
  EXPECT_EQ(alone.run({.code = "membrane.agent.ask('Which year?')"}).outcome, Outcome::kRaised);
}

TEST_P(AgentOptions, SealEachTurn) {
  const Receipts book = receipts();
  Session of = session({.policy = policy(), .model = echo(), .receipts = book});
  const Report first = of.run({.code = "var x = 20; membrane.ai.complete('hello')", .name = "first.js"});
  ASSERT_FALSE(first.receipt.empty()) << first.unsealed.value_or(Failure()).message;
  ASSERT_TRUE(of.write_file("/given.txt", "22"));
  const Report second = of.run({.code = "x + Number(require('fs').readFileSync('/given.txt', 'utf8'))"});
  EXPECT_EQ(second.result, "42");
  EXPECT_NE(second.receipt, first.receipt);
  EXPECT_FALSE(second.unsealed);
  const Report failed = of.run({.code = "throw new RangeError('no')"});
  EXPECT_FALSE(failed.receipt.empty()) << "however it ended";
  EXPECT_EQ(replay(failed.receipt), std::vector<std::string>());
  EXPECT_TRUE(verifies(first.receipt));
  EXPECT_TRUE(verifies(failed.receipt));
  EXPECT_FALSE(book.problem());
}

TEST_P(AgentOptions, ReplayTheRealTimeOfAFileThatWasPut) {
  Policy real = policy();
  ASSERT_TRUE(real.allow("time:real"));
  Session of = session({.policy = real, .receipts = receipts()});
  ASSERT_TRUE(of.write_file("/given.txt", "22"));
  const Report report = of.run({.code = "require('fs').statSync('/given.txt').mtimeMs > 1.7e12"});
  EXPECT_EQ(report.result, "true");
  EXPECT_EQ(replay(report.receipt), std::vector<std::string>());
}

TEST_P(AgentOptions, RefuseWhatReceiptsDoNotLeadTo) {
  const auto is_refusal = [](const Failure& failure) {
    return failure.code == "unsupported" && failure.message.contains("sealed") && !failure.hint.empty();
  };
  Session of = session({.policy = policy(), .receipts = receipts()});
  EXPECT_EQ(of.run({.code = "var x = 1"}).outcome, Outcome::kOk);
  const auto fork = of.fork();
  ASSERT_FALSE(fork);
  EXPECT_TRUE(is_refusal(fork.error()));
  EXPECT_TRUE(is_refusal(of.run({.code = "x = 2", .pause_at_fuel = 1}).failures.at(0)));
  EXPECT_TRUE(is_refusal(of.run({.code = "x = 2", .only_checks = true}).failures.at(0)));
  const auto bytes = of.dump();
  ASSERT_TRUE(bytes);
  const auto loaded = Session::load(language_, *bytes, {.policy = policy(), .receipts = receipts()});
  ASSERT_FALSE(loaded);
  EXPECT_TRUE(is_refusal(loaded.error()));
  const Report report = of.run({.code = "x"});
  EXPECT_EQ(report.result, "1");
  EXPECT_EQ(replay(report.receipt), std::vector<std::string>());

  const auto refused = [&](SessionOptions options) {
    options.receipts = receipts();
    const auto made = create(std::move(options));
    return !made && is_refusal(made.error());
  };
  EXPECT_TRUE(
      refused({.functions = {{.name = "f", .call = [](const auto&) { return Answer::value("1"); }}}}));
  EXPECT_TRUE(refused({.types = {{.name = "T"}}}));
  EXPECT_TRUE(refused({.inputs = {{"n", "1"}}}));
  EXPECT_TRUE(refused({.clock = SessionClock::real()}));
  EXPECT_TRUE(refused({.timezone = "+02:00"}));
}

TEST_P(AgentOptions, SayWhyATurnIsNotSealed) {
  const Receipts book = receipts();
  Session of = session({.policy = policy(), .receipts = book});
  EXPECT_FALSE(of.run({.code = "var x = 40"}).receipt.empty());
  fs::rename(directory_ / "receipts", directory_ / "elsewhere");
  std::ofstream(directory_ / "receipts") << "no directory";
  const Report report = of.run({.code = "x + 2"});
  EXPECT_EQ(report.result, "42");
  EXPECT_TRUE(report.receipt.empty());
  ASSERT_TRUE(report.unsealed);
  EXPECT_FALSE(report.unsealed->message.empty());
  ASSERT_TRUE(book.problem());
  EXPECT_EQ(book.problem()->message, report.unsealed->message);
}

TEST_P(AgentOptions, OpenNoReceiptsWithoutAKey) {
  const auto none = Receipts::open(directory_ / "receipts", {.key_file = key_file_});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, "not_found");
  EXPECT_FALSE(none.error().hint.empty());
  fs::create_directories(directory_);
  std::ofstream(directory_ / "file") << "";
  EXPECT_FALSE(Receipts::open(directory_ / "file", {.key_file = key_file_, .makes_key = true}));
  EXPECT_TRUE(fs::exists(key_file_));
  const auto made = keys();
  (void)receipts();
  EXPECT_EQ(keys().signing()->id, made.signing()->id) << "a key that is there is used";
  std::ofstream(key_file_) << "no keys";
  EXPECT_EQ(Receipts::open(directory_ / "receipts", {.key_file = key_file_, .makes_key = true}).error().code,
            "invalid_input");
}

// Of programs in WebAssembly, which need no language.
class AgentSandbox : public ::testing::Test {
 protected:
  void TearDown() override {
    std::error_code ignored;
    fs::remove_all(directory_, ignored);
  }
  const fs::path directory_ = ::testing::TempDir() + "membrane-agent-sandbox-" + std::to_string(getpid());
};

TEST_F(AgentSandbox, HasAModelAPersonAndReceipts) {
  Sandbox sandbox(policy());
  sandbox.use(echo());
  sandbox.ask_by([](std::string_view, uint64_t) -> Expected<std::string> { return "1984"; });
  const auto book =
      Receipts::open(directory_, {.key_file = directory_ / "keys" / "keys.json", .makes_key = true});
  ASSERT_TRUE(book) << book.error().message;
  sandbox.seal_into(*book);
  const Report report = sandbox.run({.source = R"((func (export "main")
    (drop (call $ai.complete! (string "hi")))
    (call $io.result (call $agent.ask! (string "Which year?")))))"});
  EXPECT_EQ(report.result, "1984") << report.to_text();
  ASSERT_FALSE(report.receipt.empty());
  const auto keys = sandbox::load_own_keys(directory_ / "keys" / "keys.json");
  ASSERT_TRUE(keys);
  const auto runs = sandbox::read_turns(report.receipt, *keys);
  ASSERT_TRUE(runs) << runs.error().message;
  const auto replayed = sandbox::replay(*runs, {});
  ASSERT_TRUE(replayed) << replayed.error().message;
  EXPECT_EQ(replayed->differences, std::vector<std::string>());
}

TEST_F(AgentSandbox, RefusesWhatReceiptsDoNotLeadTo) {
  Sandbox sandbox(policy());
  const auto book =
      Receipts::open(directory_, {.key_file = directory_ / "keys" / "keys.json", .makes_key = true});
  ASSERT_TRUE(book);
  const Program program{.source = R"((func (export "main") (result i32) (i32.const 7)))"};
  const Report frozen = sandbox.run(program, 1);
  ASSERT_EQ(frozen.outcome, Outcome::kFrozen);
  sandbox.seal_into(*book);
  EXPECT_TRUE(what_failed(sandbox.run(program, 1)).contains("sealed"));
  EXPECT_TRUE(what_failed(sandbox.thaw(frozen.snapshot)).contains("sealed"));
  ASSERT_TRUE(sandbox.define({.module = "shop", .name = "price", .signature = {}, .call = [](HostCall&) {
                                return HostResults(std::vector<Value>());
                              }}));
  EXPECT_TRUE(what_failed(sandbox.run(program)).contains("sealed"));
}

TEST(Inner, TellsErrorsByTheirNames) {
  EXPECT_EQ(face::error_of({.code = "timed_out", .message = "m", .hint = "h"}).code, ErrorCode::kTimedOut);
  EXPECT_EQ(face::error_of({.code = "EACCES", .message = "m"}).code, ErrorCode::kInternal);
}

}  // namespace
}  // namespace membrane
