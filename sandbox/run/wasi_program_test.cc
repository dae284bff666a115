// Modules that import WASI run like any program.
#include <gtest/gtest.h>

#include "sandbox/run/sandbox.h"

namespace membrane::sandbox {
namespace {

// Copies stdin to stdout until its end.
constexpr const char* kCopy = R"((module
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "_start")
    (i32.store (i32.const 0) (i32.const 1024))
    (loop $again
      (i32.store (i32.const 4) (i32.const 512))
      (drop (call $read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)))
      (if (i32.load (i32.const 8)) (then
        (i32.store (i32.const 4) (i32.load (i32.const 8)))
        (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 12)))
        (drop (call $write (i32.const 2) (i32.const 0) (i32.const 1) (i32.const 12)))
        (br $again))))))
)";

std::string exits_with(const std::string& code) {
  return R"((module (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
    (func (export "_start") (call $exit (i32.const )" +
         code + "))))";
}

Report run_text(const std::string& text, RunOptions options = {}, const std::string& input = "") {
  return run({.source = text,
              .name = "p.wat",
              .format = lang::SourceFormat::kAuto,
              .entry = "",
              .arguments = {},
              .input = input,
              .environment = {}},
             options);
}

TEST(WasiProgram, ReadsItsInputToTheEnd) {
  const Report report = run_text(kCopy, {}, "one two");
  EXPECT_EQ(report.outcome, Outcome::kOk);
  EXPECT_EQ(report.stdout_text, "one two");
  EXPECT_EQ(report.stderr_text, "one two");
  EXPECT_EQ(report.exit_code, std::nullopt);
}

TEST(WasiProgram, AsksForInputPieceByPiece) {
  RunOptions options;
  std::vector<InputPiece> pieces = {{"a", false}, {"", false}, {"b", false}, {"", true}};
  size_t next = 0;
  options.read_input = [&](std::chrono::milliseconds) {
    return next < pieces.size() ? pieces[next++] : InputPiece{"not asked for", false};
  };
  std::string heard;
  options.on_stdout = [&](std::string_view text) { heard.append(text).append("|"); };
  const Report report = run_text(kCopy, options, "first ");
  EXPECT_EQ(report.stdout_text, "first ab");
  EXPECT_EQ(heard, "first |a|b|");
  EXPECT_EQ(next, pieces.size());
}

TEST(WasiProgram, ReportsOutputAsBytesOrAsText) {
  for (const bool bytes : {true, false}) {
    RunOptions options;
    options.hears_bytes = bytes;
    std::string out, error;
    options.on_stdout = [&](std::string_view text) { out += text; };
    options.on_stderr = [&](std::string_view text) { error += text; };
    const Report report = run_text(kCopy, options, "\xff\xe2\x82");
    EXPECT_EQ(out, bytes ? "\xff\xe2\x82" : report.stdout_text);
    EXPECT_EQ(error, out);
    EXPECT_EQ(report.stdout_text.substr(0, 3), "\xef\xbf\xbd");
  }
}

TEST(WasiProgram, OutputThatIsNotTextCountsByItsBytes) {
  RunOptions options;
  options.policy.limits.output_bytes = 200;
  const Report report = run_text(kCopy, options, std::string(100, '\xff'));
  EXPECT_EQ(report.outcome, Outcome::kOk);
  EXPECT_EQ(report.stdout_text.size(), 300u);
  EXPECT_EQ(report.stderr_text.size(), 300u);
  EXPECT_EQ(report.output_bytes_cut, 0u);
  EXPECT_EQ(run_text(kCopy, options, std::string(101, '\xff')).outcome, Outcome::kOutOfOutput);
}

TEST(WasiProgram, EndsWithItsExitCode) {
  for (const auto& [code, seen] : {std::pair{"0", 0}, {"3", 3}, {"-1", -1}, {"256", 256}}) {
    const Report report = run_text(exits_with(code));
    EXPECT_EQ(report.outcome, Outcome::kOk);
    EXPECT_EQ(report.exit_code, seen);
  }
}

// Looks for a file that is not granted, and then does `end` with the result.
std::string probes_and(const std::string& end) {
  return R"((module
    (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
    (import "wasi_snapshot_preview1" "path_open"
      (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
    (memory 1) (data (i32.const 64) "data/x")
    (func (export "_start")
      (call $open (i32.const 3) (i32.const 0) (i32.const 64) (i32.const 6) (i32.const 0)
                  (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 0))
      )" +
         end + "))";
}

TEST(WasiProgram, FailingAfterARefusalIsItsOwnFailureAndSaysWhatWasRefused) {
  for (const auto& [end, code] : {std::pair{"(call $exit)", 44}, {"drop (call $exit (i32.const 3))", 3}}) {
    const Report report = run_text(probes_and(end));
    EXPECT_EQ(report.outcome, Outcome::kOk);
    EXPECT_EQ(report.exit_code, code);
    ASSERT_EQ(report.errors.size(), 1u);
    EXPECT_NE(report.errors[0].message.find("/data/x"), std::string::npos) << report.errors[0].message;
    EXPECT_NE(report.errors[0].hint.find("--allow"), std::string::npos) << report.errors[0].hint;
  }
  const Report trapped = run_text(probes_and("drop unreachable"));
  EXPECT_EQ(trapped.outcome, Outcome::kTrapped);
  ASSERT_FALSE(trapped.errors.empty());
  EXPECT_NE(trapped.errors[0].hint.find("--allow"), std::string::npos) << trapped.errors[0].hint;
}

TEST(WasiProgram, AReplayNeedsTheDirectoriesOfItsRunAndSaysWhich) {
  host::Journal journal;
  RunOptions options;
  options.record = &journal;
  options.policy.fs.push_back({.guest = "/data", .host = "/nowhere"});
  options.policy.fs.push_back({.guest = "/out", .host = "/nowhere", .mode = policy::FsMode::kWrite});
  const std::string text = probes_and("(call $exit)");
  const Report recorded = run_text(text, options);
  options.record = nullptr;
  options.replay = &journal;
  const Report replayed = run_text(text, options);
  EXPECT_EQ(replayed.exit_code, recorded.exit_code);
  EXPECT_EQ(replayed.fuel_used, recorded.fuel_used);

  options.policy.fs = {{.guest = "/data", .host = "/elsewhere"}};
  const Report less = run_text(text, options);
  EXPECT_EQ(less.outcome, Outcome::kInvalid);
  ASSERT_EQ(less.errors.size(), 1u);
  EXPECT_TRUE(less.errors[0].message.ends_with("that the replay is not: /out to write"))
      << less.errors[0].message;
  EXPECT_NE(less.errors[0].hint.find("--allow fs:write:HOST_DIRECTORY:/out"), std::string::npos)
      << less.errors[0].hint;
}

TEST(WasiProgram, EndingWellAfterARefusalIsNotAnError) {
  const Report report = run_text(probes_and("drop (call $exit (i32.const 0))"));
  EXPECT_EQ(report.outcome, Outcome::kOk);
  EXPECT_TRUE(report.errors.empty());
}

// Frozen at any point, it ends as if it had not been.
TEST(WasiProgram, FreezesAnywhereAndEndsTheSame) {
  const std::string input(1500, 'x');
  const Report whole = run_text(kCopy, {}, input);
  for (uint64_t fuel = 0; fuel < whole.fuel_used; fuel += 97) {
    RunOptions options;
    options.freeze_after_fuel = fuel;
    const Report frozen = run_text(kCopy, options, input);
    ASSERT_EQ(frozen.outcome, Outcome::kFrozen) << fuel;
    const Report thawed = thaw(frozen.snapshot, {});
    EXPECT_EQ(thawed.outcome, Outcome::kOk);
    EXPECT_EQ(thawed.stdout_text, whole.stdout_text);
    EXPECT_EQ(thawed.stderr_text, whole.stderr_text);
    EXPECT_EQ(thawed.fuel_used, whole.fuel_used);
  }
}

// Creates a file of 30 MB of zeros first, and then counts for a while.
constexpr const char* kHasAFile = R"((module
  (import "wasi_snapshot_preview1" "path_open"
    (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_allocate" (func $allocate (param i32 i64 i64) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "tmp/a")
  (func (export "_start") (local $i i32)
    (drop (call $open (i32.const 3) (i32.const 0) (i32.const 0) (i32.const 5) (i32.const 1)
                      (i64.const 0x1FFFFFFF) (i64.const 0) (i32.const 0) (i32.const 16)))
    (if (call $allocate (i32.load (i32.const 16)) (i64.const 0) (i64.const 30000000)) (then (unreachable)))
    (loop (local.set $i (i32.add (local.get $i) (i32.const 1))) (br_if 0 (i32.lt_u (local.get $i) (i32.const 100000))))))
)";

TEST(WasiProgram, WhatItKeepsInTheHostMustFitWhereItIsThawed) {
  RunOptions options;
  options.freeze_after_fuel = 200'000;
  const Report frozen = run_text(kHasAFile, options);
  ASSERT_EQ(frozen.outcome, Outcome::kFrozen);
  EXPECT_EQ(thaw(frozen.snapshot, {}).outcome, Outcome::kOk);
  RunOptions small;
  small.policy.limits.memory_bytes = 16u << 20;
  const Report refused = thaw(frozen.snapshot, small);
  EXPECT_EQ(refused.outcome, Outcome::kOutOfMemory);
  ASSERT_FALSE(refused.errors.empty());
  EXPECT_NE(refused.errors[0].hint.find("memory limit"), std::string::npos);
}

// Input that was read before freezing is in the snapshot; the rest comes from the thawing caller.
TEST(WasiProgram, ReadsOnFromTheInputOfTheCallerThatThaws) {
  RunOptions options;
  options.input_is_ambient = true;
  options.freeze_after_fuel = 200;
  options.read_input = [](std::chrono::milliseconds) { return InputPiece{"early ", false}; };
  const Report frozen = run_text(kCopy, options);
  ASSERT_EQ(frozen.outcome, Outcome::kFrozen);
  RunOptions later;
  bool is_first = true;
  later.read_input = [&](std::chrono::milliseconds) {
    return std::exchange(is_first, false) ? InputPiece{"late", false} : InputPiece{"", true};
  };
  const Report thawed = thaw(frozen.snapshot, later);
  EXPECT_EQ(thawed.outcome, Outcome::kOk);
  EXPECT_TRUE(thawed.stdout_text.starts_with("early ")) << thawed.stdout_text;
  EXPECT_TRUE(thawed.stdout_text.ends_with("late")) << thawed.stdout_text;
  EXPECT_EQ(thaw(frozen.snapshot, {}).outcome, Outcome::kOk);  // without any: at its end
}

// Polls stdin (2) and a clock (1) together, and ends with the first that is ready.
constexpr const char* kPoll = R"((module
  (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory 1)
  (func (export "_start")
    (i64.store (i32.const 0) (i64.const 1)) (i64.store (i32.const 24) (i64.const 1000000))
    (i64.store (i32.const 48) (i64.const 2)) (i32.store8 (i32.const 56) (i32.const 1))
    (drop (call $poll (i32.const 0) (i32.const 1024) (i32.const 2) (i32.const 512)))
    (call $exit (i32.load (i32.const 1024))))))";

// The program behaves the same whether input is available when it polls or arrives later.
TEST(WasiProgram, AsksForInputBeforeTheVirtualClockMovesOn) {
  EXPECT_EQ(run_text(kPoll, {}, "x").exit_code, 2);
  RunOptions options;
  int asked = 0;
  options.read_input = [&](std::chrono::milliseconds) {
    return InputPiece{++asked < 5 ? "" : "late", false};
  };
  EXPECT_EQ(run_text(kPoll, options).exit_code, 2);
  options.read_input = [](std::chrono::milliseconds) { return InputPiece{"", true}; };
  EXPECT_EQ(run_text(kPoll, options).exit_code, 2);
  options.policy.time.real = true;
  options.read_input = [](std::chrono::milliseconds) { return InputPiece{}; };
  EXPECT_EQ(run_text(kPoll, options).exit_code, 1);
}

TEST(WasiProgram, InputBeyondItsLimitIsRefusedBeforeItStarts) {
  RunOptions options;
  options.policy.limits.bytes_in = 100;
  options.read_input = [](std::chrono::milliseconds) { return InputPiece{std::string(64, 'x'), false}; };
  const Report report = run_text(R"((func (export "run")))", options);
  EXPECT_EQ(report.outcome, Outcome::kInvalid);
  EXPECT_EQ(report.fuel_used, 0u);
}

TEST(WasiProgram, StopsWhileItWaitsForInput) {
  std::atomic<bool> cancel = false;
  RunOptions options;
  options.cancel = &cancel;
  options.read_input = [&](std::chrono::milliseconds) {
    cancel = true;
    return InputPiece{};
  };
  EXPECT_EQ(run_text(kCopy, options).outcome, Outcome::kCancelled);
}

}  // namespace
}  // namespace membrane::sandbox
