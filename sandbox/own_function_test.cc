// A function of the embedder that answers later: the run stops, becomes bytes, and ends like one whose call was
// answered at once.

#include "sandbox/own_function.h"

#include <gtest/gtest.h>

#include "engine/freeze/snapshot.h"
#include "sandbox/frozen_state.h"
#include "sandbox/sandbox.h"

namespace membrane::sandbox {
namespace {

using engine::HostAction;
using engine::HostCall;
using wasm::ValType;

// The answer of own.f, computed from its arguments.
uint64_t answer_to(const WaitingCall& call) {
  uint64_t sum = 7;
  for (const ReportValue& value : call.values) sum = sum * 3 + value.bits;
  return sum & 0xffff;
}

// (param i32 i64) (result i32), which charges before it answers.
OwnFunction function_that(bool waits, uint64_t charge = 25) {
  OwnFunction own{"own", "f", {{ValType::kI32, ValType::kI64}, {ValType::kI32}}, {}};
  own.call = [=, type = own.type](host::Guest& guest, HostCall& call) -> OwnEnd {
    if (!guest.charge(charge)) return {HostAction::kOutOfFuel};
    if (waits) return {.waits = "job " + std::to_string(call.arguments[0])};
    call.results[0] = answer_to(waiting_call({"own", "f", type, {}}, call, ""));
    return {};
  };
  return own;
}

RunOptions options_that(bool waits) {
  RunOptions options;
  options.functions.push_back(function_that(waits));
  return options;
}

std::string seen_of(const Report& report) {
  std::string seen = std::string(name_of(report.outcome)) + "|" + report.stdout_text + "|" + report.result +
                     "|" + std::to_string(report.fuel_used) + "|" + std::to_string(report.memory_peak_bytes);
  for (const ReportValue& value : report.results) seen += "|" + value.type + value.value;
  for (const HostCallRecord& call : report.host_calls)
    seen += "|" + call.name + call.error + call.reason + call.arguments;
  for (const ReportError& error : report.errors) seen += "|" + error.code + error.message + error.hint;
  return seen;
}

OwnAnswer value_for(const WaitingCall& call) {
  return {.values = {engine::Value::i32(static_cast<uint32_t>(answer_to(call)))}};
}

// Each wait gives bytes, from which a separate run continues.
Report run_with_waits(const Program& program, RunOptions options, int* waits = nullptr,
                      OwnAnswer (*answer_for)(const WaitingCall&) = value_for) {
  Report report = run(program, options);
  int count = 0;
  for (; report.outcome == Outcome::kWaiting && count < 1000; ++count) {
    EXPECT_EQ(report.waits_for.size(), 1u);
    EXPECT_TRUE(report.errors.empty());
    EXPECT_EQ(report.snapshot_bytes, report.snapshot.size());
    const OwnAnswer answer = answer_for(report.waits_for.at(0));
    options.answer = &answer;
    report = thaw(report.snapshot, options);
  }
  if (waits != nullptr) *waits = count;
  return report;
}

constexpr std::string_view kImport = "(import \"own\" \"f\" (func $f (param i32 i64) (result i32)))";

// Each calls own.f in a different way.
const std::pair<const char*, const char*> kPrograms[] = {
    {"in a loop, with memory, globals and output", R"((memory 1 3) (global $g (mut i64) (i64.const 1))
      (func (export "run") (result i32) (local $i i32)
        (loop $l
          (i32.store (i32.mul (local.get $i) (i32.const 40000))
            (call $f (i32.add (local.get $i) (i32.const 100)) (global.get $g)))
          (global.set $g (i64.mul (global.get $g) (i64.const 5)))
          (drop (memory.grow (i32.const 1)))
          (call $io.print (string "once "))
          (br_if $l (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 3))))
        (i32.add (i32.load (i32.const 0)) (i32.load (i32.const 80000)))))"},
    {"through a table", R"((type $t (func (param i32 i64) (result i32))) (table funcref (elem $f $own))
      (func $own (type $t) (local.get 0))
      (func (export "run") (result i32)
        (i32.add (call_indirect (type $t) (i32.const 3) (i64.const -4) (i32.const 0))
                 (call_indirect (type $t) (i32.const 30) (i64.const 4) (i32.const 1)))))"},
    {"at the end of a function",
     R"((func $tail (param i32) (result i32) (return_call $f (local.get 0) (i64.const 9)))
      (func (export "run") (result i32) (i32.sub (call $tail (i32.const 12)) (call $tail (i32.const 13)))))"},
    {"at the end of the entry",
     R"((func (export "run") (result i32) (return_call $f (i32.const 1) (i64.const 2))))"},
    {"deep in a recursion", R"((func $r (param i32) (result i32)
        (if (result i32) (i32.eqz (local.get 0)) (then (call $f (i32.const 5) (i64.const 6)))
          (else (i32.add (i32.const 1) (call $r (i32.sub (local.get 0) (i32.const 1)))))))
      (func (export "run") (result i32) (call $r (i32.const 500))))"},
    {"in the start function", R"((global $g (mut i32) (i32.const 0))
      (func $begin (global.set $g (call $f (i32.const 8) (i64.const 9)))) (start $begin)
      (func (export "run") (result i32) (i32.add (global.get $g) (call $f (global.get $g) (i64.const 0)))))"},
    {"with structs and exceptions at hand", R"((type $pair (struct (field $a (mut i32)) (field $b i64)))
      (tag $e (param i32))
      (func (export "run") (result i32) (local $p (ref null $pair)) (local $x exnref)
        (local.set $p (struct.new $pair (i32.const 40) (i64.const 2)))
        (block $caught (result i32 exnref)
          (try_table (catch_ref $e $caught) (throw $e (call $f (i32.const 1) (struct.get $pair $b (local.get $p)))))
          (unreachable))
        (local.set $x)
        (struct.set $pair $a (local.get $p) (call $f (i32.const 2) (i64.const 3)))
        (i32.add (struct.get $pair $a (local.get $p))
          (block $again (result i32)
            (try_table (catch $e $again) (throw_ref (local.get $x)))
            (unreachable)))
        i32.add))"},
    {"hot, in compiled code",
     R"((func (export "run") (result i32) (local $i i32) (local $sum i32) (local $x f64)
        (loop $l
          (local.set $x (f64.add (local.get $x) (f64.const 0.5)))
          (if (i32.eqz (i32.rem_u (local.get $i) (i32.const 20000)))
            (then (local.set $sum (i32.add (local.get $sum) (call $f (local.get $i) (i64.const 1))))))
          (br_if $l (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 100000))))
        (i32.add (local.get $sum) (i32.trunc_f64_s (local.get $x)))))"},
    {"and fails afterwards", R"((memory 1) (func (export "run") (result i32)
        (i32.load (i32.mul (i32.add (call $f (i32.const 1) (i64.const 2)) (i32.const 1)) (i32.const 100000)))))"},
};

