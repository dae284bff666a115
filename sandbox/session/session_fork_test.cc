// Forks of sessions, turns that are undone or paused, and the entropy of each: what docs/fork-correctness.md
// promises.
#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <sstream>
#include <vector>

#include "sandbox/session/session_testing.h"

namespace membrane::sandbox {
namespace {

// -- forks --------------------------------------------------------------------------------------------------------

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
  RunOptions with = session_options();
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
  RunOptions alone = session_options();
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
  RunOptions with = session_options();
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
  RunOptions with = session_options();
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
    RunOptions with = session_options();
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
  RunOptions with = session_options();
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

TEST_P(InALanguage, AForkOfARunningTurnContinuesFromThere) {
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

TEST_P(InALanguage, AForkOfARunningTurnGoesBackIndependently) {
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

}  // namespace
}  // namespace membrane::sandbox
