// Any WASI command that reads code from its standard input can be a language: here a small calculator.

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <random>

#include "sandbox/session/kept_session_testing.h"
#include "sandbox/session/session_state.h"
#include "wasm/binary.h"
#include "wasm/text/parser.h"

namespace membrane::sandbox {
namespace {

namespace fs = std::filesystem;

// Each line is a sum of numbers; it prints the sum, and the total of all lines, which is a local, and so in the
// frames of the waiting run. The number of lines is in memory. Letters: l loops forever, x exits with the number
// before it, t traps, r prints a random byte, m allocates pages of memory, n prints the number of lines.
constexpr std::string_view kCalculator = R"((module
  (import "wasi_snapshot_preview1" "fd_read" (func $fd_read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "random_get" (func $random_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $proc_exit (param i32)))
  (memory (export "memory") 1)
  (func $read (result i32)
    (i64.store (i32.const 0) (i64.const 0x1_0000_0010))
    (drop (call $fd_read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)))
    (select (i32.load8_u (i32.const 16)) (i32.const -1) (i32.load (i32.const 8))))
  (func $write (param $at i32) (param $bytes i32)
    (i32.store (i32.const 0) (local.get $at))
    (i32.store (i32.const 4) (local.get $bytes))
    (drop (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8))))
  (func $print (param $n i32) (param $end i32) (local $at i32)
    (local.set $at (i32.const 63))
    (i32.store8 (i32.const 63) (local.get $end))
    (loop $digit
      (local.set $at (i32.sub (local.get $at) (i32.const 1)))
      (i32.store8 (local.get $at) (i32.add (i32.const 48) (i32.rem_u (local.get $n) (i32.const 10))))
      (br_if $digit (local.tee $n (i32.div_u (local.get $n) (i32.const 10)))))
    (call $write (local.get $at) (i32.sub (i32.const 64) (local.get $at))))
  (func $letter (param $c i32) (param $n i32)
    (if (i32.eq (local.get $c) (i32.const 0x6c)) (then (loop $for_ever (br $for_ever))))
    (if (i32.eq (local.get $c) (i32.const 0x78)) (then (call $proc_exit (local.get $n))))
    (if (i32.eq (local.get $c) (i32.const 0x74)) (then (unreachable)))
    (if (i32.eq (local.get $c) (i32.const 0x6d)) (then (drop (memory.grow (local.get $n)))))
    (if (i32.eq (local.get $c) (i32.const 0x6e)) (then (call $print (i32.load (i32.const 100)) (i32.const 32))))
    (if (i32.eq (local.get $c) (i32.const 0x72))
      (then (drop (call $random_get (i32.const 80) (i32.const 1)))
            (call $print (i32.load8_u (i32.const 80)) (i32.const 32)))))
  (func (export "_start") (local $c i32) (local $number i32) (local $sum i32) (local $total i32)
    (loop $next
      (local.set $c (call $read))
      (if (i32.eq (local.get $c) (i32.const -1)) (then (return)))
      (if (i32.lt_u (i32.sub (local.get $c) (i32.const 48)) (i32.const 10))
        (then (local.set $number (i32.add (i32.mul (local.get $number) (i32.const 10))
                                          (i32.sub (local.get $c) (i32.const 48))))
              (br $next)))
      (call $letter (local.get $c) (local.get $number))
      (local.set $sum (i32.add (local.get $sum) (local.get $number)))
      (local.set $number (i32.const 0))
      (br_if $next (i32.ne (local.get $c) (i32.const 10)))
      (i32.store (i32.const 100) (i32.add (i32.load (i32.const 100)) (i32.const 1)))
      (local.set $total (i32.add (local.get $total) (local.get $sum)))
      (call $print (local.get $sum) (i32.const 32))
      (call $print (local.get $total) (i32.const 10))
      (local.set $sum (i32.const 0))
      (br $next)))))";