TEST(OwnFunctionLater, TheRunEndsLikeOneThatWasAnsweredAtOnce) {
  for (const auto tier : {engine::Tier::kInterpreter, engine::Tier::kCompiler, engine::Tier::kAuto})
    for (const auto& [name, text] : kPrograms) {
      SCOPED_TRACE(std::string(name) + ", tier " + std::string(engine::name_of(tier)));
      Program program;
      program.source = std::string(kImport) + text;
      RunOptions at_once = options_that(false), later = options_that(true);
      at_once.tier = later.tier = tier;
      const Report whole = run(program, at_once);
      EXPECT_NE(whole.outcome, Outcome::kInvalid) << (whole.errors.empty() ? "" : whole.errors[0].message);
      int waits = 0;
      const Report resumed = run_with_waits(program, later, &waits);
      EXPECT_EQ(seen_of(resumed), seen_of(whole));
      EXPECT_EQ(static_cast<size_t>(waits), whole.host_calls.size());
      EXPECT_GT(waits, 0);
    }
}

Program calls_once(std::string_view between = "") {
  Program program;
  program.source = std::string(kImport) + "(func (export \"run\") (result i32) " + std::string(between) +
                   "(call $f (i32.const 11) (i64.const -1)))";
  return program;
}

TEST(OwnFunctionLater, TheReportSaysWhatItWaitsFor) {
  const Report report = run(calls_once(), options_that(true));
  ASSERT_EQ(report.outcome, Outcome::kWaiting);
  EXPECT_EQ(exit_code_of(report.outcome), 4);
  ASSERT_EQ(report.waits_for.size(), 1u);
  const WaitingCall& call = report.waits_for[0];
  EXPECT_EQ(call.name, "own.f");
  EXPECT_EQ(call.arguments, R"([11,"-1"])") << "an i64 may be more than a number of JSON holds";
  EXPECT_EQ(call.note, "job 11");
  ASSERT_EQ(call.values.size(), 2u);
  EXPECT_EQ(call.values[1].type, "i64");
  EXPECT_EQ(call.values[1].value, "-1");
  EXPECT_TRUE(report.host_calls.empty()) << "it is in the list when it has its answer";
  const std::string json = render_json(report, false);
  EXPECT_NE(json.find(R"("note":"job 11")"), std::string::npos) << json;
  EXPECT_NE(json.find(R"("values":[{"type":"i32","value":11},)"), std::string::npos) << json;
}

