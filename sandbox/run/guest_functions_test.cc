// Functions of the embedder in Python and JavaScript: called, failing, answered later. Skipped if the language is
// not installed (tools/get-languages); Python also in builds with sanitizers.

#include "sandbox/run/guest_functions.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "sandbox/session/kept_session_testing.h"
#include "sandbox/session/session_state.h"
#include "sandbox/session/template_testing.h"

namespace membrane::sandbox {
namespace {

using Json = nlohmann::json;

constexpr const char* kDescription = R"({
  "functions": [
    {"name": "add", "signature": "(a: int, b: int = 1) -> int", "doc": "The sum of both."},
    {"name": "price", "module": "shop", "doc": "What an item costs."},
    {"name": "slow", "is_async": true}, {"name": "approve"}, {"name": "approv"}, {"name": "fails"}, {"name": "answer"}],
  "types": [{"name": "Account", "doc": "An account.", "attributes": ["balance"],
             "methods": [{"name": "deposit", "signature": "(amount: int) -> int"}]}],
  "modules": [{"name": "shop", "doc": "A shop."}],
  "values": {"given": [1, "two", {"$tuple": [3]}], "account": {"$object": {"id": 7, "type": "Account"}}}})";

struct Dialect {
  const char* name;
  const char* import;
  const char* awaits;  // calls slow(1) and slow(2) concurrently and returns "11 12"
  const char* raises;  // the type of the error raised by fails()
  const char* own;     // defines the program's own add
};
void PrintTo(const Dialect& dialect, std::ostream* out) { *out << dialect.name; }
constexpr Dialect kPython{"python", "from shop import price\nprice('tea')",
                          "import asyncio\n' '.join(map(str, await asyncio.gather(slow(1), slow(2))))",
                          "try:\n    fails()\nexcept ValueError as error:\n    said = str(error)\nsaid",
                          "def add(a): return 'own'"};
constexpr Dialect kJavaScript{"js", "const { price } = require('shop'); price('tea')",
                              "(await Promise.all([slow(1), slow(2)])).join(' ')",
                              "var said; try { fails() } catch (error) { said = error.message }; said",
                              "globalThis.add = () => 'own'; 0"};

class GuestFunctionsIn : public ::testing::TestWithParam<Dialect> {
 protected:
  void SetUp() override {
    template_ = open_template(GetParam().name);
    if (template_ == nullptr) GTEST_SKIP() << GetParam().name << " is not installed, or not for this build";
    session_ = make();
  }
  std::unique_ptr<Session> make() {
    auto made = Session::create(template_, options());
    EXPECT_TRUE(made) << made.error().message;
    return made ? *std::move(made) : nullptr;
  }
  RunOptions options() {
    RunOptions options;
    options.policy.limits = policy::language_limits();
    options.policy.limits.memory_bytes = 64u << 20;
    options.policy.limits.fuel = 300'000'000;
    options.policy.limits.wall_ms = 600'000;
    auto functions = std::make_shared<GuestFunctions>();
    functions->description = kDescription;
    functions->call = [this](std::span<const FunctionCall> calls, const MustStop&) {
      batches_.push_back(calls.size());
      std::vector<FunctionAnswer> answers;
      for (const FunctionCall& call : calls) answers.push_back(answer(call));
      return answers;
    };
    options.guest_functions = std::move(functions);
    return options;
  }
  FunctionAnswer answer(const FunctionCall& call) {
    const Json arguments = Json::parse(call.arguments);
    const auto value = [](const Json& of) { return FunctionAnswer{.value = of.dump()}; };
    if (call.name == "add") {
      const Json keywords = Json::parse(call.keywords);
      const int second = arguments.size() > 1 ? arguments[1].get<int>() : keywords.value("b", 1);
      return value(arguments[0].get<int>() + second);
    }
    if (call.name == "shop.price") return value(arguments[0] == "tea" ? 350 : 0);
    if (call.name == "slow") return value(10 + arguments[0].get<int>());
    if (call.name.starts_with("approv")) return FunctionAnswer::later();
    if (call.name == "fails") return FunctionAnswer::error("ValueError", "no such item");
    if (call.name == "answer") return value(arguments[0]);
    if (call.name == "Account.balance") return value(call.object == "7" ? 100 : -1);
    if (call.name == "Account.deposit") return value(100 + arguments[0].get<int>());
    return FunctionAnswer::error("", "there is no " + call.name);
  }
  std::string result(const std::string& code) { return result_of(session_->exec({.code = code})); }
  static std::string result_of(const Report& report) {
    return report.outcome == Outcome::kOk ? report.result : render_text(report, false);
  }