// Prints the door's answer for each line that it reads, and answers that the turn's value is 42.
constexpr std::string_view kAsker = R"((module
  (import "wasi_snapshot_preview1" "fd_read" (func $fd_read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_open"
    (func $path_open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 100) "dev/membrane")
  (data (i32.const 200) "{\22session\22:\22next\22}")
  (data (i32.const 300) "{\22session\22:\22result\22,\22outcome\22:\22ok\22,\22value\22:{\22text/plain\22:\2242\22}}")
  (func $read (param $fd i32) (param $bytes i32) (result i32)
    (i32.store (i32.const 0) (i32.const 1000))
    (i32.store (i32.const 4) (local.get $bytes))
    (drop (call $fd_read (local.get $fd) (i32.const 0) (i32.const 1) (i32.const 8)))
    (i32.load (i32.const 8)))
  (func $write (param $fd i32) (param $at i32) (param $bytes i32)
    (i32.store (i32.const 0) (local.get $at))
    (i32.store (i32.const 4) (local.get $bytes))
    (drop (call $fd_write (local.get $fd) (i32.const 0) (i32.const 1) (i32.const 8))))
  (func (export "_start") (local $door i32)
    (drop (call $path_open (i32.const 3) (i32.const 0) (i32.const 100) (i32.const 12) (i32.const 0)
                           (i64.const 66) (i64.const 0) (i32.const 0) (i32.const 16)))
    (local.set $door (i32.load (i32.const 16)))
    (loop $turn
      (if (i32.eqz (call $read (i32.const 0) (i32.const 1))) (then (return)))
      (call $write (local.get $door) (i32.const 200) (i32.const 18))
      (call $write (i32.const 1) (i32.const 1000) (call $read (local.get $door) (i32.const 5000)))
      (call $write (local.get $door) (i32.const 300) (i32.const 63))
      (br $turn)))))";

// Reads its input to the end, four bytes at once. It prints, one digit each: the number of bytes, its number of
// arguments, the number of reads, and the number of bytes in a file, to which it then appends one. It exits with the
// number of bytes when the input begins with "x", loops when with "l", traps when with "t". START is what it does
// before it reads.
constexpr std::string_view kCounter = R"((module
  (import "wasi_snapshot_preview1" "fd_read" (func $fd_read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $proc_exit (param i32)))
  (import "wasi_snapshot_preview1" "args_sizes_get" (func $args_sizes_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "random_get" (func $random_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_open"
    (func $path_open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 100) "starts")
  (global $reads (mut i32) (i32.const 0))
  (func $read (param $fd i32) (param $at i32) (param $bytes i32) (result i32)
    (i32.store (i32.const 0) (local.get $at))
    (i32.store (i32.const 4) (local.get $bytes))
    (drop (call $fd_read (local.get $fd) (i32.const 0) (i32.const 1) (i32.const 8)))
    (i32.load (i32.const 8)))
  (func $write (param $fd i32) (param $at i32) (param $bytes i32)
    (i32.store (i32.const 0) (local.get $at))
    (i32.store (i32.const 4) (local.get $bytes))
    (drop (call $fd_write (local.get $fd) (i32.const 0) (i32.const 1) (i32.const 8))))
  (func $say (param $n i32)
    (i32.store8 (i32.const 50) (i32.add (i32.const 48) (local.get $n)))
    (call $write (i32.const 1) (i32.const 50) (i32.const 1)))
  (func (export "_start") (local $n i32) (local $got i32)
    START
    (drop (call $args_sizes_get (i32.const 20) (i32.const 24)))
    (loop $more
      (global.set $reads (i32.add (global.get $reads) (i32.const 1)))
      (local.set $got (call $read (i32.const 0) (i32.add (i32.const 1000) (local.get $n)) (i32.const 4)))
      (local.set $n (i32.add (local.get $n) (local.get $got)))
      (br_if $more (local.get $got)))
    (call $say (local.get $n))
    (call $say (i32.load (i32.const 20)))
    (call $say (global.get $reads))
    (drop (call $path_open (i32.const 3) (i32.const 0) (i32.const 100) (i32.const 6) (i32.const 1)
                           (i64.const 66) (i64.const 0) (i32.const 1) (i32.const 16)))
    (call $say (call $read (i32.load (i32.const 16)) (i32.const 500) (i32.const 100)))
    (call $write (i32.load (i32.const 16)) (i32.const 1000) (i32.const 1))
    (if (i32.eq (i32.load8_u (i32.const 1000)) (i32.const 0x78)) (then (call $proc_exit (local.get $n))))
    (if (i32.eq (i32.load8_u (i32.const 1000)) (i32.const 0x74)) (then (unreachable)))
    (if (i32.eq (i32.load8_u (i32.const 1000)) (i32.const 0x6c)) (then (loop $for_ever (br $for_ever)))))))";

