// Sessions in Python and JavaScript, as their users see them. Skipped if the language is not installed
// (tools/get-languages); Python also in builds with sanitizers, where compiling it takes minutes.

#include "sandbox/session.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>

#include "sandbox/languages.h"
#include "sandbox/template_testing.h"

namespace membrane::sandbox {
namespace {

RunOptions options() {
  RunOptions options;
  options.policy.limits = policy::language_limits();
  options.policy.limits.memory_bytes = 64u << 20;
  options.policy.limits.fuel = 2'000'000'000;
  options.policy.limits.wall_ms = 600'000;
  return options;
}

// The differences between the languages, in code that does the same.
struct Dialect {
  const char* name;
  const char* set_x;   // to 20
  const char* loop;    // infinite
  const char* hog;     // allocates memory
  const char* raise;   // raises an error "no such luck"
  const char* raised;  // its name
  const char* print;   // prints "hello"
  const char* random;  // a string that differs in each fork
  const char* fetch;   // of http://127.0.0.1:1/page
  const char* denied;  // what that raises
  // An infinite loop in lines 3 and 4, in f, which g calls in line 6, and line 7 calls g.
  const char* loop_in_f;
  const char* talks;  // makes host requests in line 2, forever
};
void PrintTo(const Dialect& dialect, std::ostream* out) { *out << dialect.name; }

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

class InALanguage : public ::testing::TestWithParam<Dialect> {
 protected:
  void SetUp() override {
    template_ = open_template(dialect().name);
    if (template_ == nullptr) GTEST_SKIP() << dialect().name << " is not installed, or not for this build";
    session_ = make();
  }
  static const Dialect& dialect() { return GetParam(); }
  std::unique_ptr<Session> make(RunOptions run_options = options()) {
    auto made = Session::create(template_, std::move(run_options));
    EXPECT_TRUE(made) << made.error().message;
    return made ? std::move(*made) : nullptr;
  }
  Report exec(const std::string& code) { return session_->exec({.code = code}); }

  std::shared_ptr<const Template> template_;
  std::unique_ptr<Session> session_;
};

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
  EXPECT_LE(report.fuel_used, options().policy.limits.fuel);
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
    RunOptions little = options();
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
  RunOptions hurried = options();
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

TEST_P(InALanguage, AnErrorIsToldWithItsTracebackAndTheSessionGoesOn) {
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
    EXPECT_LE(ended.fuel_used, options().policy.limits.fuel);
    EXPECT_GT(ended.fuel_used, options().policy.limits.fuel - 1000);
    EXPECT_EQ(exec("x").result, "20");
  }
}

TEST_P(InALanguage, TurnsThatAreRunAgainForAStepBackAreHeardOnce) {
  std::string heard;
  RunOptions with = options();
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
  RunOptions run_options = options();
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

TEST_P(InALanguage, AMemoryHogFailsAndTheSessionGoesOn) {
  exec(dialect().set_x);
  const Report failed = exec(dialect().hog);
  EXPECT_EQ(failed.outcome, Outcome::kOutOfMemory);
  EXPECT_EQ(exec("x").result, "20");
}

TEST_P(InALanguage, OutputIsBounded) {
  RunOptions run_options = options();
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
  auto session = Session::create(interpreted, options());
  ASSERT_TRUE(session);
  const Report other = (*session)->exec({.code = dialect().random});
  EXPECT_EQ(compiled.result, other.result);
  EXPECT_EQ(compiled.fuel_used, other.fuel_used);
  EXPECT_EQ(make()->exec({.code = dialect().random}).result, compiled.result);
}

// -- forks: docs/fork-correctness.md names these ------------------------------------------------------------------

TEST_P(InALanguage, AForkGoesItsOwnWay) {
  exec(dialect().set_x);
  auto fork = session_->fork(1);
  ASSERT_TRUE(fork) << fork.error().message;
  exec("x = 1");
  EXPECT_EQ((*fork)->exec({.code = "x = x + 1"}).outcome, Outcome::kOk);
  EXPECT_EQ((*fork)->exec({.code = "x"}).result, "21");
  EXPECT_EQ(exec("x").result, "1");
  auto of_fork = (*fork)->fork(2);
  ASSERT_TRUE(of_fork);
  EXPECT_EQ((*of_fork)->exec({.code = "x"}).result, "21");
}

TEST_P(InALanguage, AForkHasFreshEntropy) {
  auto a = session_->fork(1), b = session_->fork(2), again = session_->fork(1);
  ASSERT_TRUE(a && b && again);
  const std::string of_parent = exec(dialect().random).result;
  const std::string of_a = (*a)->exec({.code = dialect().random}).result;
  const std::string of_b = (*b)->exec({.code = dialect().random}).result;
  EXPECT_NE(of_a, of_parent);
  EXPECT_NE(of_a, of_b);
  EXPECT_EQ((*again)->exec({.code = dialect().random}).result, of_a)
      << "the same number, the same randomness";
}

TEST_P(InALanguage, EachTurnOfAForkHasTheLimitsAndASharedBudgetPaysForAll) {
  RunOptions with = options();
  with.budget = std::make_shared<policy::Budget>(with.policy.limits);
  const auto session = make(with);
  const auto fork = session->fork(1);
  ASSERT_TRUE(fork);
  const auto left = [&] { return with.budget->left(policy::Resource::kFuel); };
  const uint64_t before = left();
  const uint64_t of_session = session->exec({.code = dialect().set_x}).fuel_used;
  EXPECT_EQ(left(), before - of_session);
  const uint64_t of_fork = (*fork)->exec({.code = dialect().set_x}).fuel_used;
  EXPECT_EQ(left(), before - of_session - of_fork);
  // Without a shared budget nothing that one uses is missing in another.
  RunOptions alone = options();
  alone.policy.limits.fuel = 100'000'000;
  session_ = make(alone);
  const auto own = session_->fork(1);
  ASSERT_TRUE(own);
  EXPECT_EQ(exec(dialect().loop).outcome, Outcome::kOutOfFuel);
  const Report spent = (*own)->exec({.code = dialect().loop});
  EXPECT_EQ(spent.outcome, Outcome::kOutOfFuel);
  EXPECT_GT(spent.fuel_used,
            alone.policy.limits.fuel - 1'000);  // less than the segment that could not be paid
  EXPECT_EQ((*own)->exec({.code = dialect().set_x}).outcome, Outcome::kOk);
}

TEST_P(InALanguage, AForkWritesNoJournalAndAReplayHasTheSameRealEntropy) {
  host::Journal journal;
  RunOptions with = options();
  with.policy.random.real = true;
  with.record = &journal;
  session_ = make(with);
  const auto fork = session_->fork(1);
  ASSERT_TRUE(fork);
  const std::string first = exec(dialect().random).result;
  const size_t calls = journal.size();
  EXPECT_GT(calls, 0u);
  EXPECT_NE((*fork)->exec({.code = dialect().random}).result, first);
  EXPECT_EQ(journal.size(), calls);
  const std::string second = exec(dialect().random).result;
  EXPECT_GT(journal.size(), calls);

  with.record = nullptr;
  with.replay = &journal;
  session_ = make(with);
  EXPECT_EQ(exec(dialect().random).result, first);
  EXPECT_EQ(exec(dialect().random).result, second);
}

// -- generators after a step back ---------------------------------------------------------------------------------

// Prints numbers from every source of entropy, one per line.
std::string drawing(std::string_view language) {
  if (language == "python")
    return "import os, random, secrets, tempfile, uuid\nfrom membrane import random as ours\n"
           "for n in (random.random(), os.urandom(8).hex(), secrets.token_hex(8), uuid.uuid4(), "
           "next(tempfile._get_candidate_names()), ours.i64()): print(n, flush=True)\n";
  return "for (const n of [Math.random(), crypto.randomUUID(), crypto.getRandomValues(new "
         "Uint8Array(8)).join(), "
         "membrane.random.i64()]) console.log(String(n));\n";
}
// All printed lines must be distinct.
void expect_distinct(const std::vector<std::string>& printed) {
  std::set<std::string> seen;
  for (const std::string& text : printed) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);)
      EXPECT_TRUE(seen.insert(line).second) << "drawn twice: " << line;
  }
}