  std::vector<size_t> batches_;
  std::shared_ptr<const Template> template_;
  std::unique_ptr<Session> session_;
};

TEST(FunctionsThatWereTold, AreKnownAgain) {
  const std::string functions = digest_of(R"({"functions":[{"name":"f"}],"modules":[]})");
  const std::string turned = digest_of(R"({"modules":[],"functions":[{"name":"f"}]})");
  const std::string with_values = digest_of(R"({"modules":[],"functions":[{"name":"f"}],"values":{"x":1}})");
  const std::string others = digest_of(R"({"modules":[],"functions":[{"name":"g"}]})");
  EXPECT_TRUE(covers_description(functions, turned));
  EXPECT_TRUE(covers_description(with_values, functions)) << "values are given once";
  EXPECT_FALSE(covers_description(functions, with_values));
  EXPECT_FALSE(covers_description(functions, others));
  EXPECT_FALSE(covers_description("", functions));
  EXPECT_TRUE(covers_description("", digest_of("")));
  const std::string other_values = digest_of(R"({"modules":[],"functions":[{"name":"f"}],"values":{"x":2}})");
  EXPECT_TRUE(covers_description(with_values, other_values)) << "a program that has values keeps them";
  EXPECT_FALSE(covers_description(with_values, others)) << "and is given other functions";
  EXPECT_TRUE(covers_description(add_description(with_values, others), others));
  EXPECT_EQ(add_description("", with_values), with_values);
  EXPECT_EQ(add_description(with_values, other_values), with_values);
  EXPECT_NE(digest_of("[no JSON"), "");
}

TEST_P(GuestFunctionsIn, AreCalledByTheirNames) {
  EXPECT_EQ(result("add(20, 22)"), "42");
  const Report report = session_->exec({.code = "add(1)"});
  EXPECT_EQ(report.result, "2");
  ASSERT_EQ(report.host_calls.size(), 1u);
  EXPECT_EQ(report.host_calls[0].name, "add");
  EXPECT_EQ(report.host_calls[0].arguments, "1");
  EXPECT_EQ(result(GetParam().import), "350");
  EXPECT_EQ(result("account.balance + account.deposit(5)"), "205");
  EXPECT_EQ(result("given[0]"), "1");
}

TEST_P(GuestFunctionsIn, ThatAreAwaitedTogetherAreCalledAtOnce) {
  EXPECT_TRUE(result(GetParam().awaits).contains("11 12"));
  EXPECT_EQ(batches_, std::vector<size_t>{2});
}

TEST_P(GuestFunctionsIn, RaiseWhatTheyFailWith) {
  EXPECT_TRUE(result(GetParam().raises).contains("no such item"));
  const Report report = session_->exec({.code = "fails()"});
  EXPECT_EQ(report.outcome, Outcome::kRaised);
  EXPECT_TRUE(report.errors.at(0).message.contains("no such item")) << report.errors.at(0).message;
  EXPECT_EQ(report.host_calls.at(0).error, "EHOST");
}

TEST_P(GuestFunctionsIn, StayInForksAndAfterATurnThatWasUndone) {
  EXPECT_EQ(
      session_->exec({.code = std::string(GetParam().name) == "js" ? "for (;;) {}" : "while True: pass"})
          .outcome,
      Outcome::kOutOfFuel);
  EXPECT_EQ(result("add(2)"), "3");
  const auto fork = session_->fork(1);
  ASSERT_TRUE(fork);
  EXPECT_EQ(result_of((*fork)->exec({.code = "add(3)"})), "4");
  EXPECT_EQ(result_of(kept_and_restored(*session_, template_, options())->exec({.code = "add(4)"})), "5");
}

TEST_P(GuestFunctionsIn, CannotRunATurnOfTheirSession) {
  RunOptions with = options();
  auto functions = std::make_shared<GuestFunctions>(*with.guest_functions);
  std::vector<Report> inside;
  functions->call = [&](std::span<const FunctionCall> calls, const MustStop&) {
    inside.push_back(session_->exec({.code = "1"}));
    inside.push_back(session_->resume({}));
    return std::vector<FunctionAnswer>(calls.size(), {.value = "4"});
  };
  with.guest_functions = std::move(functions);
  session_ = *Session::create(template_, with);
  EXPECT_EQ(result("add(1)"), "4");
  ASSERT_EQ(inside.size(), 2u);
  for (const Report& report : inside) EXPECT_EQ(report.outcome, Outcome::kInvalid);
  EXPECT_EQ(result("add(1)"), "4");
}