class StdinLanguage : public ::testing::TestWithParam<engine::Tier> {
 protected:
  void SetUp() override {
    directory_ = fs::path(::testing::TempDir()) / ("stdin-language-" + std::to_string(getpid()) + "-" +
                                                   std::string(engine::name_of(GetParam())));
    fs::create_directories(directory_);
  }
  void TearDown() override { fs::remove_all(directory_); }

  static RunOptions options_of(const policy::Policy& policy) {
    RunOptions options;
    options.policy = policy;
    options.tier = GetParam();
    return options;
  }

  lang::Package package(std::string_view text) const {
    auto parsed = wasm::parse_text(text);
    EXPECT_TRUE(parsed) << (parsed ? "" : render(parsed.error().front(), text, "test.wat"));
    lang::Package made;
    made.name = "test";
    made.driver = lang::Driver::kStdin;
    made.end = "\n";
    made.module.path = directory_ / "module.wasm";
    const std::vector<uint8_t> binary = wasm::encode(*parsed);
    std::ofstream(made.module.path, std::ios::binary)
        .write(reinterpret_cast<const char*>(binary.data()), static_cast<std::streamsize>(binary.size()));
    return made;
  }
  Result<std::shared_ptr<const Template>> open(lang::Package package) const {
    return Template::open(std::move(package),
                          {.cache_directory = directory_ / "cache", .tier = GetParam(), .on_progress = {}});
  }
  std::unique_ptr<Session> session(lang::Package package, const policy::Policy& policy = {},
                                   std::shared_ptr<policy::Budget> budget = nullptr) const {
    auto opened = open(std::move(package));
    EXPECT_TRUE(opened) << opened.error().message;
    RunOptions options = options_of(policy);
    options.policy.limits.wall_ms = 600'000;
    options.budget = std::move(budget);
    auto made = Session::create(*opened, std::move(options));
    EXPECT_TRUE(made) << made.error().message;
    return std::move(*made);
  }
  static std::string output_of(Session& session, const std::string& code) {
    const Report report = session.exec({.code = code});
    EXPECT_EQ(report.outcome, Outcome::kOk) << code;
    EXPECT_TRUE(report.errors.empty()) << report.errors.front().message;
    return report.stdout_text;
  }

  fs::path directory_;
};

TEST_P(StdinLanguage, ATurnEndsWhenItReadsAgainAndStateStays) {
  const auto calculator = session(package(kCalculator));
  EXPECT_EQ(output_of(*calculator, "20+22"), "42 42\n");
  EXPECT_EQ(output_of(*calculator, "1"), "1 43\n");
  EXPECT_EQ(output_of(*calculator, "2\n3+4"), "2 45\n7 52\n") << "all that it was given is one turn";
  EXPECT_EQ(output_of(*calculator, ""), "0 52\n");
  EXPECT_EQ(output_of(*calculator, "n"), "5 0 52\n");
}

// Its files are in its warm image.
TEST_P(StdinLanguage, AWaitingTurnTakesNoMoreFiles) {
  const auto opened = open(package(kCalculator));
  ASSERT_TRUE(opened);
  const auto over = Template::over(*opened, {{.path = "/lib/a"}}, "/lib");
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().code, ErrorCode::kUnsupported);
}