TEST_P(InALanguage, ATurnHasAFlagAndListenersOfItsOwn) {
  const bool is_python = std::string_view(dialect().name) == "python";
  const std::string prints = is_python ? "print('here')" : "console.log('here')";
  std::string of_session, of_turn;
  std::atomic<bool> cancelled = false, cancels_all = false;
  RunOptions with = options();
  with.cancel = &cancels_all;
  with.on_stdout = [&](std::string_view text) { of_session += text; };
  const auto session = make(with);
  const auto fork = session->fork(1);
  ASSERT_TRUE(fork);
  EXPECT_EQ((*fork)->exec({.code = prints, .on_stdout = [&](auto text) { of_turn += text; }}).outcome,
            Outcome::kOk);
  EXPECT_EQ(of_turn, "here\n");
  EXPECT_EQ(of_session, "");
  const Turn endless{.code = prints + "\n" + dialect().loop, .cancel = &cancelled, .on_stdout = [&](auto) {
                       cancelled = true;
                     }};
  EXPECT_EQ((*fork)->exec(endless).outcome, Outcome::kCancelled);
  EXPECT_EQ((*fork)->exec({.code = prints}).outcome, Outcome::kOk);  // the flag belonged to that turn
  EXPECT_EQ(of_session, "here\n");
}

TEST_P(InALanguage, EntropyOfATurnThatWasUndoneIsNeverGivenAgain) {
  const std::string draw = drawing(dialect().name);
  for (const bool is_real : {false, true}) {
    bool cancels = false;
    std::atomic<bool> cancelled = false;
    RunOptions with = options();
    with.policy.random.real = is_real;
    with.policy.limits.fuel = 300'000'000;
    with.policy.limits.memory_bytes = 16 << 20;
    with.policy.limits.output_bytes = 4 << 10;
    with.cancel = &cancelled;
    with.on_stdout = [&](std::string_view) { cancelled = cancels; };
    const auto session = make(with);
    const std::string loop = dialect().loop, hog = dialect().hog;
    const bool is_python = std::string_view(dialect().name) == "python";
    const std::string floods = is_python ? "while True: print()" : "for (;;) console.log('')";
    std::vector<std::string> printed;
    const auto run = [&](const std::string& end, Outcome expected) {
      cancels = expected == Outcome::kCancelled;
      cancelled = false;
      const Report report = session->exec({.code = draw + end});
      // Whichever limit is reached first, the turn is undone.
      EXPECT_TRUE(report.outcome == expected || report.outcome == Outcome::kOutOfFuel)
          << render_text(report, false);
      std::istringstream lines(report.stdout_text);
      for (std::string line; std::getline(lines, line);)
        if (!line.empty()) printed.push_back(line);
    };
    run(loop, Outcome::kOutOfFuel);  // the very first turn
    run(loop, Outcome::kOutOfFuel);
    run("", Outcome::kOk);
    run(loop, Outcome::kOutOfFuel);
    run(loop, Outcome::kCancelled);
    run(floods, Outcome::kOutOfOutput);
    run(hog, Outcome::kOutOfMemory);
    run(dialect().raise, Outcome::kRaised);
    run("", Outcome::kOk);
    if (is_python) run("os._exit(3)", Outcome::kRaised);
    run("", Outcome::kOk);
    EXPECT_GT(printed.size(), 30u);
    expect_distinct(printed);
  }
}

TEST_P(InALanguage, ForksAndStepsBackShareNoStream) {
  const std::string draw = drawing(dialect().name), ending = draw + dialect().loop;
  RunOptions with = options();
  with.policy.limits.fuel = 300'000'000;
  session_ = make(with);
  std::vector<std::string> printed;
  const auto drawn_by = [&](Session& session) {
    printed.push_back(session.exec({.code = draw}).stdout_text);
  };
  std::vector<std::unique_ptr<Session>> forks;
  const auto fork = [&](Session& from, uint64_t number) {
    auto made = from.fork(number);
    ASSERT_TRUE(made) << made.error().message;
    forks.push_back(std::move(*made));
  };
  for (uint64_t number = 0; number < 3; ++number) fork(*session_, number);
  printed.push_back(exec(ending).stdout_text);
  for (uint64_t number = 3; number < 6; ++number) fork(*session_, number);
  for (uint64_t number = 0; number < 3; ++number) fork(*forks[0], number);
  printed.push_back(forks[1]->exec({.code = ending}).stdout_text);
  const Report begun = session_->exec({.code = ending, .pause_at_fuel = 250'000'000});
  ASSERT_EQ(begun.outcome, Outcome::kFrozen);
  printed.push_back(begun.stdout_text);
  fork(*session_, 7);
  EXPECT_EQ(session_->go_on().outcome, Outcome::kOutOfFuel);
  EXPECT_EQ(forks.back()->go_on().outcome, Outcome::kOutOfFuel);
  drawn_by(*session_);
  for (const auto& each : forks) drawn_by(*each);
  expect_distinct(printed);
}

// Both run the rest of the turn, and then diverge.
TEST_P(InALanguage, AForkOfATurnThatRanToItsEndHasFreshEntropy) {
  const Report begun = session_->exec({.code = drawing(dialect().name) + "1", .pause_at_fuel = 1'000'000});
  ASSERT_EQ(begun.outcome, Outcome::kFrozen) << render_text(begun, false);
  auto fork = session_->fork(1);
  ASSERT_TRUE(fork) << fork.error().message;
  EXPECT_EQ(session_->go_on().outcome, Outcome::kOk);
  EXPECT_EQ((*fork)->go_on().outcome, Outcome::kOk);
  expect_distinct({exec(drawing(dialect().name)).stdout_text,
                   (*fork)->exec({.code = drawing(dialect().name)}).stdout_text});
}

TEST_P(InALanguage, ManyForksLiveSideBySide) {
  std::vector<std::unique_ptr<Session>> forks;
  for (uint64_t i = 0; i < 50; ++i) {
    auto fork = session_->fork(i);
    ASSERT_TRUE(fork) << fork.error().message;
    forks.push_back(std::move(*fork));
  }
  for (size_t i = 0; i < forks.size(); ++i)
    EXPECT_EQ(forks[i]->exec({.code = std::to_string(i) + " + 1"}).result, std::to_string(i + 1));
}

// -- turns that are paused ----------------------------------------------------------------------------------------

// Prints, computes, writes a file, waits, and calls back into itself if it can.
std::string busy_program(std::string_view language) {
  if (language == "python")
    return "import asyncio, random\ntotal = 0\nfile = open('notes.txt', 'w')\nfor i in range(40):\n"
           "  total += sum(ord(c) for c in str(2 ** i)) + random.getrandbits(8)\n  print(i, total)\n"
           "  file.write(f'{i}\\n')\nfile.close()\nawait asyncio.sleep(0.001)\n"
           "total, len(open('notes.txt').read())";
  return "let total = 0;\nconst vm = await import('node:vm');\nfor (let i = 0; i < 40; ++i) {\n"
         "  total += [...String(2 ** i)].length + Math.floor(Math.random() * 256);\n  console.log(i, "
         "total);\n"
         "  if (i % 10 === 0) total += vm.runInThisContext('let sum = 0; for (let k = 0; k < 500; ++k) sum "
         "+= k; sum'.replaceAll('sum', `sum${i}`));\n"
         "  if (i % 10 === 5) await new Promise((done) => setTimeout(done, 1));\n}\n"
         "setTimeout(() => console.log('later', total), 2);\ntotal";
}

TEST_P(InALanguage, ATurnThatIsPausedAnywhereEndsAsOneThatIsNot) {
  const std::string code = busy_program(GetParam().name);
  const Report whole = exec(code);
  ASSERT_EQ(whole.outcome, Outcome::kOk) << render_text(whole, false);
  constexpr uint64_t kParts = 12;
  for (uint64_t part = 0; part <= kParts; ++part) {
    auto session = make();
    Report report = session->exec({.code = code, .pause_at_fuel = whole.fuel_used * part / (kParts + 1)});
    std::string printed = report.stdout_text;
    ASSERT_EQ(report.outcome, Outcome::kFrozen) << part;
    EXPECT_EQ(session->paused_at_fuel(), report.fuel_used);
    EXPECT_EQ(session->exec({.code = "1"}).outcome, Outcome::kInvalid);
    for (uint64_t more = 1; report.outcome == Outcome::kFrozen; ++more) {  // in steps, from then on
      report = session->go_on(report.fuel_used + whole.fuel_used / 5);
      printed += report.stdout_text;
    }
    EXPECT_EQ(report.outcome, Outcome::kOk) << render_text(report, false);
    EXPECT_EQ(report.result, whole.result);
    EXPECT_EQ(printed, whole.stdout_text);
    EXPECT_EQ(report.fuel_used, whole.fuel_used);
    EXPECT_FALSE(session->paused_at_fuel());
    EXPECT_EQ(session->go_on().outcome, Outcome::kInvalid);
    EXPECT_EQ(session->exec({.code = "40 + 2"}).result, "42");
  }
}

