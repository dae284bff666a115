// What an embedder gives its programs beside the policy: approval, a model, a person, receipts. The same in this process and in one of the
// session's own. Skipped where JavaScript is not installed (tools/get-languages).

#include "membrane/agents.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "face/inner.h"
#include "face/place_testing.h"
#include "membrane/session.h"
#include "membrane/session.hpp"
#include "sandbox/receipt_files.h"

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

Failure failure(std::string code, std::string message) {
  return {.code = std::move(code), .message = std::move(message)};
}

std::string what_failed(const Report& report) {
  return report.failures.empty() ? "" : report.failures.front().message;
}

class AgentOptions : public WithLanguage<::testing::TestWithParam<SessionPlace>> {
 protected:
  void SetUp() override { use_language("js"); }
  void TearDown() override {
    std::error_code ignored;
    fs::remove_all(directory_, ignored);
  }
  Expected<Session> create(SessionOptions options) {
    put(options, GetParam() == SessionPlace::kIsolated);
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
  EXPECT_EQ(asked[0].bytes, 6u) << "hello, and no limit of its own of tokens";
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
  EXPECT_EQ(of.run({.code = "JSON.parse(membrane.ai.embed('four'))[0]"}).result, "4");
  auto fork = of.fork();
  ASSERT_TRUE(fork);
  EXPECT_EQ(fork->run({.code = kSend}).result, "'said hello'");
  EXPECT_EQ(heard.size(), 2u);
}

TEST_P(AgentOptions, PayTheModelFromTheBudget) {
  Policy small = policy();
  ASSERT_TRUE(small.limit("tokens", "5"));
  const Budget budget(small);
  Session of = session({.policy = small, .budget = budget, .model = echo()});
  EXPECT_EQ(of.run({.code = kSend}).outcome, Outcome::kOk);
  EXPECT_EQ(of.run({.code = kSend}).outcome, Outcome::kRaised) << "the budget has 5 tokens, which are used";
}

TEST_P(AgentOptions, TellTheProgramHowAModelFailed) {
  const auto error_of = [&](Model model) {
    Session of = session({.policy = policy(), .model = std::move(model)});
    return of.run({.code = "try { membrane.ai.complete('x') } catch (e) { `${e.name}: ${e.message}` }"})
        .result;
  };
  EXPECT_TRUE(error_of({.complete = [](const auto&) -> Expected<ModelAnswer> {
                return std::unexpected(failure("ETIMEDOUT", "The model is asleep."));
              }}).contains("TimeoutError"));
  EXPECT_TRUE(error_of({.complete = [](const auto&) -> Expected<ModelAnswer> {
                return std::unexpected(failure("rate", "Too many requests."));
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

TEST_P(AgentOptions, SealNothingOfWhatATurnsOwnCallsAskOfTheSession) {
  Session* itself = nullptr;
  Report inner;
  bool is_written = true;
  Session of = session({.policy = policy(),
                        .model = {.complete = [&](const ModelRequest&) -> Expected<ModelAnswer> {
                          inner = itself->run({.code = "1"});
                          is_written = itself->write_file("/a.txt", "a").has_value();
                          return ModelAnswer{.text = "yes"};
                        }},
                        .receipts = receipts()});
  itself = &of;
  const Report outer = of.run({.code = kSend});
  EXPECT_EQ(outer.result, "'yes'");
  EXPECT_EQ(inner.outcome, Outcome::kInvalid);
  EXPECT_TRUE(inner.receipt.empty());
  EXPECT_FALSE(inner.unsealed);
  EXPECT_FALSE(is_written);
  EXPECT_EQ(replay(of.run({.code = "2"}).receipt), std::vector<std::string>());
}

TEST_P(AgentOptions, ReplayTheRealTimeOfAFileThatWasPut) {
  Policy real = policy();
  ASSERT_TRUE(real.allow("time"));
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
  const Report with_inputs = of.run({.code = "n", .inputs = {{"n", "1"}}});
  EXPECT_EQ(with_inputs.outcome, Outcome::kInvalid);
  ASSERT_EQ(with_inputs.failures.size(), 1u);
  EXPECT_TRUE(is_refusal(with_inputs.failures[0])) << with_inputs.failures[0].message;
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
  fs::remove(directory_ / "receipts");
  fs::rename(directory_ / "elsewhere", directory_ / "receipts");
  const Report later = of.run({.code = "x"});
  EXPECT_EQ(later.result, "40");
  EXPECT_TRUE(later.receipt.empty()) << "a chain has no gaps";
  ASSERT_TRUE(later.unsealed);
  EXPECT_TRUE(later.unsealed->message.contains(report.unsealed->message)) << later.unsealed->message;
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

// What the callbacks of C hear.
struct Heard {
  std::vector<std::string> questions;
};

void complete_in_c(void* heard, const membrane_model_request* request, membrane_reply* reply) {
  static_cast<Heard*>(heard)->questions.emplace_back(request->prompt, request->prompt_size);
  if (request->prompt_size == 0) return membrane_reply_error(reply, "EINVAL", "there is no question");
  membrane_reply_text(reply, "yes", 0);
  membrane_reply_tokens(reply, 2, 1);
}

void embed_in_c(void*, const char*, size_t size, uint64_t, membrane_reply* reply) {
  const float numbers[] = {static_cast<float>(size), 1};
  membrane_reply_vector(reply, numbers, 2);
}

void ask_in_c(void* heard, const char* question, size_t size, uint64_t, membrane_reply* reply) {
  static_cast<Heard*>(heard)->questions.emplace_back(question, size);
  membrane_reply_text(reply, "1984", 4);
}

membrane_approval approve_in_c(void* heard, const membrane_egress_question* question) {
  EXPECT_GT(question->wait_ms, 0u);
  EXPECT_EQ(question->private_count, 1u);
  static_cast<Heard*>(heard)->questions.emplace_back(question->untrusted_reads[0].function);
  return MEMBRANE_APPROVED;
}

TEST_P(AgentOptions, AreThereInC) {
  membrane_error* error = nullptr;
  membrane_language* const js = membrane_language_open("js", nullptr, nullptr, &error);
  ASSERT_NE(js, nullptr);
  const std::string json = policy().to_json();
  membrane_policy* const granted = membrane_policy_parse(json.data(), json.size(), "policy.json", &error);
  ASSERT_NE(granted, nullptr);
  membrane_flows* const flows = membrane_flows_new();
  const std::string directory = directory_ / "receipts", key_file = key_file_;
  EXPECT_EQ(membrane_receipts_open(directory.c_str(), key_file.c_str(), false, nullptr), nullptr);
  membrane_receipts* const book = membrane_receipts_open(directory.c_str(), key_file.c_str(), true, &error);
  ASSERT_NE(book, nullptr);
  Heard heard;
  const membrane_agents agents{.size = sizeof agents,
                               .approve = approve_in_c,
                               .complete = complete_in_c,
                               .embed = embed_in_c,
                               .ask = ask_in_c,
                               .flows = flows,
                               .receipts = book};
  membrane_session_options options{};
  options.size = sizeof options;
  options.policy = granted;
  options.user_data = &heard;
  put(options, GetParam() == SessionPlace::kIsolated);
  options.agents = &agents;
  membrane_session* const session = membrane_session_new(js, &options, &error);
  ASSERT_NE(session, nullptr);
  const auto result_of = [&](const std::string& code) {
    membrane_cell cell{};
    cell.size = sizeof cell;
    cell.code = code.c_str();
    membrane_report* const report = membrane_session_run(session, &cell);
    EXPECT_NE(membrane_report_receipt(report), nullptr);
    EXPECT_EQ(membrane_report_unsealed(report), nullptr);
    const std::string result = membrane_report_result(report, nullptr);
    membrane_report_free(report);
    return result;
  };
  EXPECT_EQ(result_of("membrane.agent.ask('Which?') + JSON.parse(membrane.ai.embed('four')).length"),
            "'19842'");
  EXPECT_FALSE(membrane_flows_is_closed(flows));
  result_of(kRead);
  EXPECT_TRUE(membrane_flows_is_closed(flows));
  EXPECT_EQ(result_of(kSend), "'yes'");
  EXPECT_EQ(heard.questions, (std::vector<std::string>{"Which?", "kv.get", "hello"}));
  EXPECT_EQ(membrane_session_fork(session, &error), nullptr);
  EXPECT_STREQ(membrane_error_code(error), "unsupported");
  membrane_error_free(error);
  membrane_session_free(session);
  membrane_receipts_free(book);
  membrane_flows_free(flows);
  membrane_policy_free(granted);
  membrane_language_free(js);
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
  const Program program{.source = R"((func (export "main") (local $i i32)
    (loop $again
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $again (i32.lt_u (local.get $i) (i32.const 100000))))))"};
  const Report frozen = sandbox.run(program, 1000);
  ASSERT_EQ(frozen.outcome, Outcome::kFrozen);
  sandbox.seal_into(*book);
  EXPECT_TRUE(what_failed(sandbox.run(program, 1000)).contains("sealed"));
  EXPECT_TRUE(what_failed(sandbox.thaw(frozen.snapshot)).contains("sealed"));
  ASSERT_TRUE(sandbox.define({.module = "shop", .name = "price", .signature = {}, .call = [](HostCall&) {
                                return HostResults(std::vector<Value>());
                              }}));
  EXPECT_TRUE(what_failed(sandbox.run(program)).contains("sealed"));
}

// The same in C, where a sandbox is told of them at once.
TEST_F(AgentSandbox, HasThemInC) {
  const std::string json = policy().to_json();
  membrane_policy* const granted = membrane_policy_parse(json.data(), json.size(), "policy.json", nullptr);
  membrane_sandbox* const sandbox = membrane_sandbox_new(granted);
  ASSERT_NE(sandbox, nullptr);
  membrane_flows* const flows = membrane_flows_new();
  const std::string directory = directory_, key_file = directory_ / "keys" / "keys.json";
  membrane_receipts* const book = membrane_receipts_open(directory.c_str(), key_file.c_str(), true, nullptr);
  ASSERT_NE(book, nullptr);
  const auto outcome_of = [&](const char* source, bool is_sealed = true) {
    membrane_program program{};
    program.source = source;
    membrane_report* const report = membrane_sandbox_run(sandbox, &program);
    EXPECT_EQ(membrane_report_receipt(report) != nullptr, is_sealed) << membrane_report_text(report);
    std::string said = membrane_report_outcome(report);
    said += std::string(" ") + membrane_report_result(report, nullptr);
    membrane_report_free(report);
    return said;
  };
  const char* const send = kSendOfWat;
  const char* const read_and_send = R"((func (export "main")
    (call $kv.set! (string "k") (string "secret")) (drop (call $kv.get! (string "k")))
    (call $io.result (call $ai.complete! (string "hi")))))";
  EXPECT_FALSE(outcome_of(send, false).starts_with("ok")) << "without a model";

  Heard heard;
  membrane_agents agents{};
  agents.size = sizeof agents;
  agents.complete = complete_in_c;
  agents.ask = ask_in_c;
  agents.flows = flows;
  agents.receipts = book;
  ASSERT_TRUE(membrane_sandbox_use_agents(sandbox, &agents, &heard, nullptr));
  EXPECT_EQ(outcome_of(send), "ok yes");
  EXPECT_EQ(outcome_of(R"((func (export "main") (call $io.result (call $agent.ask! (string "Which?")))))"),
            "ok 1984");
  EXPECT_TRUE(outcome_of(read_and_send).starts_with("denied")) << "nobody approves";
  EXPECT_TRUE(membrane_flows_is_closed(flows));
  membrane_agents approves{};  // of a caller that knows of nothing else
  approves.size = offsetof(membrane_agents, complete);
  approves.approve = approve_in_c;
  ASSERT_TRUE(membrane_sandbox_use_agents(sandbox, &approves, &heard, nullptr));
  EXPECT_EQ(outcome_of(send), "ok yes") << "the model has stayed";
  EXPECT_EQ(heard.questions, (std::vector<std::string>{"hi", "Which?", "kv.get", "hi"}));
  membrane_sandbox_free(sandbox);
  membrane_receipts_free(book);
  membrane_flows_free(flows);
  membrane_policy_free(granted);
}

TEST(Inner, TellsErrorsByTheirNames) {
  EXPECT_EQ(face::error_of(failure("timed_out", "m")).code, ErrorCode::kTimedOut);
  EXPECT_EQ(face::error_of(failure("EACCES", "m")).code, ErrorCode::kInternal);
}

}  // namespace
}  // namespace membrane