TEST_P(StdinLanguage, TheWarmImageIsFoundAgainAndHasWhatInitDid) {
  lang::Package with_init = package(kCalculator);
  with_init.init = "100";
  for (int round = 0; round < 2; ++round) {
    int steps = 0;
    const auto opened = Template::open(with_init, {.cache_directory = directory_ / "cache",
                                                   .tier = GetParam(),
                                                   .on_progress = [&](std::string_view) { ++steps; }});
    ASSERT_TRUE(opened) << opened.error().message;
    EXPECT_EQ(steps > 0, round == 0);
    for (int i = 0; i < 2; ++i) {
      auto made = Session::create(*opened, options_of({}));
      ASSERT_TRUE(made);
      EXPECT_EQ(output_of(**made, "n1"), "1 1 101\n") << "what init printed is nobody's";
    }
  }
}

TEST_P(StdinLanguage, ForksContinueFromTheirParentIndependently) {
  const auto calculator = session(package(kCalculator));
  output_of(*calculator, "10");
  const auto fork = calculator->fork(1), other = calculator->fork(2);
  ASSERT_TRUE(fork && other);
  EXPECT_EQ(output_of(*calculator, "1"), "1 11\n");
  EXPECT_EQ(output_of(**fork, "2"), "2 12\n");
  EXPECT_EQ(output_of(**fork, "n"), "2 0 12\n");
  EXPECT_EQ(output_of(**other, "3"), "3 13\n");
  const auto of_fork = (*fork)->fork(1);
  ASSERT_TRUE(of_fork);
  EXPECT_EQ(output_of(**of_fork, "5"), "5 17\n");
}

TEST_P(StdinLanguage, ATurnThatEndsBadlyGoesBack) {
  policy::Policy policy;
  policy.limits.fuel = 100'000;
  policy.limits.memory_bytes = 1 << 20;
  const auto calculator = session(package(kCalculator), policy);
  EXPECT_EQ(calculator->exec({.code = "5\nl"}).outcome, Outcome::kOutOfFuel) << "the first turn of all";
  EXPECT_EQ(output_of(*calculator, "n7"), "0 7 7\n");
  for (const char* const bad : {"5\nl", "5\nt", "9x", "5\n1000mt"}) {
    const Report report = calculator->exec({.code = bad});
    EXPECT_NE(report.outcome, Outcome::kOk) << bad;
    ASSERT_EQ(report.errors.size(), 1u);
    EXPECT_NE(report.errors[0].hint.find("is as it was before"), std::string::npos) << report.errors[0].hint;
    EXPECT_EQ(output_of(*calculator, "0"), "0 7\n") << "after " << bad;
  }
}

TEST_P(StdinLanguage, ATurnOutOfTimeGoesBack) {
  policy::Policy policy;
  policy.limits.fuel = 1ull << 60;
  const auto budget = std::make_shared<policy::Budget>(policy.limits);
  const auto calculator = session(package(kCalculator), policy, budget);
  // The time of the first turn is up before it starts; the next one has all of it.
  budget->set_deadline(std::chrono::steady_clock::now());
  EXPECT_EQ(calculator->exec({.code = "5\nl"}).outcome, Outcome::kTimedOut);
  budget->set_deadline(std::chrono::steady_clock::time_point::max());
  EXPECT_EQ(output_of(*calculator, "1"), "1 1\n");
}

TEST_P(StdinLanguage, AProgramThatExitsReportsItsCode) {
  const auto calculator = session(package(kCalculator));
  output_of(*calculator, "7");
  const Report failed = calculator->exec({.code = "3x"});
  EXPECT_EQ(failed.outcome, Outcome::kRaised);
  EXPECT_EQ(failed.exit_code, 3);
  const Report fine = calculator->exec({.code = "8\n0x"});
  EXPECT_EQ(fine.outcome, Outcome::kOk);
  EXPECT_EQ(fine.exit_code, 0);
  EXPECT_EQ(fine.stdout_text, "8 15\n");
  EXPECT_EQ(output_of(*calculator, "1"), "1 8\n") << "it is as before the turn that ended it";
}