TEST_P(InALanguage, AForkOfATurnThatRunsGoesOnFromThere) {
  const std::string code = busy_program(GetParam().name);
  const Report whole = exec(code);
  constexpr uint64_t kParts = 6;
  for (uint64_t part = 2; part <= kParts; ++part) {  // after the place where fresh entropy is given
    auto session = make();
    const Report begun =
        session->exec({.code = code, .pause_at_fuel = whole.fuel_used * part / (kParts + 1)});
    ASSERT_EQ(begun.outcome, Outcome::kFrozen);
    auto fork = session->fork(1);
    ASSERT_TRUE(fork) << fork.error().message;
    EXPECT_EQ((*fork)->paused_at_fuel(), begun.fuel_used);
    auto second = (*fork)->fork(2);
    ASSERT_TRUE(second);
    for (Session* const each : {fork->get(), session.get(), second->get()}) {
      const Report ended = each->go_on();
      EXPECT_EQ(ended.outcome, Outcome::kOk) << render_text(ended, false);
      EXPECT_EQ(ended.result, whole.result);
      EXPECT_EQ(begun.stdout_text + ended.stdout_text, whole.stdout_text);
      EXPECT_EQ(ended.fuel_used, whole.fuel_used);
      EXPECT_EQ(each->exec({.code = "40 + 2"}).result, "42");
    }
  }
}

TEST_P(InALanguage, AForkOfATurnThatRunsGoesBackByItself) {
  exec(dialect().set_x);
  ASSERT_EQ(session_->exec({.code = std::string(dialect().loop), .pause_at_fuel = 1'000'000}).outcome,
            Outcome::kFrozen);
  auto fork = session_->fork(1);
  ASSERT_TRUE(fork) << fork.error().message;
  EXPECT_EQ((*fork)->go_on().outcome, Outcome::kOutOfFuel);
  EXPECT_FALSE((*fork)->paused_at_fuel());
  EXPECT_EQ((*fork)->exec({.code = "x"}).result, "20");
  EXPECT_TRUE(session_->paused_at_fuel());
  EXPECT_EQ(session_->go_on(2'000'000).outcome, Outcome::kFrozen);
  session_->fork(2).value().reset();
}

INSTANTIATE_TEST_SUITE_P(Languages, InALanguage, ::testing::Values(kPython, kJavaScript),
                         [](const auto& dialect) { return std::string(dialect.param.name); });

class OneLanguage : public ::testing::Test {
 protected:
  explicit OneLanguage(const char* language) : language_(language) {}
  void SetUp() override {
    template_ = open_template(language_);
    if (template_ == nullptr) GTEST_SKIP() << language_ << " is not installed, or not for this build";
    begin(options());
  }
  void begin(RunOptions run_options) {
    auto made = Session::create(template_, std::move(run_options));
    ASSERT_TRUE(made) << made.error().message;
    session_ = std::move(*made);
  }
  Report exec(const std::string& code) { return session_->exec({.code = code}); }

  const char* language_;
  std::shared_ptr<const Template> template_;
  std::unique_ptr<Session> session_;
};

// -- Python alone -------------------------------------------------------------------------------------------------

class Python : public OneLanguage {
 protected:
  Python() : OneLanguage("python") {}
};

TEST_F(Python, EndingItselfIsNoFailure) {
  exec("x = 20");
  const Report ended = exec("import sys\nsys.exit(3)");
  EXPECT_EQ(ended.outcome, Outcome::kOk);
  EXPECT_EQ(ended.exit_code, 3);
  EXPECT_EQ(exec("x").result, "20");
  const Report gone = exec("x = 1\nimport os\nos._exit(4)");
  EXPECT_EQ(gone.outcome, Outcome::kRaised);
  EXPECT_EQ(gone.exit_code, 4);
  EXPECT_EQ(exec("x").result, "20") << "as before the turn that ended the interpreter";
}

TEST_F(Python, IsGivenInputAndArguments) {
  const Report report = session_->exec({.code = "import sys\nprint(sys.argv[1:], input('name? '), input())",
                                        .name = "greet.py",
                                        .is_script = true,
                                        .arguments = {"a", "b"},
                                        .input = "Ada\nLovelace\n"});
  EXPECT_EQ(report.stdout_text, "name? ['a', 'b'] Ada Lovelace\n");
  EXPECT_EQ(exec("input()").errors.at(0).code, "EOFError");
}

