// Input variables of one turn, in Python and JavaScript. Skipped where the language is not installed (tools/get-languages); Python also in
// builds with sanitizers.

#include "sandbox/turn_inputs.h"

#include <gtest/gtest.h>

#include "sandbox/kept_session_testing.h"
#include "sandbox/template_testing.h"

namespace membrane::sandbox {
namespace {

constexpr const char* kDescription = R"({
  "functions": [{"name": "add"}, {"name": "approve"}],
  "types": [{"name": "Account", "attributes": ["balance"]}],
  "values": {"given": 1}})";

struct Dialect {
  const char* name;
  const char* names;      // of the members of d, in their order
  const char* loops;      // puts 9 into n, and does not end
  const char* kind_of_n;  // "absent" where there is no n
  const char* keyword;
  const char* call_of_add;
};
void PrintTo(const Dialect& dialect, std::ostream* out) { *out << dialect.name; }
constexpr Dialect kPython{
    "python", "' '.join(d)", "n = 9\nwhile True: pass", "'there' if 'n' in globals() else 'absent'",
    "class",  "add(1)"};
constexpr Dialect kJavaScript{"js",
                              "Object.keys(d).join(' ')",
                              "n = 9; for (;;) {}",
                              "typeof n === 'undefined' ? 'absent' : 'there'",
                              "const",
                              "add(1)"};

class TurnInputs : public ::testing::TestWithParam<Dialect> {
 protected:
  void SetUp() override {
    template_ = open_template(GetParam().name);
    if (template_ == nullptr) GTEST_SKIP() << GetParam().name << " is not installed, or not for this build";
    auto made = Session::create(template_, options());
    ASSERT_TRUE(made) << made.error().message;
    session_ = *std::move(made);
  }
  static RunOptions options() {
    RunOptions options;
    options.policy.limits = policy::language_limits();
    options.policy.limits.memory_bytes = 64u << 20;
    options.policy.limits.fuel = 100'000'000;
    options.policy.limits.wall_ms = 600'000;
    auto functions = std::make_shared<GuestFunctions>();
    functions->description = kDescription;
    functions->call = [](std::span<const FunctionCall> calls, const MustStop&) {
      std::vector<FunctionAnswer> answers;
      for (const FunctionCall& call : calls)
        answers.push_back(call.name == "approve"           ? FunctionAnswer::later()
                          : call.name == "Account.balance" ? FunctionAnswer{.value = call.object}
                                                           : FunctionAnswer{.value = "42"});
      return answers;
    };
    options.guest_functions = std::move(functions);
    return options;
  }
  static std::string result_of(const Report& report) {
    return report.outcome == Outcome::kOk ? report.result : render_text(report, false);
  }
  std::string result(const std::string& code, Inputs inputs = {}) {
    return result_of(session_->exec({.code = code, .inputs = std::move(inputs)}));
  }
  Error refusal_of(const Turn& turn) {
    const Report report = session_->exec(turn);
    EXPECT_EQ(report.outcome, Outcome::kInvalid);
    EXPECT_EQ(report.fuel_used, 0u);
    if (report.errors.empty()) return {ErrorCode::kInternal, "none", ""};
    EXPECT_NE(report.errors[0].hint, "");
    return {ErrorCode::kInternal, report.errors[0].message, report.errors[0].hint};
  }

  std::shared_ptr<const Template> template_;
  std::unique_ptr<Session> session_;
};

TEST_P(TurnInputs, AreVariablesThatStay) {
  EXPECT_EQ(result("n + m", {{"n", "20"}, {"m", "22"}}), "42");
  EXPECT_EQ(result("n + m"), "42") << "they stay";
  EXPECT_EQ(result("n = n + 1; n", {{"n", "[]"}, {"n", "1"}}), "2") << "and are variables";
  EXPECT_EQ(result("n", {{"n", "7"}}), "7") << "given again, they are set again";
  EXPECT_TRUE(result(GetParam().names, {{"d", R"({"b":1,"c":2,"a":3})"}}).contains("b c a"));
  EXPECT_EQ(result("account.balance", {{"account", R"({"$object":{"id":5,"type":"Account"}})"}}), "5");
}

TEST_P(TurnInputs, TakeThePlacesOfWhatTheSessionWasGiven) {
  EXPECT_EQ(result(GetParam().call_of_add), "42");
  EXPECT_EQ(result("add + given", {{"add", "3"}, {"given", "4"}}), "7");
  RunOptions others = options();
  auto changed = std::make_shared<GuestFunctions>(*others.guest_functions);
  changed->description.replace(changed->description.find("approve"), 7, "approved");
  others.guest_functions = changed;
  const auto bytes = session_->keep();
  ASSERT_TRUE(bytes);
  const auto again = Session::restore(template_, *bytes, others);
  ASSERT_TRUE(again);
  EXPECT_EQ(result_of((*again)->exec({.code = "add + given"})), "7") << "told again, functions leave them";
}

TEST_P(TurnInputs, OfATurnThatFailsAreUndone) {
  const Report failed = session_->exec({.code = GetParam().loops, .inputs = {{"n", "1"}}});
  EXPECT_EQ(failed.outcome, Outcome::kOutOfFuel);
  EXPECT_TRUE(result(GetParam().kind_of_n).contains("absent"));
  EXPECT_EQ(result("n", {{"n", "1"}}), "1");
  EXPECT_EQ(session_->exec({.code = GetParam().loops, .inputs = {{"n", "2"}}}).outcome, Outcome::kOutOfFuel);
  EXPECT_EQ(result("n"), "1");
}