TEST_P(GuestFunctionsIn, LeaveTheProgramsOwnNamesAlone) {
  result(GetParam().own);
  const auto fork = session_->fork(1);
  ASSERT_TRUE(fork);
  EXPECT_TRUE(result_of((*fork)->exec({.code = "add(1)"})).contains("own"));
}

TEST_P(GuestFunctionsIn, CountAsHostCalls) {
  RunOptions few = options();
  few.policy.limits.host_calls = 2;
  auto made = Session::create(template_, few);
  ASSERT_TRUE(made);
  session_ = *std::move(made);
  EXPECT_EQ(result("add(1) + add(1)"), "4");
  const Report report = session_->exec({.code = "add(1) + add(1) + add(1)"});
  EXPECT_EQ(report.outcome, Outcome::kRaised);
  EXPECT_TRUE(report.errors.at(0).message.contains("host calls")) << report.errors.at(0).message;
}

TEST_P(GuestFunctionsIn, MayAnswerLater) {
  const std::string code = "n = add(1)\nm = n + approve('transfer', 120)\nm";
  Report report = session_->exec({.code = code});
  ASSERT_EQ(report.outcome, Outcome::kWaiting) << render_text(report, false);
  ASSERT_EQ(report.waits_for.size(), 1u);
  EXPECT_EQ(report.waits_for[0].name, "approve");
  EXPECT_EQ(report.waits_for[0].arguments, R"(["transfer",120])");
  EXPECT_EQ(session_->exec({.code = "1"}).outcome, Outcome::kInvalid);

  const auto fork = session_->fork(1);
  ASSERT_TRUE(fork) << fork.error().message;
  const auto restored = kept_and_restored(*session_, template_, options());
  ASSERT_NE(restored, nullptr);
  ASSERT_EQ(restored->waits_for().size(), 1u);
  uint64_t fuel = 0;
  for (Session* const each : {session_.get(), fork->get(), restored.get()}) {
    const Report over = each->resume({{.value = "40"}});
    EXPECT_EQ(result_of(over), "42");
    ASSERT_FALSE(over.host_calls.empty()) << render_text(over, false);
    EXPECT_EQ(over.host_calls.back().name, "approve");
    if (fuel == 0) fuel = over.fuel_used;
    EXPECT_EQ(over.fuel_used, fuel);
    EXPECT_EQ(result_of(each->exec({.code = "m + add(1)"})), "44");
  }
}

// The state before a waiting turn is part of its forks and of its bytes, no matter which turns ran since the last copy.
TEST_P(GuestFunctionsIn, OfForgedBytesAreRefused) {
  ASSERT_EQ(session_->exec({.code = "approve('x')"}).outcome, Outcome::kWaiting);
  const auto kept = session_->keep();
  ASSERT_TRUE(kept);
  for (const char* const forged : {"", "{}", "[", "1", "x"}) {
    auto state = read_session(*kept);
    ASSERT_TRUE(state && state->pause && state->pause->calls);
    state->pause->calls->calls.at(0).arguments = forged;
    const auto restored = Session::restore(template_, write_session(*std::move(state)), options());
    ASSERT_FALSE(restored) << forged;
    EXPECT_EQ(restored.error().code, ErrorCode::kInvalidInput);
  }
}

TEST_P(GuestFunctionsIn, GoBackToTheTurnsBeforeTheOneThatWaited) {
  const bool is_js = std::string(GetParam().name) == "js";
  const std::string counts =
      is_js ? "globalThis.n = (globalThis.n ?? 0) + 1" : "n = globals().get('n', 0) + 1\nn";
  const std::string waits = counts + "\napprove(1)\n" + (is_js ? "for (;;) {}" : "while True: pass");
  for (const int turns : {0, 1, 5}) {
    session_ = make();
    for (int i = 0; i < turns; ++i) EXPECT_EQ(result(counts), std::to_string(i + 1));
    ASSERT_EQ(session_->exec({.code = waits}).outcome, Outcome::kWaiting);
    const auto fork = session_->fork(1);
    ASSERT_TRUE(fork) << fork.error().message;
    const auto restored = kept_and_restored(*session_, template_, options());
    ASSERT_NE(restored, nullptr);
    for (Session* const each : {session_.get(), fork->get(), restored.get()}) {
      EXPECT_EQ(each->resume({{.value = "1"}}).outcome, Outcome::kOutOfFuel);
      EXPECT_EQ(result_of(each->exec({.code = counts})), std::to_string(turns + 1));
    }
  }
}