TEST_F(Python, ImportsFromFilesThatAreMountedOverItsOwn) {
  constexpr std::string_view kSource = "value = 42\n",
                             kShadow = "raise ImportError('in the place of what is built in')\n";
  const auto bytes = [](std::string_view text) {
    return std::span(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  };
  const auto over = Template::over(template_,
                                   {{.path = "/packages/given.py", .bytes = bytes(kSource)},
                                    {.path = "/packages/colorsys.py", .bytes = bytes(kShadow)}},
                                   "/packages");
  ASSERT_TRUE(over) << over.error().message;
  const auto session = Session::create(*over, {});
  ASSERT_TRUE(session) << session.error().message;
  EXPECT_EQ((*session)->exec({.code = "import given, colorsys; given.value"}).result, "42");
  const auto fork = (*session)->fork(1);
  ASSERT_TRUE(fork);
  EXPECT_EQ((*fork)->exec({.code = "open('/packages/given.py').read()"}).result, "'value = 42\\n'");
}

TEST_F(Python, AnImportThatIsNotFoundSaysHowToHaveIt) {
  const auto session = Session::create(template_, {});
  ASSERT_TRUE(session);
  const Report report = (*session)->exec({.code = "import rich"});
  ASSERT_EQ(report.errors.size(), 1u);
  EXPECT_NE(report.errors[0].hint.find("python = [\"rich\"] under [packages]"), std::string::npos)
      << report.errors[0].hint;
  EXPECT_EQ(report.errors[0].traceback.find("Site initialization"), std::string::npos)
      << report.errors[0].traceback;
}

TEST_F(Python, FilesThatItMakesAreListedAndCanBeFetched) {
  ASSERT_TRUE(session_->put_file("/tmp/in.csv", "a,b\n1,2\n"));
  const Report report = exec(
      "import csv\nrows = list(csv.DictReader(open('/tmp/in.csv')))\nopen('/tmp/out.txt', "
      "'w').write(rows[0]['b'])");
  ASSERT_EQ(report.files.size(), 2u);
  EXPECT_EQ(report.files[1].path, "/tmp/out.txt");
  EXPECT_EQ(session_->read_file("/tmp/out.txt").value(), "2");
  EXPECT_FALSE(session_->read_file("/etc/passwd"));
}

TEST_F(Python, ShowsRichValues) {
  const Report chart = exec("from membrane import chart\nchart.line([1, 2, 3])");
  EXPECT_TRUE(
      std::ranges::any_of(chart.value, [](const MimePart& part) { return part.type == "image/svg+xml"; }));
  const Report shown = exec("display({'a': 1})\nclass T:\n  def _repr_html_(self): return '<b>t</b>'\nT()");
  ASSERT_EQ(shown.displays.size(), 1u);
  EXPECT_TRUE(std::ranges::any_of(
      shown.value, [](const MimePart& part) { return part.type == "text/html" && part.data == "<b>t</b>"; }));
}

TEST_F(Python, HasNothingOfTheHostsEnvironment) {
  EXPECT_EQ(setenv("MEMBRANE_TEST_SECRET", "hunter2", 1), 0);
  begin(options());
  EXPECT_EQ(exec("import os\n'hunter2' in str(os.environ)").result, "False");
  EXPECT_EQ(exec("os.path.exists('/proc') or os.path.exists('/etc/passwd')").result, "False");
}

TEST_F(Python, AForkSharesNoFileOffset) {
  exec("f = open('/tmp/shared', 'w+b', buffering=0)\nf.write(b'0123456789')\nf.seek(2)");
  auto fork = session_->fork(1);
  ASSERT_TRUE(fork);
  EXPECT_EQ(exec("f.read(3)").result, "b'234'");
  EXPECT_EQ((*fork)->exec({.code = "f.read(3)"}).result, "b'234'");
  exec("f.write(b'XX')");
  EXPECT_EQ((*fork)->exec({.code = "f.seek(0); f.read()"}).result, "b'0123456789'");
}

TEST_F(Python, AForkHasTheClockOfItsOwnRun) {
  exec("import time\nbefore = time.monotonic()");
  auto fork = session_->fork(1);
  ASSERT_TRUE(fork);
  EXPECT_EQ((*fork)->exec({.code = "time.monotonic() >= before"}).result, "True");
  EXPECT_EQ(exec("time.sleep(3600)\ntime.monotonic() - before > 3599").result, "True");
  EXPECT_EQ((*fork)->exec({.code = "time.monotonic() - before < 1"}).result, "True");
}

TEST_F(Python, AForkAndItsParentSeeWhatEitherWritesToAGrantedDirectory) {
  const std::string directory = ::testing::TempDir() + "membrane-both-" + std::to_string(getpid());
  std::filesystem::create_directory(directory);
  RunOptions run_options = options();
  run_options.policy.fs.push_back({.guest = "/data", .host = directory, .mode = policy::FsMode::kWrite});
  begin(run_options);
  auto fork = session_->fork(1);
  ASSERT_TRUE(fork);
  exec("with open('/data/a', 'w') as f: f.write('of the parent')");
  EXPECT_EQ((*fork)->exec({.code = "open('/data/a').read()"}).result, "'of the parent'");
  (*fork)->exec({.code = "with open('/data/b', 'w') as f: f.write('of the fork')"});
  EXPECT_EQ(exec("open('/data/b').read()").result, "'of the fork'");
  std::filesystem::remove_all(directory);
}

TEST_F(Python, HashesOfTextsAreTheTemplatesInEveryFork) {
  const std::string hash = exec("hash('membrane')").result;
  auto fork = session_->fork(9);
  ASSERT_TRUE(fork);
  EXPECT_EQ((*fork)->exec({.code = "hash('membrane')"}).result, hash);
}

TEST_F(Python, ReadsAGrantedDirectoryAndNoOther) {
  const std::string directory = ::testing::TempDir() + "membrane-data-" + std::to_string(getpid());
  std::filesystem::create_directory(directory);
  std::ofstream(directory + "/log.csv") << "level,count\nerror,3\nerror,4\n";
  RunOptions run_options = options();
  run_options.policy.fs.push_back({.guest = "/data", .host = directory});
  begin(run_options);
  EXPECT_EQ(exec("import csv\nsum(int(r['count']) for r in csv.DictReader(open('/data/log.csv')))").result,
            "7");
  const Report denied = exec("open('/data/new.txt', 'w')");
  EXPECT_EQ(denied.outcome, Outcome::kDenied);
  EXPECT_FALSE(std::filesystem::exists(directory + "/new.txt"));
  std::filesystem::remove_all(directory);
}

TEST_F(Python, AWriteBelowAGrantToReadIsADenial) {
  const std::string directory = ::testing::TempDir() + "membrane-read-only-" + std::to_string(getpid());
  std::filesystem::create_directory(directory);
  RunOptions run_options = options();
  run_options.policy.fs.push_back({.guest = "/data", .host = directory});
  begin(run_options);
  for (const char* const code : {"open('/data/new.txt', 'w')", "import os\nos.mkdir('/data/x')"}) {
    const Report report = exec(code);
    EXPECT_EQ(report.outcome, Outcome::kDenied) << code;
    EXPECT_EQ(report.errors.at(0).hint, "It would be allowed by --allow fs:write:" + directory + ":/data")
        << code;
  }
  std::filesystem::remove_all(directory);
}

// A turn that was given input, under a policy that closes egress afterwards.
RunOptions held_back(RunOptions run_options) {
  run_options.policy.trifecta = policy::Trifecta{
      .egress = policy::Egress::kClose, .input_is_private = true, .input_is_untrusted = true};
  policy::HttpGrant grant;
  grant.methods = {"GET"};
  grant.url = "https://example.org/*";
  run_options.policy.http.push_back(std::move(grant));
  return run_options;
}

TEST_F(Python, WhatTheTrifectaRuleHoldsBackIsDenied) {
  begin(held_back(options()));
  EXPECT_EQ(session_->exec({.code = "1", .input = "given"}).outcome, Outcome::kOk);
  for (const char* const code : {"from membrane import http\nhttp.get('https://example.org/')",
                                 "import requests\nrequests.get('https://example.org/')",
                                 "import urllib.request\nurllib.request.urlopen('https://example.org/')"}) {
    const Report report = exec(code);
    EXPECT_EQ(report.outcome, Outcome::kDenied) << code;
    EXPECT_NE(report.errors.at(0).message.find("The trifecta rule"), std::string::npos)
        << render_text(report, false);
    EXPECT_EQ(report.errors.at(0).hint, "") << "no grant helps";
  }
  EXPECT_EQ(exec("try:\n  http.get('https://example.org/')\nexcept PermissionError: pass\n1 / 0").outcome,
            Outcome::kRaised);
}

TEST_F(Python, AFileThatIsNotThereIsToldWithWhatIsGranted) {
  const Report nowhere = exec("open('/nowhere/x.csv')");
  EXPECT_EQ(nowhere.outcome, Outcome::kRaised) << "as the language knows it";
  EXPECT_EQ(nowhere.errors.at(0).hint,
            "No file or directory of the host is granted. It would be allowed by --allow "
            "fs:read:HOST_DIRECTORY:/nowhere");
  const std::string directory = ::testing::TempDir() + "membrane-hint-" + std::to_string(getpid());
  std::filesystem::create_directory(directory);
  RunOptions run_options = options();
  run_options.policy.fs.push_back({.guest = "/data", .host = directory});
  run_options.policy.fs.push_back({.guest = "/out", .host = directory, .mode = policy::FsMode::kWrite});
  begin(run_options);
  EXPECT_EQ(exec("open('/data/x.csv')").errors.at(0).hint,
            "Of the host, the program can access /data (to read), /out (to read and write).");
  EXPECT_EQ(exec("raise FileNotFoundError('gone')").errors.at(0).hint, "") << "no path";
  const Report own = exec("open('/tmp/x.csv')");
  EXPECT_EQ(own.outcome, Outcome::kRaised);
  EXPECT_EQ(own.errors.at(0).hint, "/tmp is the program's own: it has what programs have put there.");
  std::filesystem::remove_all(directory);
}

TEST_F(Python, ADirectoryThatIsNotThereIsToldWithWhatMakesIt) {
  begin(options());
  for (const auto& [code, directory] :
       {std::pair("open('/nope/x.csv', 'w')", "/nope"), std::pair("open('nope/a/x.csv', 'w')", "/nope/a")}) {
    const std::string hint = exec(code).errors.at(0).hint;
    EXPECT_TRUE(hint.starts_with("There is no directory " + std::string(directory) +
                                 " in the sandbox: os.makedirs makes it. No file or directory of the host"))
        << hint;
  }
  EXPECT_EQ(
      exec("open('/tmp/nope/x.csv', 'w')").errors.at(0).hint,
      "/tmp is the program's own: it has what programs have put there. There is no directory /tmp/nope in "
      "the sandbox: os.makedirs makes it.");
  EXPECT_EQ(exec("import os\nos.makedirs('/nope')\nopen('/nope/x.csv', 'w').close()").outcome, Outcome::kOk);
}

TEST_F(Python, AnErrorCostsLittle) {
  const uint64_t without = exec("x = 1").fuel_used;
  for (const char* const code : {"1 / 0", "nosuch", "x.nosuch", "import nosuch", "x = = 1",
                                 "def f(n): return f(n - 1) if n else {}['k']\nf(3)"})
    EXPECT_LT(exec(code).fuel_used, without + 5'500'000) << code;
  const Report deep = exec("def f(n): return f(n + 1)\nf(0)");
  EXPECT_EQ(deep.errors.at(0).code, "RecursionError");
  EXPECT_LT(deep.fuel_used, 150'000'000u) << "a thousand frames, of which three are shown";
}

TEST_F(Python, ThreadsWaitForEachOtherAndForServersTogether) {
  const Report report = exec(R"(
import queue, requests, threading, time
from concurrent.futures import ThreadPoolExecutor
q, got = queue.Queue(maxsize=1), []
def consume():
    for item in iter(q.get, None):
        got.append(item)
def produce():
    for i in range(5):
        time.sleep(0.1)
        q.put(i)
    q.put(None)
threads = [threading.Thread(target=f) for f in (consume, produce)]
for t in threads: t.start()
for t in threads: t.join()
def fetch(n):
    try:
        return requests.get(f"http://127.0.0.1:1/{n}").text
    except PermissionError:
        return n
with ThreadPoolExecutor() as pool:
    got += pool.map(fetch, "ab")
got)");
  EXPECT_EQ(report.result, "[0, 1, 2, 3, 4, 'a', 'b']");
  ASSERT_EQ(report.host_calls.size(), 2u) << "one for each request";
  EXPECT_EQ(report.host_calls[1].name, "http.get_many");
  EXPECT_EQ(report.host_calls[1].arguments, "GET, http://127.0.0.1:1/b");
  EXPECT_FALSE(report.host_calls[1].allowed);
}

TEST_F(Python, CallsOfFilesStandAmongTheOthersWhereTheyHappened) {
  const std::string directory = ::testing::TempDir() + "membrane-calls-" + std::to_string(getpid());
  std::filesystem::create_directory(directory);
  std::ofstream(directory + "/a") << "a";
  RunOptions run_options = options();
  run_options.policy.fs.push_back({.guest = "/data", .host = directory});
  run_options.policy.kv.emplace();
  begin(run_options);
  const Report report =
      exec("from membrane import kv\nkv.set('a', '1')\nopen('/data/a').read()\nkv.set('b', '2')");
  std::string names;
  for (const HostCallRecord& call : report.host_calls)
    if (call.name == "kv.set" || call.name == "fs.open") names += call.name + " ";
  EXPECT_EQ(names, "kv.set fs.open kv.set ");
  std::filesystem::remove_all(directory);
}

// The memory of a session after its turn.
struct MemoryUsed {
  uint64_t linear_bytes = 0;
  uint64_t private_bytes = 0;
};

TEST_F(Python, AGrantedFileOfAnySizeIsReadInTheSameMemory) {
  const std::string directory = ::testing::TempDir() + "membrane-csv-" + std::to_string(getpid());
  std::filesystem::create_directory(directory);
  RunOptions run_options = options();
  run_options.policy.limits.fuel = 100'000'000'000;
  run_options.policy.limits.bytes_in = 1u << 30;
  run_options.policy.fs.push_back({.guest = "/data", .host = directory, .max_file_bytes = 1u << 30});
  const auto read = [&](size_t bytes) {
    const std::string row = "4,\"" + std::string(1000, 'x') + "\"\n";
    const size_t rows = bytes / row.size();
    std::ofstream file(directory + "/log.csv");
    for (size_t i = 0; i < rows; ++i) file << row;
    file.close();
    begin(run_options);
    const Report report = exec(
        "import csv\nwith open('/data/log.csv', newline='') as file:\n"
        "  total = sum(int(row[0]) for row in csv.reader(file))\ntotal");
    EXPECT_EQ(report.result, std::to_string(4 * rows));
    return MemoryUsed{report.memory_peak_bytes, session_->private_bytes().value_or(0)};
  };
  const MemoryUsed small = read(4u << 20), large = read(64u << 20);
  EXPECT_EQ(large.linear_bytes, small.linear_bytes);
  // A reused region has some pages already.
  EXPECT_LT(large.private_bytes, small.private_bytes + (256u << 10));
  std::filesystem::remove_all(directory);
}

// Most of it is never written, so that the machine need not have as much memory.
TEST_F(Python, MemoryReachesTheEndOfItsAddressesAndBeyondIsAnError) {
  RunOptions run_options = options();
  run_options.policy.limits.memory_bytes = uint64_t{4} << 30;
  begin(run_options);
  const Report held = exec(
      "import numpy as np\nheld = [np.empty(1 << 30, dtype=np.uint8) for _ in range(3)]\n"
      "held[-1][-1] = 7\nsum(part.nbytes for part in held)");
  EXPECT_EQ(held.result, std::to_string(uint64_t{3} << 30));
  EXPECT_GT(held.memory_peak_bytes, uint64_t{3} << 30);
  EXPECT_EQ(exec("try: bytearray(1 << 30)\nexcept MemoryError: caught = 20\ncaught").result, "20");
  const Report beyond = exec("bytearray(1 << 30)");
  EXPECT_EQ(beyond.outcome, Outcome::kOutOfMemory);
  ASSERT_EQ(beyond.errors.size(), 1u);
  EXPECT_EQ(beyond.errors[0].code, "MemoryError");
  EXPECT_NE(beyond.errors[0].hint.find("limit is 4294967296 bytes"), std::string::npos)
      << beyond.errors[0].hint;
  EXPECT_EQ(exec("int(held[-1][-1]), caught").result, "(7, 20)");
}

TEST_F(Python, AWarmImageMayHaveImportedAlready) {
  auto package = *lang::find_package("python");
  package.name = "python-with-numpy";
  package.init = "__import__(\"numpy\")\n";
  const TemplateOptions where{
      .cache_directory = template_cache(), .tier = engine::Tier::kAuto, .on_progress = {}};
  auto opened = Template::open(package, where);
  ASSERT_TRUE(opened) << opened.error().message;
  const uint64_t cold = exec("import numpy\nint(numpy.arange(10).sum())").fuel_used;
  template_ = *opened;
  begin(options());
  EXPECT_EQ(exec("'numpy' in globals()").result, "False");
  const Report warm = exec("import numpy\nint(numpy.arange(10).sum())");
  EXPECT_EQ(warm.result, "45");
  EXPECT_LT(warm.fuel_used * 20, cold);
  auto fork = session_->fork(1);
  ASSERT_TRUE(fork);
  const char* const draw = "float(numpy.random.random())";
  EXPECT_NE((*fork)->exec({.code = draw}).result, exec(draw).result) << "seeded anew";
}

// matplotlib unpacks its fonts and writes a list of them when it is imported.
TEST_F(Python, AWarmImageKeepsTheFilesThatWereMade) {
  const auto package = *lang::find_package("python");
  const TemplateOptions where{
      .cache_directory = template_cache(), .tier = engine::Tier::kAuto, .on_progress = {}};
  for (int round = 0; round < 2; ++round) {  // built first, then found
    auto opened = Template::open(package, where, {"matplotlib.font_manager"});
    ASSERT_TRUE(opened) << opened.error().message;
    template_ = *opened;
    begin(options());
    const Report report = exec(
        "import matplotlib.font_manager as fonts, os\n"
        "path = fonts.findfont('DejaVu Sans')\n"
        "os.path.getsize(path) > 100_000, open(path, 'rb').read(4)");
    EXPECT_EQ(report.result, "(True, b'\\x00\\x01\\x00\\x00')") << render_text(report, false);
    EXPECT_TRUE(report.files.empty()) << "the session has made none";
    EXPECT_LT(report.fuel_used, 200'000'000u);
    const auto fork = session_->fork(1);
    ASSERT_TRUE(fork);
    EXPECT_EQ((*fork)->exec({.code = "os.remove(path); os.path.exists(path)"}).result, "False");
    EXPECT_EQ(exec("os.path.exists(path)").result, "True") << "each has its own view";
  }
  const auto refused = Template::open(package, where, {"no_such_module"});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("no_such_module cannot be imported: ModuleNotFoundError"),
            std::string::npos)
      << refused.error().message;
}