TEST_P(StdinLanguage, FuelIsTheSameInAForkAndAfterAStepBack) {
  policy::Policy policy;
  policy.limits.fuel = 100'000;
  const auto calculator = session(package(kCalculator), policy);
  output_of(*calculator, "7");
  const auto fork = calculator->fork(1);
  ASSERT_TRUE(fork);
  const uint64_t used = (*fork)->exec({.code = "1+2+3"}).fuel_used;
  EXPECT_GT(used, 100u);
  EXPECT_EQ(calculator->exec({.code = "l"}).fuel_used, policy.limits.fuel);
  EXPECT_EQ(calculator->exec({.code = "1+2+3"}).fuel_used, used);
}

TEST_P(StdinLanguage, RandomNumbersFollowFromTheSeedAndTheFork) {
  const auto numbers = [&](uint64_t seed) {
    policy::Policy policy;
    policy.random.seed = seed;
    const auto calculator = session(package(kCalculator), policy);
    std::string all = output_of(*calculator, "rrrrrrrr");
    const auto fork = calculator->fork(1);
    EXPECT_TRUE(fork);
    return std::pair(all, output_of(**fork, "rrrrrrrr"));
  };
  const auto one = numbers(1), again = numbers(1), two = numbers(2);
  EXPECT_EQ(one, again);
  EXPECT_NE(one.first, two.first);
  EXPECT_NE(one.second, two.second);
}

TEST_P(StdinLanguage, CodeAloneReachesAProgramThatDoesNotAsk) {
  const auto calculator = session(package(kCalculator));
  const Report arguments = calculator->exec({.code = "1", .arguments = {"a"}});
  EXPECT_EQ(arguments.outcome, Outcome::kInvalid);
  EXPECT_FALSE(arguments.errors[0].hint.empty());
  EXPECT_EQ(calculator->exec({.code = "1", .input = "a"}).outcome, Outcome::kInvalid);
  const Report inputs = calculator->exec({.code = "1", .inputs = {{"n", "1"}}});
  EXPECT_EQ(inputs.outcome, Outcome::kInvalid);
  EXPECT_TRUE(inputs.errors[0].message.contains("input variables")) << inputs.errors[0].message;
  EXPECT_FALSE(inputs.errors[0].hint.empty());
  EXPECT_EQ(output_of(*calculator, "1"), "1 1\n");
}

TEST_P(StdinLanguage, ALengthPrecedesTheCode) {
  lang::Package framed = package(kCalculator);
  framed.frame = lang::Frame::kLength;
  const auto calculator = session(framed);
  EXPECT_EQ(output_of(*calculator, "20+22\n"), "6 6\n42 48\n");
}

TEST_P(StdinLanguage, ACallerOfTheDoorHasTheWholeTurn) {
  lang::Package asking = package(kAsker);
  asking.frame = lang::Frame::kDoor;
  const auto asker = session(asking);
  for (int round = 0; round < 2; ++round) {
    const Report report = asker->exec({.code = "x", .name = "a.txt", .arguments = {"one"}, .input = "in"});
    EXPECT_EQ(report.outcome, Outcome::kOk);
    EXPECT_EQ(report.result, "42");
    for (const char* const part : {"\"code\":\"x\"", "\"a.txt\"", "[\"one\"]", "\"input\":\"in\""})
      EXPECT_NE(report.stdout_text.find(part), std::string::npos) << report.stdout_text;
    EXPECT_EQ(report.stdout_text.find("entropy_hex") != std::string::npos, round == 0);
  }
}

