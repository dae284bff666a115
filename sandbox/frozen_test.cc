// A run that is frozen and thawed ends like one that was never frozen.

#include <gtest/gtest.h>

#include <filesystem>

#include "engine/freeze/snapshot.h"
#include "sandbox/frozen_state.h"
#include "sandbox/sandbox.h"

namespace membrane::sandbox {
namespace {

using policy::Policy;

// A start function that prints, then an entry that uses all state of a run: input, arguments, the heap, the clock,
// random numbers, a host error, calls to the outside.
constexpr const char* kRemembers = R"((module (memory (export "memory") 1 4)
  (global $n (mut i32) (i32.const 0))
  (func $begin (local $i i32)
    (call $io.print (string "start "))
    (loop (global.set $n (i32.add (global.get $n) (i32.const 1))) (br_if 0 (i32.lt_u (global.get $n) (i32.const 50))))
    (call $io.print_i64 (call $time.now_ms!)))
  (start $begin)
  (func (export "run") (result i32) (local $i i32)
    (call $io.print (call $io.input))
    (call $io.eprint (call $io.argument! (i32.const 1)))
    (loop
      (call $io.print (string " "))
      (call $io.print_i32 (call $random.i32))
      (call $io.print (call $random.uuid))
      (call $io.print_i64 (call $time.now_ms!))
      (drop (call $http.get (string "https://example.org/")) (drop))
      (call $io.print_i32 (call $random.bytes! (i32.const 100)))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if 0 (i32.lt_u (local.get $i) (i32.const 5))))
    (call $io.result (string "the result"))
    (global.get $n)))
)";

Program remembers() {
  Program program;
  program.source = kRemembers;
  program.name = "remembers.wat";
  program.arguments = {"one", "two"};
  program.input = "given";
  return program;
}

std::string seen_of(const Report& report) {
  std::string seen = std::string(name_of(report.outcome)) + "|" + report.stdout_text + "|" +
                     report.stderr_text + "|" + report.result + "|" + report.answer + "|" +
                     std::to_string(report.fuel_used) + "|" + std::to_string(report.memory_peak_bytes) + "|" +
                     std::to_string(report.host_calls_dropped);
  for (const ReportValue& value : report.results) seen += "|" + value.value;
  for (const HostCallRecord& call : report.host_calls)
    seen += "|" + call.name + call.error + call.reason + call.grant + call.arguments +
            std::to_string(call.bytes_in);
  for (const ReportError& error : report.errors)
    seen += "|" + error.code + error.message + error.place.function;
  return seen;
}

std::string errors_of(const Report& report) {
  std::string text;
  for (const ReportError& error : report.errors) text += error.code + ": " + error.message + " " + error.hint;
  return text;
}

// Freezes after every `step` fuel, and thaws.
Report run_in_lives(const Program& program, RunOptions options, uint64_t step, int* lives = nullptr) {
  options.freeze_after_fuel = step;
  Report report = run(program, options);
  int count = 1;
  for (; report.outcome == Outcome::kFrozen && count < 1000; ++count) {
    *options.freeze_after_fuel += step;
    EXPECT_EQ(report.snapshot_bytes, report.snapshot.size());
    report = thaw(report.snapshot, options);
  }
  if (lives != nullptr) *lives = count;
  return report;
}

TEST(FrozenRun, EndsLikeOneThatNeverWas) {
  const Program program = remembers();
  for (const auto tier : {engine::Tier::kInterpreter, engine::Tier::kCompiler, engine::Tier::kAuto}) {
    RunOptions options;
    options.tier = tier;
    const Report whole = run(program, options);
    ASSERT_EQ(whole.outcome, Outcome::kOk) << errors_of(whole);
    EXPECT_FALSE(whole.snapshot_bytes);
    for (const uint64_t step : {97, 400, 3000}) {
      int lives = 0;
      const Report last = run_in_lives(program, options, step, &lives);
      EXPECT_EQ(seen_of(last), seen_of(whole)) << step;
      EXPECT_GT(lives, 2) << step;
      EXPECT_EQ(last.snapshot_bytes, 0u) << "it ended before it was to be frozen again";
    }
  }
}