TEST(OwnFunctionLater, ThawedWithoutAnAnswerItWaitsOnAndRunsNothing) {
  const Report first = run(calls_once(), options_that(true));
  const Report again = thaw(first.snapshot, options_that(true));
  ASSERT_EQ(again.outcome, Outcome::kWaiting);
  EXPECT_EQ(again.snapshot, first.snapshot);
  EXPECT_EQ(again.waits_for.at(0).note, "job 11");
  EXPECT_EQ(again.fuel_used, first.fuel_used);
}

// It may be due to be frozen at exactly the fuel it had used when it began to wait.
TEST(OwnFunctionLater, AnsweredItIsFrozenBehindTheCall) {
  Program program;
  program.source =
      std::string(kImport) + R"((func $next (param i32) (result i32) (i32.add (local.get 0) (i32.const 1)))
    (func (export "run") (result i32) (call $next (call $f (i32.const 11) (i64.const -1)))))";
  const Report whole = run(program, options_that(false)), waiting = run(program, options_that(true));
  RunOptions options = options_that(true);
  const OwnAnswer answer = value_for(waiting.waits_for.at(0));
  options.answer = &answer;
  options.freeze_after_fuel = waiting.fuel_used;
  const Report frozen = thaw(waiting.snapshot, options);
  ASSERT_EQ(frozen.outcome, Outcome::kFrozen);
  EXPECT_TRUE(frozen.waits_for.empty());
  EXPECT_EQ(frozen.host_calls.size(), 1u);
  options.answer = nullptr;
  options.freeze_after_fuel.reset();
  EXPECT_EQ(seen_of(thaw(frozen.snapshot, options)), seen_of(whole));
}

TEST(OwnFunctionLater, EachLifeReplaysFromItsJournal) {
  const Program program = calls_once("(call $io.print (call $random.uuid))");
  const auto options_with = [](host::Journal* record, const host::Journal* replay) {
    RunOptions options = options_that(true);
    options.record = record;
    options.replay = replay;
    return options;
  };
  host::Journal first, second;
  const Report waiting = run(program, options_with(&first, nullptr));
  ASSERT_EQ(waiting.outcome, Outcome::kWaiting);
  const OwnAnswer answer = value_for(waiting.waits_for.at(0));
  RunOptions recorded = options_with(&second, nullptr);
  recorded.answer = &answer;
  const Report end = thaw(waiting.snapshot, recorded);
  ASSERT_EQ(end.outcome, Outcome::kOk);
  const Report again = run(program, options_with(nullptr, &first));
  EXPECT_EQ(again.stdout_text, waiting.stdout_text);
  ASSERT_EQ(again.outcome, Outcome::kWaiting);
  RunOptions replayed = options_with(nullptr, &second);
  replayed.answer = &answer;
  EXPECT_EQ(seen_of(thaw(again.snapshot, replayed)), seen_of(end));
}