TEST_P(StdinLanguage, ATurnThatNobodyHasAskedForIsKeptWithItsInputs) {
  lang::Package asking = package(kAsker);
  asking.frame = lang::Frame::kDoor;
  const auto of = open(asking).value();
  auto asker = Session::create(of, options_of({})).value();
  const Report paused =
      asker->exec({.code = "x", .inputs = {{"b", "[1]"}, {"a", "{\"d\":1,\"c\":2}"}}, .pause_at_fuel = 1});
  ASSERT_EQ(paused.outcome, Outcome::kFrozen);
  const std::vector<uint8_t> bytes = asker->keep().value();
  EXPECT_EQ(bytes[8], kSessionVersion) << "older ones would lose them";
  SessionState state = read_session(bytes).value();
  ASSERT_TRUE(state.pause && state.pause->turn);
  const auto restored = kept_and_restored(*asker, of, options_of({}));
  ASSERT_NE(restored, nullptr);
  const std::string words = R"("inputs":{"b":[1],"a":{"d":1,"c":2}}})";
  for (Session* const each : {asker.get(), restored.get()}) {
    const Report report = each->go_on();
    EXPECT_NE(report.stdout_text.find(words), std::string::npos) << report.stdout_text;
  }
  state.pause->turn->inputs[0].second = "1},{";
  EXPECT_FALSE(read_session(write_session(state)));
}

TEST_P(StdinLanguage, AProgramThatDoesNotWaitForCodeIsRefused) {
  for (const char* const text :
       {"(module (func (export \"_start\")))", "(module (func (export \"run\")))",
        "(module (memory (export \"memory\") 1) (func (export \"_start\") unreachable))"}) {
    const auto refused = open(package(text));
    ASSERT_FALSE(refused) << text;
    EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
  }
}

// -- programs that read their input to the end -------------------------------------------------------------------

constexpr const char* kMetNothing = "";
constexpr const char* kDrewEntropy = "(drop (call $random_get (i32.const 80) (i32.const 4)))";

lang::Package counting(lang::Package made) {
  made.frame = lang::Frame::kEof;
  made.end = "";
  return made;
}
std::string counter_that(std::string_view begins) {
  std::string text(kCounter);
  return text.replace(text.find("START"), 5, begins);
}

TEST_P(StdinLanguage, AProgramThatReadsToTheEndIsStartedForEachTurn) {
  for (const char* const begins : {kMetNothing, kDrewEntropy}) {
    const auto counter = session(counting(package(counter_that(begins))));
    EXPECT_EQ(output_of(*counter, "abcde"), "5130") << begins;
    EXPECT_EQ(output_of(*counter, ""), "0111") << "nothing but files stays";
    EXPECT_EQ(output_of(*counter, "a\n"), "2122") << "nothing is written after the code";
    ASSERT_EQ(counter->files().size(), 1u);
    EXPECT_EQ(counter->files().front().path, "/starts");
  }
}

TEST_P(StdinLanguage, ItBeginsWhereItFirstReadsWhenNothingBeforeCanBeOtherwise) {
  constexpr const char* kWorks = R"((local.set $got (i32.const 100000))
    (loop $work (br_if $work (local.tee $got (i32.sub (local.get $got) (i32.const 1))))))";
  const auto warm = session(counting(package(counter_that(kWorks))));
  const auto cold = session(counting(package(counter_that(std::string(kWorks) + kDrewEntropy))));
  const Report of_warm = warm->exec({.code = "abc"}), of_cold = cold->exec({.code = "abc"});
  EXPECT_EQ(of_warm.stdout_text, of_cold.stdout_text);
  EXPECT_LT(of_warm.fuel_used, 100'000u);
  EXPECT_GT(of_cold.fuel_used, 100'000u);
  const Report with_arguments = warm->exec({.code = "abc", .arguments = {"-l", "-c"}});
  EXPECT_EQ(with_arguments.stdout_text, "3321") << "they are there from the start";
  EXPECT_GT(with_arguments.fuel_used, 100'000u);
  EXPECT_EQ(output_of(*warm, "abc"), "3122") << "and of that turn alone";
}

TEST_P(StdinLanguage, ItsOutputAndExitCodeAreTheTurns) {
  constexpr const char* kSays = "(call $say (i32.const 7))";
  for (const char* const begins : {kMetNothing, kSays}) {
    const auto counter = session(counting(package(counter_that(begins))));
    const std::string first = begins == kSays ? "7" : "";
    const Report report = counter->exec({.code = "xyz"});
    EXPECT_EQ(report.outcome, Outcome::kOk) << (report.errors.empty() ? "" : report.errors[0].message);
    EXPECT_EQ(report.exit_code, 3);
    EXPECT_EQ(report.stdout_text, first + "3120");
    EXPECT_EQ(output_of(*counter, "abc"), first + "3121") << "what it wrote before it ended stays";
  }
  constexpr std::string_view kEnds = R"((module
    (import "wasi_snapshot_preview1" "proc_exit" (func $proc_exit (param i32)))
    (memory (export "memory") 1)
    (func (export "_start") (call $proc_exit (i32.const 9)))))";
  const auto ends = session(counting(package(kEnds)));
  for (int round = 0; round < 2; ++round) {
    const Report report = ends->exec({.code = "whatever"});
    EXPECT_EQ(report.outcome, Outcome::kOk);
    EXPECT_EQ(report.exit_code, 9);
  }
}