TEST(FrozenRun, CanBeFrozenBeforeItsFirstInstructionAndForked) {
  const Program program = remembers();
  RunOptions options;
  const Report whole = run(program, options);
  options.freeze_after_fuel = 0;
  const Report frozen = run(program, options);
  ASSERT_EQ(frozen.outcome, Outcome::kFrozen) << errors_of(frozen);
  EXPECT_EQ(frozen.fuel_used, 0u);
  EXPECT_EQ(exit_code_of(frozen.outcome), 4);
  options.freeze_after_fuel.reset();
  for (int i = 0; i < 2; ++i) EXPECT_EQ(seen_of(thaw(frozen.snapshot, options)), seen_of(whole));
}

TEST(FrozenRun, LimitsAreTheWholeRuns) {
  const Program program = remembers();
  RunOptions options;
  const Report whole = run(program, options);
  options.freeze_after_fuel = whole.fuel_used / 2;
  const Report frozen = run(program, options);
  ASSERT_EQ(frozen.outcome, Outcome::kFrozen);
  options.freeze_after_fuel.reset();
  options.policy.limits.fuel = whole.fuel_used;
  EXPECT_EQ(thaw(frozen.snapshot, options).outcome, Outcome::kOk);
  options.policy.limits.fuel = whole.fuel_used - 1;
  EXPECT_EQ(thaw(frozen.snapshot, options).outcome, Outcome::kOutOfFuel);
  options.policy.limits.fuel = 1;
  EXPECT_EQ(thaw(frozen.snapshot, options).fuel_used, frozen.fuel_used);
  options.policy.limits = {};
  options.policy.limits.output_bytes = whole.stdout_text.size() - 10;
  EXPECT_EQ(thaw(frozen.snapshot, options).outcome, Outcome::kOutOfOutput);
  options.policy.limits = {};
  options.policy.limits.host_calls = whole.host_calls.size() + 1;  // and the key of the random numbers
  EXPECT_EQ(thaw(frozen.snapshot, options).outcome, Outcome::kOk);
  options.policy.limits.host_calls = frozen.host_calls.size();
  EXPECT_EQ(thaw(frozen.snapshot, options).errors.at(0).code, "EBUDGET");
  options.policy.limits = {};
  options.policy.limits.memory_bytes = 0;
  EXPECT_EQ(thaw(frozen.snapshot, options).outcome, Outcome::kOutOfMemory);
  options.policy.limits = {};
  options.policy.limits.module_bytes = 10;
  EXPECT_EQ(thaw(frozen.snapshot, options).errors.at(0).code, "module_too_large");
}

TEST(FrozenRun, WhoeverThawsSaysWhatIsGranted) {
  const std::string folder = ::testing::TempDir();
  Program program;
  program.source = R"((func (export "run") (local $i i32)
    (call $kv.set! (string "k") (string "kept"))
    (loop (local.set $i (i32.add (local.get $i) (i32.const 1))) (br_if 0 (i32.lt_u (local.get $i) (i32.const 1000))))
    (call $io.print (call $kv.get! (string "k")))))";
  RunOptions options;
  options.policy.kv.emplace().path = folder + "/frozen_test.kv";
  options.freeze_after_fuel = 3000;
  const Report frozen = run(program, options);
  ASSERT_EQ(frozen.outcome, Outcome::kFrozen) << errors_of(frozen);
  options.freeze_after_fuel.reset();
  EXPECT_EQ(thaw(frozen.snapshot, options).stdout_text, "kept");
  EXPECT_EQ(thaw(frozen.snapshot, {}).outcome, Outcome::kDenied);
  std::filesystem::remove(folder + "/frozen_test.kv");
}

TEST(FrozenRun, WhatCannotBeCarriedIsRefusedBeforeItRuns) {
  Program program;
  program.source = R"((func (export "run") (call $kv.set! (string "k") (string "v"))))";
  RunOptions options;
  options.policy.kv.emplace();
  options.freeze_after_fuel = 10;
  const Report in_memory = run(program, options);
  EXPECT_EQ(in_memory.outcome, Outcome::kInvalid);
  EXPECT_NE(in_memory.errors.at(0).hint.find("in a file"), std::string::npos);

  program.source =
      R"((module (import "time" "now_ms" (func $now (result i64 i32))) (export "run" (func $now))))";
  const Report of_host = run(program, options);
  EXPECT_EQ(of_host.outcome, Outcome::kInvalid);
  EXPECT_EQ(of_host.errors.at(0).code, "unsupported");
}