TEST(OwnFunctionLater, AnErrorTrapsAsTheFunctionsOwnDoes) {
  RunOptions at_once;
  at_once.functions.push_back(function_that(false));
  at_once.functions[0].call = [](host::Guest& guest, HostCall& call) -> OwnEnd {
    EXPECT_TRUE(guest.charge(25));
    call.trap_message = "own.f: sold out";
    return {HostAction::kTrap};
  };
  const Report whole = run(calls_once(), at_once);
  const Report resumed = run_with_waits(calls_once(), options_that(true), nullptr,
                                        [](const WaitingCall&) { return OwnAnswer{.error = "sold out"}; });
  EXPECT_EQ(resumed.outcome, Outcome::kTrapped);
  EXPECT_EQ(resumed.errors.at(0).message, "own.f: sold out");
  EXPECT_EQ(seen_of(resumed), seen_of(whole));
}

TEST(OwnFunctionLater, AnAnswerThatDoesNotFitIsRefusedAndTheBytesStayGood) {
  RunOptions options = options_that(true);
  const Report waiting = run(calls_once(), options);
  for (const OwnAnswer& wrong : {OwnAnswer{}, OwnAnswer{.values = {engine::Value::i64(1)}},
                                 OwnAnswer{.values = {engine::Value::i32(1), engine::Value::i32(1)}}}) {
    options.answer = &wrong;
    const Report refused = thaw(waiting.snapshot, options);
    EXPECT_EQ(refused.outcome, Outcome::kInvalid);
    EXPECT_EQ(refused.errors.at(0).code, "invalid_argument");
    EXPECT_NE(refused.errors[0].message.find("own.f gives [i32]"), std::string::npos);
  }
  const OwnAnswer right{.values = {engine::Value::i32(42)}};
  options.answer = &right;
  EXPECT_EQ(thaw(waiting.snapshot, options).results.at(0).value, "42");

  options.answer = nullptr;
  options.freeze_after_fuel = 0;
  const Report frozen = run(calls_once(), options);
  ASSERT_EQ(frozen.outcome, Outcome::kFrozen);
  options.answer = &right;
  options.freeze_after_fuel.reset();
  const Report unasked = thaw(frozen.snapshot, options);
  EXPECT_EQ(unasked.outcome, Outcome::kInvalid);
  EXPECT_NE(unasked.errors.at(0).message.find("waits for no answer"), std::string::npos);
}

TEST(OwnFunctionLater, WithoutTheFunctionItIsRefused) {
  const Report waiting = run(calls_once(), options_that(true));
  const OwnAnswer answer{.values = {engine::Value::i32(42)}};
  RunOptions without;
  without.answer = &answer;
  const Report report = thaw(waiting.snapshot, without);
  EXPECT_EQ(report.outcome, Outcome::kInvalid);
  EXPECT_EQ(report.errors.at(0).code, "unknown-import");
}

TEST(OwnFunctionLater, TheAnswerMayBeWorkedOutInTheFunctionsPlaceAndBeLateAgain) {
  RunOptions options = options_that(true);
  const Report first = run(calls_once(), options);
  int asked = 0;
  const OwnAnswer late{.call = [&](const OwnFunction& own, host::Guest&, HostCall& call) -> OwnEnd {
    EXPECT_EQ(own.full_name(), "own.f");
    EXPECT_EQ(call.arguments[0], 11u);
    ++asked;
    return {.waits = "another job"};
  }};
  options.answer = &late;
  const Report second = thaw(first.snapshot, options);
  ASSERT_EQ(second.outcome, Outcome::kWaiting);
  EXPECT_EQ(second.waits_for.at(0).note, "another job");
  const OwnAnswer now{.call = [](const OwnFunction&, host::Guest& guest, HostCall& call) -> OwnEnd {
    if (!guest.charge(1000)) return {HostAction::kOutOfFuel};
    call.results[0] = call.arguments[0] * 2;
    return {};
  }};
  options.answer = &now;
  const Report end = thaw(second.snapshot, options);
  ASSERT_EQ(end.outcome, Outcome::kOk);
  EXPECT_EQ(end.results.at(0).value, "22");
  EXPECT_EQ(end.fuel_used, run(calls_once(), options_that(false)).fuel_used + 1000);
  EXPECT_EQ(end.host_calls.size(), 1u) << "it was one call";
  EXPECT_EQ(asked, 1);

  // When the charge cannot be paid: at the limit the run ends, and at the fuel for freezing it keeps waiting.
  options.policy.limits.fuel = end.fuel_used - 10;
  EXPECT_EQ(thaw(second.snapshot, options).outcome, Outcome::kOutOfFuel);
  options.policy.limits = {};
  options.freeze_after_fuel = end.fuel_used - 10;
  const Report unpaid = thaw(second.snapshot, options);
  ASSERT_EQ(unpaid.outcome, Outcome::kWaiting);
  options.freeze_after_fuel.reset();
  EXPECT_EQ(seen_of(thaw(unpaid.snapshot, options)), seen_of(end));
}