TEST_F(Python, APathThatLeadsOutIsDeniedWithWhatWouldHelp) {
  begin(options());
  const Report report = exec("open('../data.csv')");
  EXPECT_EQ(report.outcome, Outcome::kDenied) << render_text(report, false);
  EXPECT_NE(report.errors.at(0).hint.find("--allow fs:read:../data:/data"), std::string::npos);
}

// A figure is returned once: as the file that the program saved, or else as a display.
TEST_F(Python, AFigureThatIsSavedIsDisplayedOnlyWhenItIsShown) {
  RunOptions roomy = options();
  roomy.policy.limits.fuel = 100'000'000'000;
  roomy.policy.limits.memory_bytes = 512ull << 20;
  begin(roomy);
  const std::string draw = "import matplotlib.pyplot as plt; line = plt.plot([1, 2]); ";
  EXPECT_EQ(exec(draw + "plt.savefig('/a.png')").displays.size(), 0u);
  EXPECT_EQ(exec(draw + "plt.savefig('/b.png'); plt.show()").displays.size(), 1u);
  EXPECT_EQ(exec(draw + "import io; plt.savefig(io.BytesIO())").displays.size(), 1u);
  EXPECT_EQ(exec(draw).displays.size(), 1u);
  EXPECT_EQ(exec("plt.get_fignums()").result, "[]");
}

// The generator that a program seeded is part of its state, like any other object.
TEST_F(Python, AGeneratorThatTheProgramSeededIsAsBeforeTheTurnThatWasUndone) {
  const struct {
    const char *seed, *draw;
  } kGenerators[] = {{"import random; random.seed(7)", "random.random()"},
                     {"import random; random.seed(7); state = random.getstate(); random.seed(); "
                      "random.setstate(state)",
                      "random.gauss(0, 1)"},
                     {"import numpy; numpy.random.seed(7)", "float(numpy.random.random())"},
                     {"import random; own = random.Random(7)", "own.random()"}};
  for (const bool is_real : {false, true}) {
    RunOptions with = options();
    with.policy.random.real = is_real;
    for (const auto& [seed, draw] : kGenerators) {
      begin(with);
      exec(seed);
      std::vector<std::string> expected;
      for (int i = 0; i < 4; ++i) expected.push_back(exec(draw).result);
      begin(with);
      EXPECT_EQ(exec(seed).outcome, Outcome::kOk);
      EXPECT_EQ(exec(draw).result, expected[0]) << seed;
      EXPECT_EQ(exec(std::string(draw) + "\nimport os; os._exit(1)").outcome, Outcome::kRaised);
      EXPECT_EQ(exec(draw).result, expected[1]) << seed << ": as if the turn had not been";
      auto fork = session_->fork(1);
      ASSERT_TRUE(fork);
      EXPECT_EQ(exec(draw).result, expected[2]) << seed;
      EXPECT_EQ((*fork)->exec({.code = draw}).result, expected[2]) << seed << ": a fork has its state";
      EXPECT_EQ(exec(std::string(draw) + "; 1 / 0").outcome, Outcome::kRaised) << "which undoes nothing";
      EXPECT_NE(exec(draw).result, expected[3]) << seed;
    }
  }
}