TEST(FrozenRun, TrapsWhereItWouldHave) {
  Program program;
  program.source = R"((module (memory 1)
    (func $fails (param i32) (drop (i32.load (i32.mul (local.get 0) (i32.const 1000000)))))
    (func (export "run") (local $i i32)
      (drop (memory.grow (i32.const 2000)))
      (loop (call $fails (i32.gt_u (local.get $i) (i32.const 90)))
        (local.set $i (i32.add (local.get $i) (i32.const 1))) (br 0)))))";
  const Report whole = run(program, {});
  const Report last = run_in_lives(program, {}, 300);
  EXPECT_EQ(whole.outcome, Outcome::kOutOfMemory) << "a grow was refused before";
  EXPECT_EQ(seen_of(last), seen_of(whole));
  EXPECT_EQ(last.errors.at(0).place.function, "$fails");
}

TEST(FrozenRun, AnAmountThatIsPassedIsRefused) {
  RunOptions options;
  options.freeze_after_fuel = 1000;
  const Report frozen = run(remembers(), options);
  ASSERT_EQ(frozen.outcome, Outcome::kFrozen);
  options.freeze_after_fuel = 10;
  const Report again = thaw(frozen.snapshot, options);
  EXPECT_EQ(again.outcome, Outcome::kInvalid);
  EXPECT_NE(again.errors.at(0).message.find("has used"), std::string::npos);
}

TEST(FrozenRun, EachHalfReplaysFromItsJournal) {
  host::Journal first, second;
  RunOptions options;
  options.record = &first;
  options.freeze_after_fuel = 2500;
  const Report frozen = run(remembers(), options);
  ASSERT_EQ(frozen.outcome, Outcome::kFrozen);
  options.record = &second;
  options.freeze_after_fuel.reset();
  const Report end = thaw(frozen.snapshot, options);
  options.record = nullptr;
  options.replay = &second;
  EXPECT_EQ(seen_of(thaw(frozen.snapshot, options)), seen_of(end));
  options.replay = &first;
  EXPECT_EQ(thaw(frozen.snapshot, options).errors.at(0).code, "replay_diverged");
}

// -- the state's bytes ----------------------------------------------------------------------------------------

TEST(FrozenRunState, ComesBackAsItWas) {
  FrozenState state;
  state.program_name = "p";
  state.arguments = {"a", std::string("\0b", 2)};
  state.heap_next = 4096;
  state.history.state.http_headers = {{"name", "value"}};
  state.history.state.random.emplace(RandomStream::Key{1, 2, 3}, 70);
  state.history.denial.emplace().name = "http.get";
  state.history.records.resize(2);
  const auto bytes = write_state(state);
  auto read = read_state(bytes);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(write_state(*read), bytes);
  EXPECT_EQ(read->history.state.random->position(), 70u);
  EXPECT_EQ(read->history.state.random->next_u64(), state.history.state.random->next_u64());
}

TEST(FrozenRunState, WhatIsCutForeignOrOfAnotherVersionIsRefused) {
  const auto bytes = write_state({});
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(read_state(std::span(bytes).first(size))) << size;
  auto longer = bytes;
  longer.push_back(0);
  EXPECT_EQ(read_state(longer).error().code, ErrorCode::kInvalidInput);
  auto newer = bytes;
  newer[4] = kFrozenStateVersion + 1;
  EXPECT_EQ(read_state(newer).error().code, ErrorCode::kUnsupported);
  FrozenState unsound;
  unsound.heap_next = UINT64_MAX;
  EXPECT_FALSE(read_state(write_state(unsound)));
  unsound = {};
  unsound.stdout_text = "\xFF";
  EXPECT_FALSE(read_state(write_state(unsound)));
}

TEST(FrozenRunState, NoForgedByteCrashes) {
  RunOptions options;
  options.freeze_after_fuel = 2000;
  const Report frozen = run(remembers(), options);
  const auto snapshot = engine::Snapshot::read(frozen.snapshot);
  ASSERT_TRUE(snapshot);
  std::vector<uint8_t> state(snapshot->embedder_state().begin(), snapshot->embedder_state().end());
  for (uint8_t& byte : state) {
    for (const uint8_t wrong : {uint8_t{0}, uint8_t{0x7F}, uint8_t{0xFF}}) {
      const uint8_t right = std::exchange(byte, wrong);
      static_cast<void>(read_state(state));
      byte = right;
    }
  }
  EXPECT_TRUE(read_state(state));
}

}  // namespace
}  // namespace membrane::sandbox