TEST(OwnFunctionLater, LimitsAreTheWholeRuns) {
  Program program;
  program.source = std::string(kImport) + kPrograms[0].second;
  const Report whole = run(program, options_that(false));
  RunOptions options = options_that(true);
  options.policy.limits.fuel = whole.fuel_used;
  EXPECT_EQ(run_with_waits(program, options).outcome, Outcome::kOk);
  options.policy.limits.fuel = whole.fuel_used - 1;
  EXPECT_EQ(run_with_waits(program, options).outcome, Outcome::kOutOfFuel);
  options.policy.limits = {};
  options.policy.limits.host_calls = 3;
  EXPECT_EQ(run_with_waits(program, options).outcome, Outcome::kOk);
  options.policy.limits.host_calls = 2;
  RunOptions at_once = options_that(false);
  at_once.policy = options.policy;
  EXPECT_EQ(seen_of(run_with_waits(program, options)), seen_of(run(program, at_once)));
}

TEST(OwnFunctionLater, ASharedBudgetPaysForWhatRunsAndNotForTheWait) {
  const Program program = calls_once();
  RunOptions options = options_that(true);
  options.budget = std::make_shared<policy::Budget>(options.policy.limits);
  const uint64_t before = options.budget->left(policy::Resource::kFuel);
  const Report waiting = run(program, options);
  EXPECT_EQ(before - options.budget->left(policy::Resource::kFuel), waiting.fuel_used);
  const OwnAnswer answer = value_for(waiting.waits_for.at(0));
  options.answer = &answer;
  const Report end = thaw(waiting.snapshot, options);
  EXPECT_EQ(before - options.budget->left(policy::Resource::kFuel), end.fuel_used);
}

TEST(OwnFunctionLater, ARunThatIsCancelledDoesNotWait) {
  std::atomic<bool> cancel = false;
  RunOptions options = options_that(true);
  options.cancel = &cancel;
  const Report waiting = run(calls_once(), options);
  ASSERT_EQ(waiting.outcome, Outcome::kWaiting);
  options.functions[0].call = [&](host::Guest&, HostCall&) -> OwnEnd {
    cancel = true;
    return {.waits = ""};
  };
  EXPECT_EQ(run(calls_once(), options).outcome, Outcome::kCancelled);
  const OwnAnswer answer = value_for(waiting.waits_for.at(0));
  options.answer = &answer;
  EXPECT_EQ(thaw(waiting.snapshot, options).outcome, Outcome::kCancelled);
}

TEST(OwnFunctionLater, AnAnswerMayBeGivenTwiceWhichForks) {
  RunOptions options = options_that(true);
  const Report waiting = run(calls_once("(call $io.print (call $random.uuid))"), options);
  for (const uint32_t each : {1u, 2u}) {
    const OwnAnswer answer{.values = {engine::Value::i32(each)}};
    options.answer = &answer;
    const Report end = thaw(waiting.snapshot, options);
    EXPECT_EQ(end.results.at(0).value, std::to_string(each));
    EXPECT_EQ(end.stdout_text, waiting.stdout_text);
  }
}