TEST_P(StdinLanguage, ItLeavesNothingWhenItEndsBadly) {
  policy::Policy policy;
  policy.limits.fuel = 300'000;
  const auto counter = session(counting(package(counter_that(kMetNothing))), policy);
  EXPECT_EQ(output_of(*counter, "a"), "1120");
  EXPECT_EQ(counter->exec({.code = "l"}).outcome, Outcome::kOutOfFuel);
  EXPECT_EQ(counter->exec({.code = "t"}).outcome, Outcome::kTrapped);
  EXPECT_EQ(output_of(*counter, "b"), "1121") << "as after the first turn";
  const Report refused = counter->exec({.code = "a", .input = "more"});
  EXPECT_EQ(refused.outcome, Outcome::kInvalid);
  EXPECT_EQ(output_of(*counter, "c"), "1122");
}

TEST_P(StdinLanguage, ItForksBetweenTurnsAndWhereItIsPaused) {
  const auto counter = session(counting(package(counter_that(kMetNothing))));
  output_of(*counter, "a");
  auto fork = counter->fork(1);
  ASSERT_TRUE(fork);
  EXPECT_EQ(output_of(**fork, "b"), "1121");
  EXPECT_EQ(output_of(**fork, "b"), "1122");
  EXPECT_EQ(output_of(*counter, "b"), "1121");
  const uint64_t whole = counter->fork(2).value()->exec({.code = "abcdefg"}).fuel_used;
  for (uint64_t part = 1; part < 6; ++part) {
    const Report begun = counter->exec({.code = "abcdefg", .pause_at_fuel = whole * part / 6});
    ASSERT_EQ(begun.outcome, Outcome::kFrozen);
    auto half = counter->fork(part);
    ASSERT_TRUE(half) << half.error().message;
    const Report there = (*half)->go_on(), here = counter->go_on();
    EXPECT_EQ(there.outcome, Outcome::kOk);
    EXPECT_EQ(there.stdout_text, here.stdout_text);
    EXPECT_EQ(begun.stdout_text + here.stdout_text, "713" + std::to_string(part + 1));
    EXPECT_EQ(here.fuel_used, whole);
    EXPECT_EQ(output_of(**half, ""), "011" + std::to_string(part + 2));
  }
}

TEST_P(StdinLanguage, ItsWarmImageIsFoundAgain) {
  for (const char* const begins : {kMetNothing, kDrewEntropy})
    for (int round = 0; round < 2; ++round) {
      int steps = 0;
      const auto opened = Template::open(counting(package(counter_that(begins))),
                                         {.cache_directory = directory_ / "cache",
                                          .tier = GetParam(),
                                          .on_progress = [&](std::string_view) { ++steps; }});
      ASSERT_TRUE(opened) << opened.error().message;
      EXPECT_EQ((*opened)->waiting() != nullptr, begins == kMetNothing);
      auto made = Session::create(*opened, options_of({}));
      ASSERT_TRUE(made);
      EXPECT_EQ(output_of(**made, "abc"), "3120");
    }
}

// -- as bytes -----------------------------------------------------------------------------------------------------

