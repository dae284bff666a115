// Sessions in Python and JavaScript, as their users see them.
#include "sandbox/session/session.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>

#include "sandbox/session/session_testing.h"

namespace membrane::sandbox {
namespace {

constexpr Dialect kPython{"python",
                          "x = 20",
                          "while True: pass",
                          "hog = []\nwhile True: hog.append(bytearray(1 << 20))",
                          "raise ValueError('no such luck')",
                          "ValueError",
                          "print('hello')",
                          "import os, random\nstr(random.random()) + os.urandom(8).hex()",
                          "from membrane import http\nhttp.get('http://127.0.0.1:1/page')",
                          "PermissionError",
                          "def f(n):\n  i = 0\n  while i < n:\n    i += len('ab')\n"
                          "def g():\n  f(1 << 62)\ng()",
                          "import os\nwhile True: os.stat('/')"};
constexpr Dialect kJavaScript{"js",
                              "var x = 20",
                              "for (;;) {}",
                              "const hog = []; for (;;) hog.push(new Uint8Array(1 << 20).fill(1))",
                              "throw new RangeError('no such luck')",
                              "RangeError",
                              "console.log('hello')",
                              "Math.random() + ' ' + crypto.randomUUID()",
                              "await fetch('http://127.0.0.1:1/page')",
                              "PermissionError",
                              "function f(n) {\n  let i = 0;\n  while (i < n)\n    i += 2;\n}\n"
                              "const g = () => 1 + f(Infinity);\ng();",
                              "\nfor (;;) require('fs').existsSync('/');"};

INSTANTIATE_TEST_SUITE_P(Languages, InALanguage, ::testing::Values(kPython, kJavaScript),
                         [](const auto& dialect) { return std::string(dialect.param.name); });

TEST_P(InALanguage, StateStaysAndTheLastValueIsTheResult) {
  EXPECT_EQ(exec(dialect().set_x).outcome, Outcome::kOk);
  const Report second = exec("x + 22");
  EXPECT_EQ(second.result, "42");
  ASSERT_EQ(second.value.size(), 1u);
  EXPECT_EQ(second.value[0].type, "text/plain");
  EXPECT_GT(second.fuel_used, 0u);
  const Report third = exec(dialect().print);
  EXPECT_EQ(third.stdout_text, "hello\n");
  EXPECT_TRUE(third.value.empty());
}

TEST_P(InALanguage, ATurnThatWasStoppedSaysWhereItWas) {
  const std::string code = dialect().loop_in_f;
  const Report report = session_->exec({.code = code, .name = "/loop"});
  EXPECT_EQ(report.outcome, Outcome::kOutOfFuel);
  EXPECT_LE(report.fuel_used, session_options().policy.limits.fuel);
  ASSERT_EQ(report.errors.size(), 1u);
  const ReportError& error = report.errors[0];
  EXPECT_EQ(error.place.file, "/loop");
  EXPECT_TRUE(error.place.line == 3u || error.place.line == 4u) << error.place.line;
  EXPECT_EQ(error.place.function, "f");
  ASSERT_GE(error.backtrace.size(), 2u);
  EXPECT_EQ(error.backtrace[0].file, "/loop");
  EXPECT_EQ(error.backtrace[0].line, 6u);
  EXPECT_EQ(error.backtrace[0].function, "g");
  EXPECT_EQ(error.backtrace[1].line, 7u);
  EXPECT_NE(render_text(report, false).find("error[out_of_fuel] /loop:"), std::string::npos);
  const Report again = make()->exec({.code = code, .name = "/loop"});
  ASSERT_EQ(again.errors.size(), 1u);
  EXPECT_EQ(again.errors[0].place, error.place);
  EXPECT_EQ(again.errors[0].backtrace, error.backtrace);
  EXPECT_EQ(exec(dialect().print).stdout_text, "hello\n");
}

TEST_P(InALanguage, WhereATurnWasStoppedIsFoundWhereverThatIs) {
  for (uint64_t fuel = 3'000'000; fuel < 3'000'400; fuel += 7) {
    RunOptions little = session_options();
    little.policy.limits.fuel = fuel;
    const Report report = make(little)->exec({.code = dialect().loop_in_f, .name = "/loop"});
    EXPECT_EQ(report.outcome, Outcome::kOutOfFuel);
    EXPECT_LE(report.fuel_used, fuel);
    ASSERT_EQ(report.errors.size(), 1u);
    EXPECT_TRUE(report.errors[0].place.line == 3u || report.errors[0].place.line == 4u)
        << fuel << ": " << report.errors[0].place.line;
  }
}

// It makes a host request in each iteration.
TEST_P(InALanguage, ATurnThatIsStoppedAtTheHostSaysWhereItWas) {
  const Report report = session_->exec({.code = dialect().talks, .name = "/talk"});
  EXPECT_TRUE(report.outcome == Outcome::kOutOfFuel || report.outcome == Outcome::kOutOfOutput);
  ASSERT_EQ(report.errors.size(), 1u);
  if (report.outcome == Outcome::kOutOfFuel) {
    EXPECT_EQ(report.errors[0].place.line, 2u);
  }
}

TEST_P(InALanguage, ATurnWithoutTimeSaysWhereItWas) {
  RunOptions hurried = session_options();
  hurried.policy.limits.fuel = UINT64_MAX;
  hurried.policy.limits.wall_ms = 1000;
  hurried.is_single_turn = true;
  const Report report = make(hurried)->exec({.code = dialect().loop_in_f, .name = "/loop"});
  EXPECT_EQ(report.outcome, Outcome::kTimedOut);
  ASSERT_EQ(report.errors.size(), 1u);
  EXPECT_EQ(report.errors[0].place.file, "/loop");
  EXPECT_EQ(report.errors[0].place.function, "f");
  EXPECT_EQ(report.errors[0].hint.find("is as it was before"), std::string::npos) << "no turn comes after it";
}

TEST_P(InALanguage, AnErrorIsReportedWithItsTracebackAndTheSessionContinues) {
  exec(dialect().set_x);
  const Report failed = exec(dialect().raise);
  EXPECT_EQ(failed.outcome, Outcome::kRaised);
  ASSERT_EQ(failed.errors.size(), 1u);
  EXPECT_EQ(failed.errors[0].code, dialect().raised);
  EXPECT_EQ(failed.errors[0].message, "no such luck");
  EXPECT_NE(failed.errors[0].traceback.find("<cell 2>"), std::string::npos);
  EXPECT_EQ(exec("x").result, "20");
}

TEST_P(InALanguage, WhatWasPrintedBeforeTheFuelEndedIsInTheOutput) {
  const Report report = exec(std::string(dialect().print) + "\n" + dialect().loop);
  EXPECT_EQ(report.outcome, Outcome::kOutOfFuel);
  EXPECT_EQ(report.stdout_text, "hello\n");
}

TEST_P(InALanguage, ALoopWithoutAnEndEndsByItsFuelAndTheSessionIsAsBefore) {
  exec(dialect().set_x);
  for (int round = 0; round < 2; ++round) {
    const Report ended = exec(dialect().loop);
    EXPECT_EQ(ended.outcome, Outcome::kOutOfFuel);
    // The rest does not pay for the next block of code.
    EXPECT_LE(ended.fuel_used, session_options().policy.limits.fuel);
    EXPECT_GT(ended.fuel_used, session_options().policy.limits.fuel - 1000);
    EXPECT_EQ(exec("x").result, "20");
  }
}

TEST_P(InALanguage, TurnsThatAreRepeatedForAStepBackAreReportedOnce) {
  std::string heard;
  RunOptions with = session_options();
  with.policy.limits.fuel = 300'000'000;
  with.on_stdout = [&](std::string_view text) { heard += text; };
  session_ = make(with);
  exec(dialect().set_x);
  exec(dialect().print);
  exec(dialect().raise);
  for (int i = 0; i < 2; ++i) {
    const Report failed = exec(std::string(dialect().print) + "\n" + dialect().loop);
    EXPECT_EQ(failed.outcome, Outcome::kOutOfFuel) << render_text(failed, false);
  }
  EXPECT_EQ(heard, "hello\nhello\nhello\n");
  EXPECT_EQ(exec("x + 22").result, "42");
}

TEST_P(InALanguage, OutOfTimeAndStoppedByItsOwner) {
  RunOptions run_options = session_options();
  run_options.policy.limits.fuel = 1'000'000'000'000;
  run_options.budget = std::make_shared<policy::Budget>(run_options.policy.limits);
  session_ = make(run_options);
  // The time of the first turn is up before it starts; the next one has all of it.
  run_options.budget->set_deadline(std::chrono::steady_clock::now());
  EXPECT_EQ(exec(dialect().loop).outcome, Outcome::kTimedOut);
  run_options.budget->set_deadline(std::chrono::steady_clock::time_point::max());
  EXPECT_EQ(exec("1 + 1").result, "2");
  run_options.budget = nullptr;
  const std::atomic<bool> cancel = true;
  run_options.cancel = &cancel;
  session_ = make(run_options);
  EXPECT_EQ(exec(dialect().loop).outcome, Outcome::kCancelled);
}

TEST_P(InALanguage, AMemoryHogFailsAndTheSessionContinues) {
  exec(dialect().set_x);
  const Report failed = exec(dialect().hog);
  EXPECT_EQ(failed.outcome, Outcome::kOutOfMemory);
  EXPECT_EQ(exec("x").result, "20");
}

TEST_P(InALanguage, OutputIsBounded) {
  RunOptions run_options = session_options();
  run_options.policy.limits.output_bytes = 1000;
  session_ = make(run_options);
  std::string code = dialect().print;
  for (int i = 0; i < 400; ++i) code += std::string("\n") + dialect().print;
  const Report report = exec(code);
  EXPECT_EQ(report.outcome, Outcome::kOutOfOutput);
  EXPECT_LE(report.stdout_text.size(), 1000u);
}

TEST_P(InALanguage, ADenialNamesTheGrant) {
  const Report report = exec(dialect().fetch);
  EXPECT_EQ(report.outcome, Outcome::kDenied);
  ASSERT_FALSE(report.errors.empty());
  EXPECT_EQ(report.errors[0].code, dialect().denied);
  EXPECT_NE(report.errors[0].hint.find("--allow"), std::string::npos) << report.errors[0].hint;
  ASSERT_FALSE(report.host_calls.empty());
  EXPECT_FALSE(report.host_calls[0].allowed);
}

TEST_P(InALanguage, TheSameProgramIsTheSameInEveryTier) {
  const Report compiled = exec(dialect().random);
  auto interpreted = open_template(dialect().name, engine::Tier::kInterpreter);
  ASSERT_NE(interpreted, nullptr);
  auto session = Session::create(interpreted, session_options());
  ASSERT_TRUE(session);
  const Report other = (*session)->exec({.code = dialect().random});
  EXPECT_EQ(compiled.result, other.result);
  EXPECT_EQ(compiled.fuel_used, other.fuel_used);
  EXPECT_EQ(make()->exec({.code = dialect().random}).result, compiled.result);
}

}  // namespace
}  // namespace membrane::sandbox