TEST_F(Python, ATurnThatAsksForAnotherIsNotRunAgain) {
  exec(
      "from membrane import _door\n"
      "try: _door.ask({'session': 'next'})\n"
      "except OSError as error: said = str(error)");
  EXPECT_EQ(exec("while True: pass").outcome, Outcome::kOutOfFuel);
  EXPECT_EQ(exec("said").result, "'there is no turn to run (ENOENT)'");
}

TEST_F(Python, AGeneratorThatNobodySeededIsSeededAgainAfterAStepBack) {
  exec("import random; random.seed(7); random.seed()");
  const std::string draw = "random.random()";
  const Report undone = exec("print(random.random(), flush=True)\nimport os; os._exit(1)");
  ASSERT_EQ(undone.outcome, Outcome::kRaised);
  EXPECT_NE(exec(draw).result + "\n", undone.stdout_text);
  auto fork = session_->fork(1);
  ASSERT_TRUE(fork);
  EXPECT_NE((*fork)->exec({.code = draw}).result, exec(draw).result);
}

TEST_F(Python, TheScientificStackIsThere) {
  EXPECT_EQ(exec("import numpy as np\nint(np.arange(10).sum())").result, "45");
}

TEST_F(Python, ProgressBarsOfTqdmAreBarsAndNothingElse) {
  const Report report = exec(R"py(
import time
begun = time.monotonic()
from tqdm import tqdm
from tqdm.auto import trange
for i in tqdm(range(10)): pass
for i in trange(2, desc='outer'):
  for j in tqdm(range(2), desc='inner', leave=False): time.sleep(0.1)
from tqdm.contrib.concurrent import process_map, thread_map
(time.monotonic() - begun < 5, process_map(abs, [-1, -2]), thread_map(abs, [-3])))py");
  EXPECT_EQ(report.result, "(True, [1, 2], [3])") << report.stderr_text;
  EXPECT_NE(report.stderr_text.find("100%|"), std::string::npos);
  EXPECT_NE(report.stderr_text.find(" 10/10 ["), std::string::npos);
  for (const char* const word : {"Exception", "Traceback", "Warning"})
    EXPECT_EQ(report.stderr_text.find(word), std::string::npos) << report.stderr_text;
}

TEST_F(Python, FilesThatItMakesHaveTheRealTimeWhereItIsGranted) {
  RunOptions granted = options();
  granted.policy.time.real = true;
  host::Journal journal;
  granted.record = &journal;
  begin(granted);
  constexpr const char* kCode =
      "_ = open('/tmp/a', 'w').write('a')\nimport os\nos.stat('/tmp/a').st_mtime_ns";
  const std::string made = exec(kCode).result;
  EXPECT_GT(std::stoull(made), 1'577'836'800'000'000'000u);
  RunOptions replay = options();
  replay.policy.time.real = true;
  replay.replay = &journal;
  begin(replay);
  EXPECT_EQ(exec(kCode).result, made);
  begin(options());
  EXPECT_EQ(exec(kCode).result.substr(0, 9), "946684800") << "without the grant the clock is the virtual one";
}

// CPython frees a nested dictionary by nested calls.
constexpr const char* kDeep = "x = {}\nfor _ in range(100_000): x = {'k': x}\ndel x\n'freed'";

TEST_F(Python, AStructureThatIsNestedDeepIsFreed) {
  EXPECT_EQ(exec(kDeep).result, "'freed'");
  EXPECT_EQ(exec("x = []\nfor _ in range(100_000): x = [x]\ndel x\n'freed'").result, "'freed'");
}

TEST_F(Python, LimitsOfTheStackHoldWhereTheyAreSaid) {
  for (const auto& [depth, stack_bytes] :
       {std::pair<uint64_t, uint64_t>{1000, 64u << 20}, {1'000'000, 64u << 10}}) {
    RunOptions run_options = options();
    run_options.policy.limits.call_depth = depth;
    run_options.policy.limits.stack_bytes = stack_bytes;
    begin(run_options);
    exec("y = 20");
    EXPECT_EQ(exec(kDeep).outcome, Outcome::kTrapped);
    EXPECT_EQ(exec("y").result, "20");
  }
}

TEST_F(Python, ItsExecutableIsAFile) {
  EXPECT_EQ(exec("import sys, os, platform\nos.path.isfile(sys.executable), platform.libc_ver()").result,
            "(True, ('', ''))");
}

TEST_F(Python, ALockThatIsTakenTwiceIsAnErrorAndTheSessionGoesOn) {
  const Report failed = exec("import threading\nlock = threading.Lock()\nlock.acquire()\nlock.acquire()");
  EXPECT_EQ(failed.outcome, Outcome::kRaised);
  ASSERT_EQ(failed.errors.size(), 1u);
  EXPECT_EQ(failed.errors[0].code, "RuntimeError");
  EXPECT_NE(failed.errors[0].message.find("deadlock"), std::string::npos);
  EXPECT_EQ(exec("lock.locked(), lock.release(), lock.locked()").result, "(True, None, False)");
}

TEST_F(Python, NamesAreCompletedAndNothingStays) {
  exec(
      "import sys\n"
      "class Watched:\n"
      "    def __getattr__(self, name):\n"
      "        print('asked'); open('/made', 'w').close(); sys.seen = True\n"
      "        return 'text'\n"
      "    @property\n"
      "    def loop(self):\n"
      "        while True: pass\n"
      "    @property\n"
      "    def net(self):\n"
      "        from membrane import http\n"
      "        return http.get('http://127.0.0.1:1/page')\n"
      "watched = Watched()");
  EXPECT_EQ(session_->complete("x = watc"), std::vector<std::string>{"watched"});
  EXPECT_EQ(session_->complete("sys.getrecursionl"), std::vector<std::string>{"getrecursionlimit"});
  EXPECT_EQ(session_->complete("impo"), std::vector<std::string>{"import"});
  EXPECT_EQ(session_->complete("watched.any.uppe"), std::vector<std::string>{"upper"});
  for (const char* none : {"watched.loop.a", "watched.net.a", "nosuch.a", "f().a", "'a'.up", "", "1."})
    EXPECT_TRUE(session_->complete(none).empty()) << none;
  EXPECT_EQ(exec("hasattr(sys, 'seen')").result, "False");
  EXPECT_TRUE(session_->files().empty());
}

