// Sessions as an embedder has them, in C++ and in C. Skipped where JavaScript is not installed (tools/get-languages).

#include "membrane/session.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "face/place_testing.h"
#include "membrane/agents.hpp"
#include "membrane/session.h"

namespace membrane {
namespace {

class EmbeddedSession : public WithLanguage<::testing::TestWithParam<SessionPlace>> {
 protected:
  void SetUp() override { use_language("js"); }
  [[nodiscard]] static bool is_isolated() { return GetParam() == SessionPlace::kIsolated; }
  static SessionOptions with_functions() {
    SessionOptions options;
    put(options, is_isolated());
    options.functions.push_back({.module = "shop", .name = "price", .call = [](const FunctionCall& call) {
                                   return call.arguments == R"(["tea"])"
                                              ? Answer::value("350")
                                              : Answer::error("RangeError", "no such item");
                                 }});
    options.functions.push_back(
        {.name = "approve", .call = [](const FunctionCall&) { return Answer::later(); }});
    options.inputs.emplace_back("given", R"({"a":[1,2]})");
    return options;
  }
  Session session(SessionOptions options = {}) {
    put(options, is_isolated());
    auto made = Session::create(language_, std::move(options));
    EXPECT_TRUE(made) << made.error().message;
    return *std::move(made);
  }
};

INSTANTIATE_TEST_SUITE_P(Places, EmbeddedSession, kPlaces, name_of_place);

TEST_P(EmbeddedSession, KeepsItsStateAndForks) {
  std::string heard;
  SessionOptions options;
  options.on_stdout = [&](std::string_view text) { heard += text; };
  Session first = session(std::move(options));
  EXPECT_EQ(first.run({.code = "var x = 20; console.log('said')"}).outcome, Outcome::kOk);
  EXPECT_EQ(heard, "said\n");
  auto branch = first.fork();
  ASSERT_TRUE(branch);
  branch->run({.code = "x = 1"});
  const Report report = first.run({.code = "x + 22"});
  EXPECT_EQ(report.result, "42");
  ASSERT_FALSE(report.value.empty());
  EXPECT_EQ(report.value[0].type, "text/plain");
  EXPECT_EQ(first.complete("given").size(), 0u);
  const Report failed = first.run({.code = "throw new RangeError('no')"});
  EXPECT_EQ(failed.outcome, Outcome::kRaised);
  EXPECT_TRUE(failed.failures.at(0).traceback.contains("RangeError: no"));
}

TEST_P(EmbeddedSession, CallsFunctionsOfTheEmbedder) {
  Session of = session(with_functions());
  EXPECT_EQ(of.run({.code = "const { price } = require('shop'); price('tea') + given.a[1]"}).result, "352");
  EXPECT_TRUE(of.run({.code = "price('tee')"}).failures.at(0).message.contains("no such item"));
}

TEST_P(EmbeddedSession, WaitsAndGoesOnFromItsBytes) {
  Session of = session(with_functions());
  const Report waiting = of.run({.code = "var n = approve('x', 1) + 1; n"});
  ASSERT_EQ(waiting.outcome, Outcome::kWaiting);
  EXPECT_EQ(waiting.waits_for.at(0).name, "approve");
  EXPECT_EQ(waiting.waits_for.at(0).arguments, R"(["x",1])");
  const auto bytes = of.dump();
  ASSERT_TRUE(bytes);
  auto again = Session::load(language_, *bytes, with_functions());
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->waits_for().size(), 1u);
  EXPECT_EQ(again->resume({Answer::value("41")}).result, "42");
  EXPECT_EQ(of.resume({Answer::error("TypeError", "refused")}).outcome, Outcome::kRaised);
  EXPECT_FALSE(Session::load(language_, std::span(*bytes).first(bytes->size() - 1)));
}

TEST_P(EmbeddedSession, HasFilesAndLimits) {
  Session of = session();
  ASSERT_TRUE(of.write_file("/tmp/a", "text"));
  EXPECT_EQ(of.run({.code = "require('fs').readFileSync('/tmp/a', 'utf8')"}).result, "'text'");
  EXPECT_EQ(of.read_file("/tmp/a").value(), "text");
  EXPECT_EQ(of.read_file("/tmp/none").error().code, "ENOENT");
  SessionOptions options;
  ASSERT_TRUE(options.policy.limit("fuel", "1e8"));
  Session bounded = session(std::move(options));
  EXPECT_EQ(bounded.run({.code = "for (;;) {}"}).outcome, Outcome::kOutOfFuel);
  EXPECT_EQ(bounded.run({.code = "1"}).result, "1");
  EXPECT_EQ(bounded.run({.code = "x = = 1", .only_checks = true}).outcome, Outcome::kRaised);
}

TEST_P(EmbeddedSession, ATurnHasInputs) {
  SessionOptions options = with_functions();
  ASSERT_TRUE(options.policy.limit("fuel", "1e8"));
  Session of = session(std::move(options));
  EXPECT_EQ(of.run({.code = "n + given.a[1]", .inputs = {{"n", "40"}}}).result, "42");
  EXPECT_EQ(of.run({.code = "given + n", .inputs = {{"given", "1"}}}).result, "41") << "n stays";
  EXPECT_EQ(of.run({.code = "for (;;) {}", .inputs = {{"n", "1"}, {"m", "2"}}}).outcome, Outcome::kOutOfFuel);
  EXPECT_EQ(of.run({.code = "`${n} ${typeof m}`"}).result, "'40 undefined'") << "what failed is undone";
  ASSERT_EQ(of.run({.code = "approve() + n", .inputs = {{"n", "1"}}}).outcome, Outcome::kWaiting);
  const auto bytes = of.dump();
  ASSERT_TRUE(bytes);
  auto again = Session::load(language_, *bytes, with_functions());
  ASSERT_TRUE(again);
  EXPECT_EQ(again->resume({Answer::value("1")}).result, "2");
  ASSERT_TRUE(of.abandon());
  EXPECT_EQ(of.run({.code = "n"}).result, "40");
}

TEST_P(EmbeddedSession, RefusesInputsThatAreNone) {
  Session of = session();
  for (const auto& [name, value] : {std::pair("two words", "1"), {"const", "1"}, {"x", "{"}, {"x", ""}}) {
    const Report refused = of.run({.code = "1", .inputs = {{"n", "1"}, {name, value}}});
    EXPECT_EQ(refused.outcome, Outcome::kInvalid) << name;
    ASSERT_EQ(refused.failures.size(), 1u);
    EXPECT_TRUE(refused.failures[0].message.contains(name)) << refused.failures[0].message;
  }
  EXPECT_EQ(of.run({.code = "1", .is_script = true, .inputs = {{"n", "1"}}}).outcome, Outcome::kInvalid);
  EXPECT_EQ(of.run({.code = "typeof n"}).result, "'undefined'");
}

TEST_P(EmbeddedSession, RefusesNamesAndFunctionsThatAreNone) {
  SessionOptions options;
  put(options, is_isolated());
  options.functions.push_back({.name = "no name", .call = [](const FunctionCall&) { return Answer(); }});
  EXPECT_FALSE(Session::create(language_, options));
  options.functions = {{.name = "nothing"}};
  EXPECT_FALSE(Session::create(language_, options));
  options.functions.clear();
  options.inputs = {{"x", "{"}};
  EXPECT_FALSE(Session::create(language_, options));
  EXPECT_FALSE(Language::open("no-such-language"));
}

// What takes long asks whether it is still wanted.
Answer until_stopped(const FunctionCall& call) {
  while (!call.must_stop()) std::this_thread::yield();
  return Answer::value("1");
}

TEST_P(EmbeddedSession, AFunctionIsToldThatItsTurnIsToEnd) {
  SessionOptions options;
  Session* cancelled = nullptr;
  options.functions.push_back({.name = "cancels", .call = [&](const FunctionCall& call) {
                                 EXPECT_FALSE(call.must_stop());
                                 cancelled->cancel();
                                 return until_stopped(call);
                               }});
  options.functions.push_back({.name = "waits", .call = until_stopped});
  ASSERT_TRUE(options.policy.limit("wall", "1s"));
  Session of = session(std::move(options));
  cancelled = &of;
  EXPECT_EQ(of.run({.code = "var x = 1; cancels(); x = 2"}).outcome, Outcome::kCancelled);
  EXPECT_EQ(of.run({.code = "waits(); for (;;) {}"}).outcome, Outcome::kTimedOut);
  EXPECT_EQ(of.run({.code = "typeof x"}).result, "'undefined'") << "the turn is taken back";
}

TEST_P(EmbeddedSession, InputsAreGivenOnceAlsoAfterBytes) {
  const SessionOptions options{.inputs = {{"rate", "2"}}};
  const auto loaded = [&](const Session& from, std::string rate) {
    SessionOptions again = options;
    again.inputs = {{"rate", std::move(rate)}};
    put(again, is_isolated());
    const auto bytes = from.dump();
    EXPECT_TRUE(bytes);
    auto made = Session::load(language_, *bytes, std::move(again));
    EXPECT_TRUE(made);
    return *std::move(made);
  };
  Session fresh = session(options);
  Session first = loaded(fresh, "3");
  EXPECT_EQ(first.run({.code = "rate"}).result, "3") << "no turn has given any before";
  Session second = loaded(first, "4");
  EXPECT_EQ(second.run({.code = "rate"}).result, "3") << "the program keeps what it has";
}

TEST_P(EmbeddedSession, InputsCountAsInputToTheTrifectaRule) {
  const auto reads = [&](SessionOptions options, const Cell& cell) {
    options.flows = Flows();
    const Flows flows = *options.flows;
    auto policy = Policy::parse(R"({"trifecta": {"egress": "close", "input_private": true}})", "policy.json",
                                Policy::for_languages());
    EXPECT_TRUE(policy) << policy.error().message;
    options.policy = *std::move(policy);
    Session of = session(std::move(options));
    EXPECT_EQ(of.run(cell).outcome, Outcome::kOk);
    return flows.private_reads().first.size();
  };
  EXPECT_EQ(reads({}, {.code = "1"}), 0u);
  EXPECT_EQ(reads({}, {.code = "x", .inputs = {{"x", "1"}}}), 1u);
  EXPECT_EQ(reads({.inputs = {{"x", "1"}}}, {.code = "x"}), 1u);
  EXPECT_EQ(reads({}, {.code = "1", .input = "text"}), 1u);
}

TEST_P(EmbeddedSession, IsLookedAfterWhileATurnRuns) {
  int looks = 0;
  SessionOptions options;
  Session* running = nullptr;
  options.on_poll = [&] {
    if (++looks == 3) running->cancel();
  };
  Session of = session(std::move(options));
  running = &of;
  EXPECT_EQ(of.run({.code = "for (;;) {}"}).outcome, Outcome::kCancelled);
}

TEST_P(EmbeddedSession, ACallThatWaitsIsGivenUp) {
  Session of = session(with_functions());
  EXPECT_EQ(of.abandon().error().code, "invalid_argument");
  of.run({.code = "var x = 1"});
  ASSERT_EQ(of.run({.code = "x = 2; approve()"}).outcome, Outcome::kWaiting);
  auto branch = of.fork();
  const auto bytes = of.dump();
  ASSERT_TRUE(branch && bytes);
  auto loaded = Session::load(language_, *bytes, with_functions());
  ASSERT_TRUE(loaded);
  for (Session* const each : {&of, &*branch, &*loaded}) {
    const Report refused = each->run({.code = "x"});
    EXPECT_EQ(refused.outcome, Outcome::kInvalid);
    EXPECT_EQ(refused.failures.at(0).message, "the session waits for the answer to its call of approve");
    EXPECT_TRUE(refused.failures.at(0).hint.contains("abandon()")) << refused.failures.at(0).hint;
    ASSERT_TRUE(each->abandon());
    EXPECT_TRUE(each->waits_for().empty());
    EXPECT_EQ(each->run({.code = "x"}).result, "1");
    ASSERT_EQ(each->run({.code = "approve()"}).outcome, Outcome::kWaiting);
    EXPECT_EQ(each->resume({Answer::value("7")}).result, "7");
  }
  ASSERT_EQ(of.run({.code = "x = 3; for (;;) {}", .pause_at_fuel = 100'000}).outcome, Outcome::kFrozen);
  ASSERT_TRUE(of.abandon());
  EXPECT_EQ(of.run({.code = "x"}).result, "1");
}

TEST_P(EmbeddedSession, WhatIsGrantedHasToBeThere) {
  SessionOptions options;
  ASSERT_TRUE(options.policy.allow("fs:read:./no-such-directory:/data"));
  const auto bytes = session().dump();
  ASSERT_TRUE(bytes);
  for (const auto& made : {Session::create(language_, options), Session::load(language_, *bytes, options)}) {
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, "not_found");
    EXPECT_EQ(made.error().message, "./no-such-directory, granted as /data, does not exist");
  }
}

TEST_P(EmbeddedSession, LanguagesAreOpenedByWhatTheyAreCalled) {
  for (const char* const word : {"JavaScript", "node", "js"}) {
    const auto opened = Language::open(word);
    ASSERT_TRUE(opened) << opened.error().message;
    EXPECT_EQ(opened->name(), "js");
  }
  EXPECT_TRUE(Language::open("typescript").error().hint.contains(".ts"));
}

// -- C --------------------------------------------------------------------------------------------------------------

void answer_calls(void* user_data, const membrane_function_call* calls, size_t count,
                  membrane_answer* const* answers) {
  for (size_t i = 0; i < count; ++i) {
    ++*static_cast<int*>(user_data);
    EXPECT_FALSE(membrane_function_call_must_stop(&calls[i]));
    if (std::strcmp(calls[i].name, "twice") == 0) membrane_answer_value(answers[i], "42", 0);
    else if (std::strcmp(calls[i].name, "later") == 0) membrane_answer_later(answers[i]);
    else membrane_answer_error(answers[i], "TypeError", "no");
  }
}

TEST_P(EmbeddedSession, IsThereInC) {
  membrane_error* error = nullptr;
  membrane_language* const language = membrane_language_open("js", nullptr, nullptr, &error);
  ASSERT_NE(language, nullptr);
  int calls = 0;
  const membrane_guest_function functions[] = {{nullptr, "twice", nullptr, nullptr, false},
                                               {nullptr, "later", nullptr, nullptr, false},
                                               {nullptr, "fails", nullptr, nullptr, false}};
  membrane_session_options options{};
  options.size = sizeof options;
  options.functions = functions;
  options.function_count = 3;
  options.call = &answer_calls;
  options.user_data = &calls;
  put(options, is_isolated());
  membrane_session* const session = membrane_session_new(language, &options, &error);
  ASSERT_NE(session, nullptr) << membrane_error_message(error);
  const auto run = [&](membrane_session* of, const char* code) {
    membrane_cell cell{};
    cell.size = sizeof cell;
    cell.code = code;
    return membrane_session_run(of, &cell);
  };
  membrane_report* report = run(session, "twice(21) + 0");
  EXPECT_STREQ(membrane_report_result(report, nullptr), "42");
  EXPECT_STREQ(membrane_report_form(report, "text/plain", nullptr), "42");
  EXPECT_EQ(membrane_report_form(report, "text/html", nullptr), nullptr);
  membrane_report_free(report);
  report = run(session, "fails()");
  EXPECT_STREQ(membrane_report_outcome(report), "raised");
  membrane_report_free(report);
  EXPECT_EQ(calls, 2);

  report = run(session, "later(1) + 1");
  EXPECT_STREQ(membrane_report_outcome(report), "waiting");
  ASSERT_EQ(membrane_report_waiting_count(report), 1u);
  EXPECT_STREQ(membrane_report_waiting(report, 0)->arguments, "[1]");
  EXPECT_EQ(membrane_report_waiting(report, 1), nullptr);
  membrane_report_free(report);
  membrane_session* const given_up = membrane_session_fork(session, &error);
  ASSERT_NE(given_up, nullptr);
  EXPECT_TRUE(membrane_session_abandon(given_up, &error));
  EXPECT_FALSE(membrane_session_abandon(given_up, &error));
  EXPECT_STREQ(membrane_error_code(error), "invalid_argument");
  membrane_error_free(error);
  membrane_session_free(given_up);
  size_t size = 0;
  uint8_t* const bytes = membrane_session_dump(session, &size, &error);
  ASSERT_NE(bytes, nullptr);
  membrane_session* const again = membrane_session_load(language, bytes, size, &options, &error);
  ASSERT_NE(again, nullptr);
  membrane_bytes_free(bytes);
  const char* const values[] = {"41"};
  report = membrane_session_resume(again, values, nullptr, 1);
  EXPECT_STREQ(membrane_report_result(report, nullptr), "42");
  membrane_report_free(report);

  const membrane_input inputs[] = {{"n", "40"}, {"d", "{\"a\":2}"}};
  membrane_cell with_inputs{};
  with_inputs.size = sizeof with_inputs;
  with_inputs.code = "n + d.a";
  with_inputs.inputs = inputs;
  with_inputs.input_count = 2;
  report = membrane_session_run(again, &with_inputs);
  EXPECT_STREQ(membrane_report_result(report, nullptr), "42");
  membrane_report_free(report);
  with_inputs.size = offsetof(membrane_cell, inputs);
  with_inputs.code = "n = n + 1";
  report = membrane_session_run(again, &with_inputs);
  EXPECT_STREQ(membrane_report_result(report, nullptr), "41") << "they stay, and are not read past the size";
  membrane_report_free(report);

  // A caller that was built when there were fewer fields.
  membrane_cell old{};
  old.size = offsetof(membrane_cell, name);
  old.code = "6 * 7";
  old.name = reinterpret_cast<const char*>(1);
  report = membrane_session_run(again, &old);
  EXPECT_STREQ(membrane_report_result(report, nullptr), "42");
  membrane_report_free(report);
  EXPECT_TRUE(
      membrane_session_write_file(again, "/tmp/x", reinterpret_cast<const uint8_t*>("ab"), 2, nullptr));
  uint8_t* const content = membrane_session_read_file(again, "/tmp/x", &size, nullptr);
  ASSERT_NE(content, nullptr);
  EXPECT_EQ(size, 2u);
  membrane_bytes_free(content);
  EXPECT_EQ(membrane_session_read_file(again, "/tmp/none", &size, &error), nullptr);
  EXPECT_STREQ(membrane_error_code(error), "ENOENT");
  membrane_error_free(error);
  membrane_session_free(again);
  membrane_session_free(session);
  membrane_language_free(language);
}

}  // namespace
}  // namespace membrane