TEST(OwnFunctionLater, AWasiProgramKeepsItsFilesAndOutput) {
  Program program;
  program.source = std::string("(module ") + R"(
    (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32))) )" +
                   std::string(kImport) + R"(
    (memory (export "memory") 1) (data (i32.const 100) "ab")
    (func $write (param i32)
      (i32.store (i32.const 0) (local.get 0)) (i32.store (i32.const 4) (i32.const 1))
      (drop (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8))))
    (func (export "_start")
      (call $write (i32.const 100))
      (drop (call $f (i32.const 1) (i64.const 2)))
      (call $write (i32.const 101)))))";
  const Report whole = run(program, options_that(false));
  ASSERT_EQ(whole.stdout_text, "ab");
  int waits = 0;
  EXPECT_EQ(seen_of(run_with_waits(program, options_that(true), &waits)), seen_of(whole));
  EXPECT_EQ(waits, 1);
}

TEST(OwnFunctionLater, WhatCannotBeKeptIsSaid) {
  Program program;
  program.source = std::string(kImport) +
                   R"((func (export "run") (call $kv.set! (string "k") (string "v"))
                        (drop (call $f (i32.const 1) (i64.const 2)))))";
  RunOptions options = options_that(true);
  options.policy.kv.emplace();
  const Report in_memory = run(program, options);
  EXPECT_EQ(in_memory.outcome, Outcome::kInvalid);
  EXPECT_EQ(in_memory.errors.at(0).code, "unsupported");
  EXPECT_NE(in_memory.errors[0].message.find("it waits for own.f"), std::string::npos);

  program.source = "(module " + std::string(kImport) + "(export \"run\" (func $f)))";
  program.arguments = {"1", "2"};
  const Report of_host = run(program, options_that(true));
  EXPECT_EQ(of_host.outcome, Outcome::kInvalid);
  EXPECT_EQ(of_host.errors.at(0).code, "unsupported");
  EXPECT_EQ(run(program, options_that(false)).outcome, Outcome::kOk);
}

// -- the bytes ------------------------------------------------------------------------------------------------

TEST(OwnFunctionLater, DamagedAndForgedBytesAreRefused) {
  RunOptions options = options_that(true);
  const Report waiting = run(calls_once(), options);
  const OwnAnswer answer = value_for(waiting.waits_for.at(0));
  options.answer = &answer;
  for (size_t i = 0; i < waiting.snapshot.size(); i += 7) {
    std::vector<uint8_t> flipped = waiting.snapshot;
    flipped[i] ^= 0x10;
    EXPECT_EQ(thaw(flipped, options).outcome, Outcome::kInvalid) << i;
    EXPECT_EQ(thaw(std::span(waiting.snapshot).first(i), options).outcome, Outcome::kInvalid) << i;
  }
  // It claims to wait, but its frames are before no call, or before one that is not the embedder's.
  const auto snapshot = engine::Snapshot::read(waiting.snapshot);
  ASSERT_TRUE(snapshot);
  EXPECT_TRUE(snapshot->awaited());
  options.answer = nullptr;
  options.freeze_after_fuel = 0;
  const Report frozen = run(calls_once(), options);
  const auto forged = engine::with_embedder_part(frozen.snapshot, snapshot->embedder_state());
  ASSERT_TRUE(forged);
  options.answer = &answer;
  options.freeze_after_fuel.reset();
  const Report refused = thaw(*forged, options);
  EXPECT_EQ(refused.outcome, Outcome::kInvalid);
  EXPECT_EQ(refused.errors.at(0).code, "invalid_input");
}

TEST(OwnFunctionLater, TheStateHasAVersionOfItsOwn) {
  FrozenState state;
  const auto version_of = [](const std::vector<uint8_t>& bytes) { return bytes.at(4); };
  EXPECT_EQ(version_of(write_state(state)), 2);
  state.waits = "note";
  const auto bytes = write_state(state);
  EXPECT_EQ(version_of(bytes), kFrozenStateVersion);
  const auto read = read_state(bytes);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->waits, "note");
  EXPECT_EQ(write_state(*read), bytes);
  for (size_t size = 0; size < bytes.size(); ++size) EXPECT_FALSE(read_state(std::span(bytes).first(size)));
}

}  // namespace
}  // namespace membrane::sandbox