TEST_P(GuestFunctionsIn, AreCalledOnceWhereATurnIsRunAgain) {
  const bool is_js = std::string(GetParam().name) == "js";
  EXPECT_EQ(result(is_js ? "globalThis.total = add(1) + account.deposit(1)"
                         : "total = add(1) + account.deposit(1)\ntotal"),
            "103");
  EXPECT_TRUE(result(GetParam().raises).contains("no such item"));
  const std::vector<size_t> called = batches_;
  const std::string loop = is_js ? "for (;;) {}" : "while True: pass";
  for (int i = 0; i < 2; ++i) EXPECT_EQ(session_->exec({.code = loop}).outcome, Outcome::kOutOfFuel);
  EXPECT_EQ(batches_, called);
  EXPECT_EQ(result("total"), "103");
  EXPECT_TRUE(result("said").contains("no such item"));
}

TEST_P(GuestFunctionsIn, MayFailLaterAndBeLateAgain) {
  Report report = session_->exec({.code = "approve(1)"});
  ASSERT_EQ(report.outcome, Outcome::kWaiting);
  EXPECT_EQ(session_->resume({}).outcome, Outcome::kWaiting);
  EXPECT_EQ(session_->resume({FunctionAnswer::later()}).outcome, Outcome::kWaiting);
  report = session_->resume({FunctionAnswer::error("TypeError", "it was refused")});
  EXPECT_EQ(report.outcome, Outcome::kRaised);
  EXPECT_TRUE(report.errors.at(0).message.contains("it was refused"));
  EXPECT_EQ(session_->resume({{.value = "1"}}).outcome, Outcome::kInvalid);
  EXPECT_EQ(result("add(1)"), "2");
}

TEST_P(GuestFunctionsIn, MayBeCancelledWhileTheTurnContinues) {
  const std::string loop = std::string(GetParam().name) == "js" ? "for (;;) {}" : "while True: pass";
  ASSERT_EQ(session_->exec({.code = "approve(1)\n" + loop}).outcome, Outcome::kWaiting);
  const auto fork = session_->fork(1);
  ASSERT_TRUE(fork) << fork.error().message;
  const auto restored = kept_and_restored(*session_, template_, options());
  ASSERT_NE(restored, nullptr);
  const std::atomic<bool> cancel = true;
  for (Session* const each : {session_.get(), fork->get(), restored.get()}) {
    each->cancel_by(&cancel);
    EXPECT_EQ(each->resume({{.value = "1"}}).outcome, Outcome::kCancelled);
  }
}

// Waiting does not change the cost of a call.
TEST_P(GuestFunctionsIn, UseTheSameFuelLaterAndAtOnce) {
  const auto fuel_of = [](Session& session, const char* code) {
    EXPECT_EQ(session.exec({.code = "1"}).outcome, Outcome::kOk);
    Report report = session.exec({.code = code});
    if (report.outcome == Outcome::kWaiting) report = session.resume({{.value = "1"}});
    EXPECT_EQ(report.outcome, Outcome::kOk);
    return static_cast<double>(report.fuel_used);
  };
  const double late = fuel_of(*session_, "approv(1)");
  const double at_once = fuel_of(*make(), "answer(1)");
  EXPECT_NEAR(late, at_once, at_once / 100);
}

INSTANTIATE_TEST_SUITE_P(Each, GuestFunctionsIn, ::testing::Values(kPython, kJavaScript),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(GuestFunctionCalls, AreReadAsHostileBytes) {
  constexpr uint64_t kMost = 1u << 20;
  const auto calls =
      read_function_calls(R"({"functions":[{"call":"a","arguments":[1],"keywords":{"b":[]}}]})", kMost);
  ASSERT_TRUE(calls);
  EXPECT_EQ(*calls, (std::vector<FunctionCall>{{"a", "[1]", R"({"b":[]})", ""}}));
  for (const char* text :
       {"{}", "[]", R"({"functions":[]})", R"({"functions":[1]})", R"({"functions":[{}]})",
        R"({"functions":[{"call":1}]})", R"({"functions":[{"call":"a","arguments":{}}]})",
        R"({"functions":[{"call":"a","object":"x"}]})", R"({"functions":[{"call":"a"}],"more":1})"})
    EXPECT_FALSE(read_function_calls(text, kMost)) << text;
}

TEST(GuestFunctionCalls, AnswersAreValuesOrErrors) {
  EXPECT_EQ(
      write_function_answers(std::vector<FunctionAnswer>{{.value = "[1]"}, FunctionAnswer::error("E", "m")}),
      R"({"answers":[{"value":[1]},{"error":{"message":"m","type":"E"}}]})");
  EXPECT_TRUE(write_function_answers(std::vector<FunctionAnswer>{{.value = "1},{"}}).contains("is not JSON"));
}

}  // namespace
}  // namespace membrane::sandbox