// The turns before it are run again, with the inputs that they had.
TEST_P(TurnInputs, AreTheSameWhenTheirTurnIsRunAgain) {
  EXPECT_EQ(result("t = 0; t", {{"n", "1"}}), "0");
  for (int i = 0; i < 3; ++i) result("t = t + n", {{"n", std::to_string(10 + i)}});
  EXPECT_EQ(session_->exec({.code = GetParam().loops, .inputs = {{"n", "2"}}}).outcome, Outcome::kOutOfFuel);
  EXPECT_EQ(result("t"), "33");
  EXPECT_EQ(result("n"), "12");
}

TEST_P(TurnInputs, AreInWhatIsKeptAndForked) {
  EXPECT_EQ(result("n", {{"n", "5"}}), "5");
  const auto branch = session_->fork(1);
  const auto restored = kept_and_restored(*session_, template_, options());
  ASSERT_TRUE(branch && restored);
  for (Session* const each : {branch->get(), restored.get()}) {
    EXPECT_EQ(result_of(each->exec({.code = "n"})), "5");
    EXPECT_EQ(result_of(each->exec({.code = "n", .inputs = {{"n", "6"}}})), "6");
  }
  EXPECT_EQ(result("n"), "5");
}

TEST_P(TurnInputs, AreThereWhereTheTurnWaits) {
  ASSERT_EQ(session_->exec({.code = "approve(n) + n", .inputs = {{"n", "5"}}}).outcome, Outcome::kWaiting);
  const auto restored = kept_and_restored(*session_, template_, options());
  ASSERT_NE(restored, nullptr);
  EXPECT_EQ(result_of(restored->resume({{.value = "1"}})), "6");
  ASSERT_TRUE(session_->abandon());
  EXPECT_TRUE(result(GetParam().kind_of_n).contains("absent"));
}

TEST_P(TurnInputs, AreThereWhereTheTurnIsPausedAtItsBeginning) {
  const Report paused =
      session_->exec({.code = "n", .inputs = {{"n", R"({"a":[1]})"}, {"m", "2"}}, .pause_at_fuel = 1});
  ASSERT_EQ(paused.outcome, Outcome::kFrozen);
  const auto restored = kept_and_restored(*session_, template_, options());
  ASSERT_NE(restored, nullptr);
  EXPECT_EQ(restored->go_on().outcome, Outcome::kOk);
  EXPECT_EQ(result_of(restored->exec({.code = "m"})), "2");
}

TEST_P(TurnInputs, WithNamesThatAreNoneAreRefused) {
  const auto refused = [&](const std::string& name) {
    return refusal_of({.code = "1", .inputs = {{"n", "1"}, {name, "1"}}}).message;
  };
  for (const char* const name : {"", "two words", "1st", "a.b", "naïve", "x\n"})
    EXPECT_EQ(refused(name), '"' + std::string(name) + "\" is no name of an input");
  EXPECT_EQ(refused(GetParam().keyword), "the input " + std::string(GetParam().keyword) +
                                             " has the name of a keyword, which is no variable's in " +
                                             GetParam().name);
  EXPECT_TRUE(result(GetParam().kind_of_n).contains("absent")) << "none of them is set";
}

TEST_P(TurnInputs, WithValuesThatAreNoneAreRefused) {
  const auto refused = [&](std::string value) {
    return refusal_of({.code = "1", .inputs = {{"n", "1"}, {"x", std::move(value)}}}).message;
  };
  for (const char* const value : {"", "{", "1,\"y\":2", "nope", "\"\xff\""})
    EXPECT_TRUE(refused(value).contains("the input x")) << refused(value);
  EXPECT_TRUE(refused(std::string(300, '[') + std::string(300, ']')).contains("the input x"));
  const std::string large = '"' + std::string(9u << 20, 'x') + '"';
  const std::string both = refusal_of({.code = "1", .inputs = {{"n", large}, {"x", large}}}).message;
  EXPECT_TRUE(both.contains("bytes, and may have 16777216")) << both;
  const Report unknown =
      session_->exec({.code = "1", .inputs = {{"n", R"({"$object":{"id":1,"type":"Nobody"}})"}}});
  EXPECT_EQ(unknown.outcome, Outcome::kRaised) << "what only the program's side can tell is an error there";
  EXPECT_TRUE(unknown.errors.at(0).message.contains("Nobody"));
  EXPECT_TRUE(result(GetParam().kind_of_n).contains("absent"));
}

TEST_P(TurnInputs, AreOfCellsAlone) {
  const Error script = refusal_of({.code = "1", .is_script = true, .inputs = {{"n", "1"}}});
  EXPECT_EQ(script.message, "a script is a whole program, and has no input variables");
  EXPECT_TRUE(script.hint.contains("standard input"));
  EXPECT_EQ(session_->exec({.code = "n", .only_checks = true, .inputs = {{"n", "1"}}}).outcome, Outcome::kOk);
  EXPECT_TRUE(result(GetParam().kind_of_n).contains("absent")) << "a check runs nothing";
}

INSTANTIATE_TEST_SUITE_P(Each, TurnInputs, ::testing::Values(kPython, kJavaScript),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(InputsThatWereKept, AreReadAsHostileBytes) {
  EXPECT_TRUE(are_sound(Inputs{}));
  EXPECT_TRUE(are_sound(Inputs{{"any \"name\"", "[1]"}}));
  EXPECT_FALSE(are_sound(Inputs{{"x", "1},{"}}));
  EXPECT_EQ(json_of_inputs({}), "{}");
  EXPECT_EQ(json_of_inputs({{"a\"", "[1]"}, {"b", "{}"}}), R"({"a\"":[1],"b":{}})");
}

}  // namespace
}  // namespace membrane::sandbox