TEST_P(StdinLanguage, AKeptSessionContinuesLikeOneThatWasNotKept) {
  policy::Policy policy;
  policy.limits.fuel = 1'000'000;
  policy.limits.wall_ms = 600'000;
  struct Case {
    lang::Package package;
    std::vector<const char*> turns;
  };
  const Case cases[] = {
      {package(kCalculator),
       {"1+2", "r", "r", "n", "l", "7x", "t", "3m", "5", "20000m", "", "1\n2\n3", "r+r"}},
      {counting(package(counter_that(kMetNothing))), {"abc", "", "x", "t", "l", "abcdefgh"}},
      {counting(package(counter_that(kDrewEntropy))), {"abc", "", "x", "t", "l", "abcdefgh"}}};
  for (const Case& one : cases) {
    const auto of = open(one.package).value();
    for (uint32_t seed = 0; seed < 6; ++seed) {
      std::mt19937 random(seed);
      auto session = Session::create(of, options_of(policy)).value();
      auto kept = Session::create(of, options_of(policy)).value();
      for (int turn = 0; turn < 12; ++turn) {
        if (random() % 2 == 0) kept = kept_and_restored(*kept, of, options_of(policy));
        if (random() % 6 == 0) {
          session = session->fork(1).value();
          kept = kept->fork(1).value();
        }
        const std::string code = one.turns[random() % one.turns.size()];
        const uint64_t pause = random() % 4 == 0 ? random() % 1'000 : 1ull << 40;
        Report here = session->exec({.code = code, .pause_at_fuel = pause});
        Report there = kept->exec({.code = code, .pause_at_fuel = pause});
        ASSERT_EQ(comparable(here), comparable(there)) << code << ", seed " << seed << ", turn " << turn;
        while (here.outcome == Outcome::kFrozen) {
          kept = kept_and_restored(*kept, of, options_of(policy));
          const uint64_t next = here.fuel_used + 1 + random() % 500'000;
          here = session->go_on(next);
          there = kept->go_on(next);
          ASSERT_EQ(comparable(here), comparable(there)) << code << ", seed " << seed << ", turn " << turn;
        }
      }
    }
  }
}

TEST_P(StdinLanguage, OneThatWaitsIsNotRestoredAsOneThatDoesNot) {
  const auto reads = open(package(kCalculator)).value();
  auto session = Session::create(reads, options_of({})).value();
  output_of(*session, "1+2");
  const std::vector<uint8_t> bytes = session->keep().value();
  SessionState state = read_session(bytes).value();
  ASSERT_EQ(state.place.waits, KeptPlace::Waits::kInItsFrames);
  const auto code_of = [&](const SessionState& forged) {
    const auto restored = Session::restore(reads, write_session(forged), options_of({}));
    return restored ? ErrorCode::kInternal : restored.error().code;
  };
  SessionState nowhere = state;
  nowhere.place.waits = KeptPlace::Waits::kNowhere;
  nowhere.place.frames = {};
  EXPECT_EQ(code_of(nowhere), ErrorCode::kInvalidInput);
  nowhere.place.frames = state.place.frames;
  EXPECT_EQ(code_of(nowhere), ErrorCode::kInvalidInput);
  SessionState shorter = state;
  shorter.place.frames = state.place.frames.first(state.place.frames.size() - 4);
  EXPECT_EQ(code_of(shorter), ErrorCode::kInvalidInput);
  std::vector<uint8_t> elsewhere(state.place.frames.begin(), state.place.frames.end());
  constexpr size_t kFirstFunctionAt = 12 + 28;
  elsewhere[kFirstFunctionAt] ^= 1;
  state.place.frames = elsewhere;
  EXPECT_EQ(code_of(state), ErrorCode::kInvalidInput);
}

INSTANTIATE_TEST_SUITE_P(Tiers, StdinLanguage,
                         ::testing::Values(engine::Tier::kInterpreter, engine::Tier::kAuto),
                         [](const auto& tier) { return std::string(engine::name_of(tier.param)); });

}  // namespace
}  // namespace membrane::sandbox