TEST_F(Python, InputIsReadWhenTheProgramAsksInBlocksThatAreWhole) {
  const auto run = [&](size_t piece_bytes, const std::string& code) {
    const std::string text(200'000, 'x');
    size_t at = 0, reads = 0;
    RunOptions with = options();
    with.read_input = [&](std::chrono::milliseconds) {
      ++reads;
      InputPiece piece{.bytes = text.substr(at, piece_bytes)};
      at += piece.bytes.size();
      piece.is_end = at == text.size();
      return piece;
    };
    auto session = Session::create(template_, with);
    EXPECT_TRUE(session);
    const Report report = (*session)->exec({.code = code});
    return std::tuple(report.result, report.fuel_used, reads);
  };
  const std::string all = "import sys\nlen(sys.stdin.read())";
  const auto [result, fuel, reads] = run(1'000, all);
  EXPECT_EQ(result, "200000");
  EXPECT_EQ(std::get<1>(run(77'777, all)), fuel) << "the program saw how its input came";
  EXPECT_EQ(std::get<2>(run(1'000, "2 + 2")), 0u) << "it was read though nobody asked";
  EXPECT_EQ(std::get<0>(run(1'000, "len(open(0).read())")), "200000");
  EXPECT_EQ(std::get<2>(run(1'000, "import sys\nsys.stdin.buffer.raw.read(1)")), 66u)
      << "more than a block was read";
}

TEST_F(Python, SqliteWorksOnFilesInside) {
  EXPECT_EQ(exec("import sqlite3\nc = sqlite3.connect('/tmp/t.db')\nc.execute('create table t(a)')\n"
                 "c.execute('insert into t values (41)')\nc.commit()\n"
                 "sqlite3.connect('/tmp/t.db').execute('select a + 1 from t').fetchone()[0]")
                .result,
            "42");
}

// -- JavaScript alone ---------------------------------------------------------------------------------------------

class JavaScript : public OneLanguage {
 protected:
  JavaScript() : OneLanguage("js") {}
  Report script(const std::string& name, const std::string& code) {
    return session_->exec({.code = code, .name = name, .is_script = true});
  }
  void put(const std::string& path, const std::string& text) { ASSERT_TRUE(session_->put_file(path, text)); }
};

TEST_F(JavaScript, WhatTheTrifectaRuleHoldsBackIsDenied) {
  begin(held_back(options()));
  EXPECT_EQ(session_->exec({.code = "1", .input = "given"}).outcome, Outcome::kOk);
  const Report report = exec("await fetch('https://example.org/')");
  EXPECT_EQ(report.outcome, Outcome::kDenied) << render_text(report, false);
}

TEST_F(JavaScript, WhatFillsTheMemoryWithObjectsIsOutOfMemory) {
  RunOptions small = options();
  small.policy.limits.memory_bytes = 16u << 20;
  begin(small);
  const Report report = exec("const rows = []; for (;;) rows.push({ a: 1, b: [1, 2] })");
  EXPECT_EQ(report.outcome, Outcome::kOutOfMemory) << render_text(report, false);
}

TEST_F(JavaScript, FunctionsCallThemselvesAsDeepAsProgramsDo) {
  begin(options());
  EXPECT_EQ(exec("const depth = (n) => n === 0 ? 0 : 1 + depth(n - 1); depth(3000)").result, "3000");
  EXPECT_NE(render_text(exec("depth(1e9)"), false).find("RangeError"), std::string::npos);
  EXPECT_EQ(exec("depth(3000)").result, "3000");
}

TEST_F(JavaScript, AScriptThatImportsIsAModuleAndFilesAreFoundBesideIt) {
  put("/app/lib/math.js",
      "import { base } from '../base.js';\nexport let count = 0;\nexport const add = (a, b) => (++count, a + "
      "b + base);");
  put("/app/base.js", "export const base = 100;");
  put("/app/lib/data.json", "{\"n\": 7}");
  put("/app/lib/later.js",
      "import { count } from './math.js';\nexport default await Promise.resolve(count);");
  const Report report = script("/app/main.js",
                               "import { add, count } from './lib/math.js';\nimport { kv } from 'membrane';\n"
                               "import data from './lib/data.json' with { type: 'json' };\n"
                               "console.log(this, add(1, 2), count, data.n, typeof kv.get);\n"
                               "console.log((await import('./lib/later.js')).default);");
  EXPECT_EQ(report.stdout_text, "undefined 103 1 7 function\n1\n") << render_text(report, false);
  EXPECT_EQ(script("/app/plain.js", "console.log(this === undefined)").stdout_text, "false\n");
}

TEST_F(JavaScript, CellsImportFilesAndAGrantIsAskedFor) {
  const std::string directory = ::testing::TempDir() + "membrane-modules-" + std::to_string(getpid());
  std::filesystem::create_directory(directory);
  std::ofstream(directory + "/x.js") << "export const x = 20; export default 22;\n";
  RunOptions run_options = options();
  run_options.policy.fs.push_back({.guest = "/data", .host = directory});
  begin(run_options);
  EXPECT_EQ(exec("import y, { x } from './data/x.js'\nx + y").result, "42");
  EXPECT_EQ(exec("const { x: z } = await import('/data/x.js'); z").result, "20");
  const Report denied = exec("import '/elsewhere/x.js'");
  EXPECT_EQ(denied.outcome, Outcome::kDenied);
  ASSERT_FALSE(denied.errors.empty());
  EXPECT_NE(denied.errors[0].hint.find("--allow fs:read:HOST_DIRECTORY:/elsewhere"), std::string::npos)
      << denied.errors[0].hint;
  EXPECT_NE(exec("import './data/none.js'").errors.at(0).message.find("there is no /data/none.js"),
            std::string::npos);
  const Report missing = exec("import 'lodash'");
  EXPECT_NE(missing.errors.at(0).message.find("--with lodash"), std::string::npos);
  EXPECT_NE(missing.errors.at(0).message.find("--allow fs:read:./node_modules:/node_modules"),
            std::string::npos);
  std::filesystem::remove_all(directory);
}

TEST_F(JavaScript, AModulesErrorHasItsPlaceAndItsLine) {
  put("/boom.js", "export function boom() {\n  throw new RangeError('here');\n}\n");
  put("/wrong.js", "let x = ;");
  const Report thrown = script("main.js", "import { boom } from './boom.js';\nboom();");
  ASSERT_EQ(thrown.errors.size(), 1u);
  EXPECT_NE(thrown.errors[0].traceback.find("/boom.js:2\n  throw new RangeError"), std::string::npos)
      << thrown.errors[0].traceback;
  EXPECT_NE(thrown.errors[0].traceback.find("main.js:2"), std::string::npos);
  EXPECT_EQ(script("main.js", "import './wrong.js'").errors.at(0).code, "SyntaxError");
  EXPECT_EQ(script("main.js", "import { nothing } from './boom.js'").errors.at(0).code, "SyntaxError");
}

TEST_F(JavaScript, TypesAreTakenAwayFromModules) {
  put("/typed.ts", "export function square(x: number): number { return x * x }");
  const Report report = script(
      "main.ts", "import { square } from './typed.ts';\nconst n: number = square(4);\nconsole.log(n);");
  if (!report.errors.empty() && report.errors[0].message.find("TypeScript is not there") != std::string::npos)
    GTEST_SKIP() << report.errors[0].message;
  EXPECT_EQ(report.stdout_text, "16\n") << render_text(report, false);
}

TEST_F(JavaScript, AScriptInThisContextIsGlobalAndItsLimitsHold) {
  exec("import { runInThisContext } from 'node:vm'");
  EXPECT_EQ(exec("runInThisContext('const fixed = 5; this === globalThis')").result, "true");
  EXPECT_EQ(exec("fixed").result, "5");
  EXPECT_EQ(exec("runInThisContext('fixed = 6')").errors.at(0).code, "TypeError");
  EXPECT_EQ(exec("var again = () => runInThisContext('again()'); again()").errors.at(0).code, "RangeError");
  EXPECT_EQ(exec("runInThisContext('for (;;);')").outcome, Outcome::kOutOfFuel);
  EXPECT_EQ(exec("runInThisContext('process.exit(3)')").exit_code, 3);
  EXPECT_EQ(exec("fixed").result, "5");
}

// A package with every feature that resolution considers.
void put_package(const std::function<void(const std::string&, const std::string&)>& put) {
  put("/node_modules/pkg/package.json",
      R"({"name":"pkg","exports":{".":{"import":"./esm.mjs","require":"./cjs.js"},"./deep/*":"./lib/*.js","./no":null},)"
      R"("imports":{"#own":"./lib/own.js"}})");
  put("/node_modules/pkg/esm.mjs", "export const kind = 'import'; export default 1;");
  put("/node_modules/pkg/cjs.js", "exports.kind = 'require'; exports.own = require('#own');");
  put("/node_modules/pkg/lib/own.js", "module.exports = 'own';");
  put("/node_modules/old/package.json", R"({"main":"lib"})");
  put("/node_modules/old/lib/index.js",
      "module.exports = function old() { return __dirname + ' ' + __filename; };");
  put("/node_modules/@scope/esm/package.json", R"({"type":"module","main":"./index.js"})");
  put("/node_modules/@scope/esm/index.js", "export const word = 'esm'; export default 2;");
}

TEST_F(JavaScript, PackagesAreFoundAsNodeFindsThem) {
  put_package([this](const std::string& path, const std::string& text) { put(path, text); });
  put("/app/data.json", R"({"n": 7})");
  put("/app/a.js", "exports.early = 1; const b = require('./b'); exports.late = b.seen;");
  put("/app/b.js", "exports.seen = require('./a').early;");
  const Report report =
      script("/app/main.js",
             "const { kind, own } = require('pkg'), old = require('old');\n"
             "console.log(kind, own, old(), require('pkg/deep/own'), require('@scope/esm').word);\n"
             "console.log(require('./data').n, require('./a').late, require.main === module, __filename,\n"
             "            require.resolve('old'), Object.keys(require.cache).length);\n"
             "for (const name of ['pkg/no', 'pkg/x', './none', 'absent/y'])\n"
             "  try { require(name) } catch (e) { console.log(e.code) }\n"
             "import('pkg').then((m) => console.log(m.kind, m.default));");
  EXPECT_EQ(
      report.stdout_text,
      "require own /node_modules/old/lib /node_modules/old/lib/index.js own esm\n"
      "7 1 true /app/main.js /node_modules/old/lib/index.js 8\n"
      "ERR_PACKAGE_PATH_NOT_EXPORTED\nERR_PACKAGE_PATH_NOT_EXPORTED\nMODULE_NOT_FOUND\nMODULE_NOT_FOUND\n"
      "import 1\n")
      << render_text(report, false);
  const Report module = script(
      "/app/main.mjs",
      "import old from 'old'; import { kind } from 'pkg'; import { own } from '../node_modules/pkg/cjs.js';\n"
      "console.log(old.name, kind, own, import.meta.url, import.meta.dirname);");
  EXPECT_EQ(module.stdout_text, "old import own file:///app/main.mjs /app\n") << render_text(module, false);
}

TEST_F(JavaScript, FilesAreReadAndWrittenByGrants) {
  const std::string directory = ::testing::TempDir() + "membrane-js-files-" + std::to_string(getpid());
  std::filesystem::create_directory(directory);
  std::ofstream(directory + "/in.txt") << "given";
  RunOptions run_options = options();
  run_options.policy.fs.push_back({.guest = "/in", .host = directory});
  run_options.policy.fs.push_back({.guest = "/out", .host = directory, .mode = policy::FsMode::kWrite});
  begin(run_options);
  const Report made = exec(
      "const fs = require('fs');\n"
      "fs.writeFileSync('/out/made.txt', fs.readFileSync('/in/in.txt', 'utf8').toUpperCase());\n"
      "fs.writeFileSync('/own/x', 'y')");
  EXPECT_EQ(made.outcome, Outcome::kRaised) << "no directory /own, and no grant of one";
  EXPECT_NE(made.errors.at(0).message.find("ENOENT: no such file or directory, open '/own/x'"),
            std::string::npos);
  std::ostringstream written;
  written << std::ifstream(directory + "/made.txt").rdbuf();
  EXPECT_EQ(written.str(), "GIVEN");
  EXPECT_FALSE(made.host_calls.empty());
  const Report refused = exec("fs.writeFileSync('/in/in.txt', 'x')");
  EXPECT_EQ(refused.outcome, Outcome::kDenied);
  EXPECT_NE(refused.errors.at(0).message.find("EROFS: read-only file system"), std::string::npos)
      << refused.errors.at(0).message;
  std::filesystem::remove_all(directory);
}

TEST_F(JavaScript, FilesOfATurnThatWasUndoneAreGone) {
  exec("const fs = require('fs'); fs.writeFileSync('/kept', '1'); const fd = fs.openSync('/kept', 'a')");
  EXPECT_EQ(exec("fs.writeFileSync('/lost', '1'); fs.writeSync(fd, 'lost'); for (;;);").outcome,
            Outcome::kOutOfFuel);
  EXPECT_EQ(exec("fs.writeSync(fd, '2'); [fs.existsSync('/lost'), fs.readFileSync('/kept', 'utf8')]").result,
            "[ false, '12' ]");
}

TEST_F(JavaScript, TheDeviceOfTheDoorCannotBeOpenedThroughTheDoor) {
  const Report report = exec(
      "const fs = require('fs');\n"
      "fs.symlinkSync('/dev/membrane', '/door');\n"
      "['/dev/membrane', '/door', '/dev/../dev/membrane'].map((path) => {\n"
      "  try { return fs.writeFileSync(path, '{}') } catch (e) { return e.code } })");
  EXPECT_EQ(report.result, "[ 'ENXIO', 'ENXIO', 'ENXIO' ]") << render_text(report, false);
}

TEST_F(JavaScript, AFileThatTheMemoryCannotHoldIsRefused) {
  const Report report = exec(
      "const fs = require('fs'); const fd = fs.openSync('/big', 'w+');\n"
      "try { fs.ftruncateSync(fd, 2 ** 40) } catch (e) { console.log(e.code) }\n"
      "fs.ftruncateSync(fd, 1 << 22); fs.readFileSync('/big').length");
  EXPECT_EQ(report.result, "4194304") << render_text(report, false);
  EXPECT_NE(report.stdout_text, "");
}

TEST_F(JavaScript, FilesThatTakeAllTheRoomLeaveSomeForTheResult) {
  const Report report = exec(
      "const fs = require('fs'); let code, size = 0; fs.writeFileSync('/full', '');\n"
      "for (const step of [1 << 20, 1 << 15, 1 << 10, 1 << 5])\n"
      "  try { for (;; size += step) fs.truncateSync('/full', size + step) } catch (e) { code = e.code }\n"
      "code");
  EXPECT_EQ(report.outcome, Outcome::kOk) << render_text(report, false);
  EXPECT_EQ(report.result, "'ENOSPC'");
}

TEST_F(JavaScript, AnErrorHasItsLineAndColumnWhateverIsAroundTheProgram) {
  const Report first = script("a.js", "null.x");
  EXPECT_NE(first.errors.at(0).traceback.find("(a.js:1:1)"), std::string::npos)
      << first.errors.at(0).traceback;
  put("/lib.js", "module.exports = () => { throw new Error('here') };");
  const Report deep = script("a.js", "\n\nrequire('./lib')();");
  EXPECT_NE(deep.errors.at(0).traceback.find("/lib.js:1:36"), std::string::npos)
      << deep.errors.at(0).traceback;
  EXPECT_NE(deep.errors[0].traceback.find("a.js:3"), std::string::npos);
}

TEST_F(JavaScript, ATextIsCheckedWithoutBeingRun) {
  const auto check = [&](const std::string& name, const std::string& code) {
    return session_->exec({.code = code, .name = name, .only_checks = true});
  };
  EXPECT_EQ(check("a.js", "console.log('ran'); const x = await 5; return x").stdout_text, "");
  EXPECT_EQ(check("a.mjs", "import x from './none.js'; console.log(x)").outcome, Outcome::kOk);
  const Report wrong = check("a.js", "let a = 1;\nlet b = ;");
  EXPECT_EQ(wrong.outcome, Outcome::kRaised);
  EXPECT_EQ(wrong.errors.at(0).code, "SyntaxError");
  EXPECT_EQ(wrong.errors[0].place.line, 2u);
  EXPECT_GT(wrong.errors[0].place.column, 0u);
  EXPECT_EQ(check("a.mjs", "import x from\n5").errors.at(0).place.line, 2u);
  EXPECT_EQ(exec("1 + 1").result, "2");
}

TEST_F(JavaScript, NamesAreCompletedAndNothingStays) {
  exec(
      "const data = { alpha: 1, get beta() { console.log('asked'); globalThis.seen = true; return { gamma: 2 "
      "}; } }");
  EXPECT_EQ(session_->complete("1 + dat"), std::vector<std::string>{"data"});
  EXPECT_EQ(session_->complete("data.al"), std::vector<std::string>{"alpha"});
  EXPECT_EQ(session_->complete("data.beta.g"), std::vector<std::string>{"gamma"});
  EXPECT_EQ(session_->complete("[].fin"), std::vector<std::string>{}) << "what is no name is not evaluated";
  EXPECT_TRUE(session_->complete("nosuch.a").empty());
  EXPECT_EQ(exec("typeof seen").result, "'undefined'");
}

// The program can change the code that answers; a terminal shows the result.
TEST_F(JavaScript, CompletionsAreNamesThatBeginAsTheCodeDoes) {
  exec("Array.prototype.sort = () => ['z\\x1b[2J', 'other', 'z1\\nz2', 'z(1)', 'zeta']");
  for (const std::string& name : session_->complete("z"))
    EXPECT_TRUE(name == "zeta" || name == "z1" || name == "z2") << name;
}

// The search for the place takes at most half a second, however much fuel is left.
TEST_F(JavaScript, WhatIsOutOfTimeEnds) {
  RunOptions hurried = options();
  hurried.policy.limits.memory_bytes = 512u << 20;
  hurried.policy.limits.fuel = 1'000'000'000'000'000;
  hurried.policy.limits.wall_ms = 200;
  begin(hurried);
  const Report report = exec("const a = new Uint8Array(1 << 27); for (;;) { a.fill(1) }");
  EXPECT_EQ(report.outcome, Outcome::kTimedOut);
  EXPECT_LT(report.fuel_used, 100'000'000'000u);
}

TEST_F(JavaScript, WhoBreaksWhatAnswersEndsTheTurnAlone) {
  exec("var x = 20");
  const Report broken =
      exec("Object.defineProperty(Array.prototype, '0', { value: 100, writable: false }); 5");
  EXPECT_EQ(broken.outcome, Outcome::kRaised);
  EXPECT_LT(broken.fuel_used, 100'000'000u);
  EXPECT_EQ(exec("x").result, "20");
}

}  // namespace
}  // namespace membrane::sandbox
