// Snapshots: a run that is frozen and thawed anywhere ends like one that never was, and what is no snapshot is
// refused. Snapshots of modules that nobody wrote: Differential.*.

#include "engine/freeze/snapshot.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>

#include "engine/testing/engine_testing.h"
#include "engine/testing/snapshot_testing.h"

namespace membrane::engine {
namespace {

using Bytes = std::vector<uint8_t>;
constexpr uint64_t kPlenty = 10'000'000;

// What a host gives to a program, made again for each of its lives.
using MakeHost = std::function<HostFunction()>;

Resolver host_in(Store& store, const MakeHost& host) {
  return [&store, host](const wasm::Module& module, const wasm::Import& import) -> std::optional<Extern> {
    if (!host) return std::nullopt;
    return Extern{wasm::ExternKind::kFunc,
                  store.add_host_function(module.type_of_function(import.index), host()), nullptr, nullptr,
                  nullptr};
  };
}

// One life of a run: its instance and what it does.
struct Life {
  Store store;
  Instance* instance = nullptr;
  std::unique_ptr<Execution> run;
};

struct Ended {
  RunState state = RunState::kReady;
  std::vector<uint64_t> results;
  uint64_t fuel = 0;
  int lives = 1;
  friend bool operator==(const Ended& a, const Ended& b) {
    return a.state == b.state && a.results == b.results && a.fuel == b.fuel;
  }
};

class Frozen : public ::testing::TestWithParam<Tier> {
 protected:
  std::shared_ptr<CompiledModule> module_of(std::string_view text) {
    auto parsed = wasm::parse_text(text);
    EXPECT_TRUE(parsed) << (parsed ? "" : render(parsed.error().front(), text, "test.wat"));
    auto compiled = compile_module(std::move(*parsed), text, GetParam());
    EXPECT_TRUE(compiled);
    return *compiled;
  }

  std::unique_ptr<Life> begin(std::string_view text, const std::vector<Value>& arguments,
                              const MakeHost& host = {}) {
    auto life = std::make_unique<Life>();
    auto made = life->store.instantiate(module_of(text), host_in(life->store, host), {});
    EXPECT_TRUE(made) << made.error().error.message;
    life->instance = *made;
    life->run = std::make_unique<Execution>(limits_);
    EXPECT_TRUE(life->run->start((*made)->find_function("run"), arguments));
    return life;
  }

  std::unique_ptr<Life> thaw(const Bytes& bytes, const MakeHost& host = {}) {
    const auto snapshot = Snapshot::read(bytes, GetParam());
    EXPECT_TRUE(snapshot) << snapshot.error().message;
    if (!snapshot) return nullptr;
    auto life = std::make_unique<Life>();
    auto made = snapshot->instantiate(life->store, host_in(life->store, host), {});
    EXPECT_TRUE(made) << made.error().error.message;
    life->instance = *made;
    life->run = std::make_unique<Execution>(limits_);
    const Status put = snapshot->resume_in(*life->run, *life->instance);
    EXPECT_TRUE(put) << put.error().message;
    return life;
  }

  Ended end_of(Life& life, uint64_t fuel_before = 0) {
    Ended ended{life.run->state(), {}, fuel_before + life.run->fuel_used(), 1};
    for (const Value& v : life.run->results()) ended.results.push_back(v.bits);
    return ended;
  }

  Ended run_whole(std::string_view text, const std::vector<Value>& arguments, const MakeHost& host = {}) {
    const auto life = begin(text, arguments, host);
    life->run->add_fuel(kPlenty);
    while (life->run->resume() == RunState::kInterrupted) {}
    return end_of(*life);
  }

  // From life to life with `step` fuel at a time, and what was left; interruptions are pauses, too.
  Ended run_in_lives(std::string_view text, const std::vector<Value>& arguments, uint64_t step,
                     const MakeHost& host = {}) {
    auto life = begin(text, arguments, host);
    uint64_t used = 0;
    int lives = 1;
    for (uint64_t left = 0; lives < 2'000; ++lives) {
      life->run->add_fuel(left + step);
      const RunState state = life->run->resume();
      if (state != RunState::kOutOfFuel && state != RunState::kInterrupted) break;
      left = life->run->fuel_left();
      const auto bytes = freeze(*life->run, *life->instance, {}, used);
      EXPECT_TRUE(bytes) << bytes.error().message;
      if (!bytes) break;
      used += life->run->fuel_used();
      EXPECT_EQ(Snapshot::read(*bytes)->fuel_used(), used);
      life = thaw(*bytes, host);
      if (life == nullptr) return {};
    }
    Ended ended = end_of(*life, used);
    ended.lives = lives;
    return ended;
  }

  ExecutionLimits limits_;
};

INSTANTIATE_TEST_SUITE_P(Tiers, Frozen, ::testing::Values(Tier::kInterpreter, Tier::kCompiler, Tier::kAuto),
                         [](const auto& tier) { return std::string(name_of(tier.param)); });

constexpr std::string_view kFib = R"((module
  (func $fib (export "run") (param i32) (result i32)
    (if (result i32) (i32.lt_s (local.get 0) (i32.const 2))
      (then (local.get 0))
      (else (i32.add (call $fib (i32.sub (local.get 0) (i32.const 1)))
                     (call $fib (i32.sub (local.get 0) (i32.const 2)))))))))";

TEST_P(Frozen, GoesOnAsIfItHadNeverBeen) {
  const Ended whole = run_whole(kFib, {Value::i32(9)});
  for (const uint64_t step : {1, 3, 50}) {
    const Ended lives = run_in_lives(kFib, {Value::i32(9)}, step);
    EXPECT_EQ(lives, whole) << step;
    EXPECT_GT(lives.lives, 5);
  }
}

TEST_P(Frozen, BeforeItsFirstInstruction) {
  const auto life = begin(kFib, {Value::i32(9)});
  const auto ready = freeze(*life->run, *life->instance);
  ASSERT_TRUE(ready) << ready.error().message;
  life->run->resume();
  ASSERT_EQ(life->run->state(), RunState::kOutOfFuel);
  const auto paused = freeze(*life->run, *life->instance);
  ASSERT_TRUE(paused);
  EXPECT_EQ(*ready, *paused);
  const auto second = thaw(*paused);
  second->run->add_fuel(kPlenty);
  EXPECT_EQ(second->run->resume(), RunState::kFinished);
  EXPECT_EQ(end_of(*second), run_whole(kFib, {Value::i32(9)}));
}

TEST_P(Frozen, TwiceThawedItForks) {
  constexpr std::string_view kCounts = R"((module (memory 1) (func (export "run") (result i32)
    (loop $l (i32.store (i32.const 8) (i32.add (i32.load (i32.const 8)) (i32.const 1)))
      (br_if $l (i32.lt_u (i32.load (i32.const 8)) (i32.const 100)))) (i32.load (i32.const 8)))))";
  const auto life = begin(kCounts, {});
  life->run->add_fuel(300);
  ASSERT_EQ(life->run->resume(), RunState::kOutOfFuel);
  const auto bytes = freeze(*life->run, *life->instance);
  ASSERT_TRUE(bytes);
  const auto one = thaw(*bytes), other = thaw(*bytes);
  one->instance->memory()->base()[8] = 0;  // what one does, the other does not see
  for (const auto* const run : {&one, &other}) {
    (*run)->run->add_fuel(kPlenty);
    EXPECT_EQ((*run)->run->resume(), RunState::kFinished);
    EXPECT_EQ(end_of(**run).results, std::vector<uint64_t>{100});
  }
  EXPECT_GT(one->run->fuel_used(), other->run->fuel_used());
  const auto third = thaw(*bytes), fourth = thaw(*bytes);
  EXPECT_EQ(freeze(*third->run, *fourth->instance).error().code, ErrorCode::kInvalidArgument);
}

constexpr std::string_view kCallsHost = R"((module
  (import "host" "f" (func $f (param i32 i64) (result i32)))
  (type $f (func (param i32 i64) (result i32)))
  (table funcref (elem $f))
  (func $direct (param i32) (result i32)
    (i32.add (i32.mul (local.get 0) (i32.const 1000)) (call $f (i32.add (local.get 0) (i32.const 5)) (i64.const 7))))
  (func (export "run") (param i32) (result i32)
    (i32.sub (call $direct (local.get 0))
             (i32.add (i32.const 3)
                      (call_indirect (type $f) (i32.const 11) (i64.const 13) (i32.const 0))))))
)";

HostFunction charges(uint64_t fuel) {
  return [fuel](HostCall& call) {
    if (!call.charge(fuel)) return HostAction::kOutOfFuel;
    call.results[0] = call.arguments[0] * call.arguments[1];
    return HostAction::kContinue;
  };
}

TEST_P(Frozen, InFrontOfACallOfTheHostThatCannotBePaid) {
  const MakeHost host = [] { return charges(100); };
  const Ended whole = run_whole(kCallsHost, {Value::i32(4)}, host);
  ASSERT_EQ(whole.state, RunState::kFinished);
  EXPECT_EQ(whole.results, std::vector<uint64_t>{4000 + 9 * 7 - 3 - 11 * 13});
  for (const uint64_t step : {1, 30, 99})
    EXPECT_EQ(run_in_lives(kCallsHost, {Value::i32(4)}, step, host), whole) << step;
}

TEST_P(Frozen, AfterACallOfTheHostThatInterrupts) {
  const MakeHost host = [] {
    return [](HostCall& call) {
      call.results[0] = call.arguments[0] * call.arguments[1];
      return HostAction::kInterrupt;
    };
  };
  const Ended whole = run_whole(kCallsHost, {Value::i32(4)}, host);
  EXPECT_EQ(whole.results, std::vector<uint64_t>{4000 + 9 * 7 - 3 - 11 * 13});
  for (const uint64_t step : {1, 1000})
    EXPECT_EQ(run_in_lives(kCallsHost, {Value::i32(4)}, step, host), whole) << step;
}

TEST_P(Frozen, WhatAHostCallIsOwedIsPaidLater) {
  const MakeHost host = [] {
    return [](HostCall& call) {
      call.results[0] = 1;
      call.owe(500);
      return HostAction::kContinue;
    };
  };
  const Ended whole = run_whole(kCallsHost, {Value::i32(4)}, host);
  EXPECT_GT(whole.fuel, 1000u);
  for (const uint64_t step : {1, 7, 300})
    EXPECT_EQ(run_in_lives(kCallsHost, {Value::i32(4)}, step, host), whole) << step;
}

// A tail call leaves no frame to come back to: what is called gives its results to the caller of that frame.
TEST_P(Frozen, InFrontOfATailCallOfTheHost) {
  const MakeHost host = [] { return charges(100); };
  for (const std::string_view call : {"return_call $f", "return_call_indirect (type $f)"})
    for (const bool is_entry : {false, true}) {
      const std::string tail = "(func $tail " + std::string(is_entry ? "(export \"run\") " : "") +
                               "(param i32) (result i32) (" + std::string(call) +
                               " (local.get 0) (i64.const 7)" +
                               (call.ends_with("$f)") ? " (i32.const 0)" : "") + ")) ";
      const std::string run = is_entry ? ""
                                       : "(func (export \"run\") (param i32) (result i32) "
                                         "(i32.add (i32.const 1) (call $tail (local.get 0))))";
      const std::string text =
          "(module (type $f (func (param i32 i64) (result i32))) "
          "(import \"host\" \"f\" (func $f (type $f))) (table funcref (elem $f)) " +
          tail + run + ")";
      const Ended whole = run_whole(text, {Value::i32(6)}, host);
      EXPECT_EQ(whole.results, std::vector<uint64_t>{is_entry ? 42u : 43u}) << text;
      for (const uint64_t step : {1, 30, 99}) {
        const Ended lives = run_in_lives(text, {Value::i32(6)}, step, host);
        EXPECT_EQ(lives, whole) << text << step;
        EXPECT_GT(lives.lives, 1) << text << step;
      }
    }
}

// More arguments than its caller's caller has slots, with a reference among them.
TEST_P(Frozen, InFrontOfATailCallWithManyArguments) {
  constexpr std::string_view kMany = R"((module
    (import "host" "f" (func $f (param i32 f64 i64 i64 i64 i64 externref i64) (result i64 i64)))
    (func $tail (param i32) (result i64 i64)
      (return_call $f (local.get 0) (f64.const 1.5) (i64.const 3) (i64.const 4) (i64.const 5) (i64.const 6)
        (ref.null extern) (i64.const 8)))
    (func (export "run") (param i32) (result i64) (i64.add (call $tail (local.get 0)))))
  )";
  const MakeHost host = [] {
    return [](HostCall& call) {
      if (!call.charge(100)) return HostAction::kOutOfFuel;
      const uint64_t all = call.arguments[0] + call.arguments[2] + call.arguments[5] + call.arguments[7];
      call.results[0] = all;
      call.results[1] = 1000;
      return HostAction::kContinue;
    };
  };
  const Ended whole = run_whole(kMany, {Value::i32(9)}, host);
  EXPECT_EQ(whole.results, std::vector<uint64_t>{1026});
  for (const uint64_t step : {1, 30, 99}) EXPECT_EQ(run_in_lives(kMany, {Value::i32(9)}, step, host), whole);
}

// It is thawed, cannot be paid for again, and continues where it is.
TEST_P(Frozen, ACallThatIsMadeAgainAfterThawingIsTheSame) {
  const MakeHost host = [] { return charges(100); };
  constexpr std::string_view kCall = "call_indirect (type $f) (local.get 0) (i64.const 7) (i32.const 0)))";
  constexpr std::string_view kRun = "(func (export \"run\") (param i32) (result i32) (";
  constexpr std::string_view kTail = "(func $g (param i32 i64) (result i32) (return_";
  const std::pair<std::string, int> programs[] = {
      // and the versions of their snapshots
      {std::string(kRun) + std::string(kCall), 2},
      {std::string(kRun) + "return_" + std::string(kCall), 3},
      {std::string(kTail) + std::string(kCall) + std::string(kRun) + "call $g (local.get 0) (i64.const 1)))",
       3},
      // It looks as if it had called the host itself, as it might have.
      {std::string(kTail) + std::string(kCall) + std::string(kRun) +
           "call_indirect (type $f) (local.get 0) (i64.const 1) (i32.const 1)))",
       2}};
  for (const auto& [functions, version] : programs) {
    const std::string text =
        "(module (type $f (func (param i32 i64) (result i32))) (import \"host\" \"f\" (func $f (type $f))) " +
        functions + "(table funcref (elem $f " + (functions.find("$g") == std::string::npos ? "$f" : "$g") +
        ")))";
    SCOPED_TRACE(text);
    const auto life = begin(text, {Value::i32(6)}, host);
    life->run->add_fuel(50);
    ASSERT_EQ(life->run->resume(), RunState::kOutOfFuel);
    const auto bytes = freeze(*life->run, *life->instance);
    ASSERT_TRUE(bytes) << bytes.error().message;
    EXPECT_EQ(bytes->at(8), version);
    const auto other = thaw(*bytes, host);
    for (int i = 0; i < 3; ++i) {
      other->run->add_fuel(10);
      ASSERT_EQ(other->run->resume(), RunState::kOutOfFuel);
    }
    const auto again = freeze(*other->run, *other->instance, {}, life->run->fuel_used());
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(*again, *bytes);
    other->run->add_fuel(1000);
    ASSERT_EQ(other->run->resume(), RunState::kFinished);
    EXPECT_EQ(end_of(*other).results, std::vector<uint64_t>{42});
  }
}

TEST_P(Frozen, AfterTailCallsOfItsOwn) {
  constexpr std::string_view kTail = R"((module
    (func $even (param i32) (result i64)
      (if (result i64) (i32.eqz (local.get 0)) (then (i64.const 7))
        (else (return_call $odd (i32.sub (local.get 0) (i32.const 1)) (f64.const 2)))))
    (func $odd (param i32 f64) (result i64) (local externref)
      (if (result i64) (i32.eqz (local.get 0)) (then (i64.const 8))
        (else (return_call $even (i32.sub (local.get 0) (i32.const 1))))))
    (func (export "run") (param i32) (result i64) (i64.add (i64.const 100) (call $even (local.get 0)))))
  )";
  const Ended whole = run_whole(kTail, {Value::i32(21)});
  EXPECT_EQ(whole.results, std::vector<uint64_t>{108});
  for (const uint64_t step : {1, 9}) EXPECT_EQ(run_in_lives(kTail, {Value::i32(21)}, step), whole) << step;
}

TEST_P(Frozen, DeepInARecursion) {
  constexpr std::string_view kDeep =
      R"((module (func $down (export "run") (param i32) (result i64) (local i64 f32)
    (local.set 1 (i64.extend_i32_u (local.get 0)))
    (if (i32.eqz (local.get 0)) (then (return (i64.const 0))))
    (i64.add (local.get 1) (call $down (i32.sub (local.get 0) (i32.const 1)))))))";
  const Ended whole = run_whole(kDeep, {Value::i32(9'000)});
  EXPECT_EQ(whole.results, std::vector<uint64_t>{9'000ull * 9'001 / 2});
  const Ended lives = run_in_lives(kDeep, {Value::i32(9'000)}, whole.fuel / 3);
  EXPECT_EQ(lives, whole);
  EXPECT_GE(lives.lives, 3);

  const auto life = begin(kDeep, {Value::i32(9'000)});
  life->run->add_fuel(whole.fuel / 3);
  ASSERT_EQ(life->run->resume(), RunState::kOutOfFuel);
  const auto snapshot = Snapshot::read(*freeze(*life->run, *life->instance));
  ASSERT_TRUE(snapshot);
  for (const bool few_calls : {true, false}) {
    Store store;
    const auto instance = snapshot->instantiate(store, {}, {});
    ExecutionLimits small;
    if (few_calls) small.call_depth = 100;
    else small.stack_bytes = 4096;
    Execution run(small);
    const Status put = snapshot->resume_in(run, **instance);
    ASSERT_FALSE(put);
    EXPECT_EQ(put.error().code, ErrorCode::kExhausted);
    run.add_fuel(1000);
    EXPECT_EQ(run.resume(), RunState::kFinished) << "half a stack does not run";
    EXPECT_EQ(run.fuel_used(), 0u);
  }
}

// Pages that a memory began with and that were not touched since are still its own.
TEST_P(Frozen, WithMemoryOfAnImageThatNobodyTouched) {
  std::string text = R"((module (memory 16) (data (i32.const 65536) ")";
  for (int i = 0; i < 300'000; ++i) text += "abcdefghij"[i % 10];
  text += R"(") (func (export "run") (param i32) (result i32) (i32.load8_u (local.get 0)))))";
  const auto module = module_of(text);
  constexpr uint32_t kPlace = 65536 + 200'003;
  for (int life = 0; life < 3; ++life) {  // from the second on they begin with an image
    Store store;
    auto made = store.instantiate(module, {}, {});
    ASSERT_TRUE(made);
    Execution run(limits_);
    ASSERT_TRUE(run.start((*made)->find_function("run"), std::array{Value::i32(kPlace)}));
    const auto frozen = freeze(run, **made);
    ASSERT_TRUE(frozen);
    const auto thawed = thaw(*frozen);
    thawed->run->add_fuel(kPlenty);
    ASSERT_EQ(thawed->run->resume(), RunState::kFinished);
    EXPECT_EQ(thawed->run->results()[0].bits, uint64_t{'d'}) << life;
  }
}

TEST_P(Frozen, HoldsReferences) {
  constexpr std::string_view kHolds = R"((module (type $n (func (result i32)))
    (table $t 2 8 funcref) (table $other 1 externref) (global $g (mut funcref) (ref.null func))
    (elem declare func $seven $eight) (elem $passive funcref (ref.func $eight))
    (func $seven (result i32) (i32.const 7)) (func $eight (result i32) (i32.const 8))
    (func $through (param funcref i32) (result i32) (local $kept funcref)
      (local.set $kept (local.get 0))
      (table.set $t (i32.const 0) (ref.func $eight))
      (global.set $g (local.get $kept))
      (drop (table.grow $t (ref.func $seven) (i32.const 2)))
      (table.init $t $passive (i32.const 1) (i32.const 0) (i32.const 1))
      (elem.drop $passive)
      (table.set $t (i32.const 0) (local.get $kept))
      (i32.add (i32.mul (call_indirect $t (type $n) (i32.const 0)) (i32.const 100))
        (i32.add (i32.mul (call_indirect $t (type $n) (i32.const 1)) (i32.const 10))
                 (call_indirect $t (type $n) (i32.const 3)))))
    (func (export "run") (result i32)
      (ref.func $seven) (i32.const 1) (call $through)
      (drop (ref.is_null (global.get $g)))
      (drop (table.get $other (i32.const 0))))))";
  const Ended whole = run_whole(kHolds, {});
  EXPECT_EQ(whole.results, std::vector<uint64_t>{787});
  for (const uint64_t step : {1, 4}) EXPECT_EQ(run_in_lives(kHolds, {}, step), whole) << step;
}

TEST_P(Frozen, ASnapshotIsTheSameWhateverTierMadeIt) {
  const auto life = begin(kFib, {Value::i32(9)});
  life->run->add_fuel(777);
  ASSERT_EQ(life->run->resume(), RunState::kOutOfFuel);
  const auto bytes = freeze(*life->run, *life->instance);
  const auto again = thaw(*bytes);
  EXPECT_EQ(*freeze(*again->run, *again->instance, {}, life->run->fuel_used()), *bytes);
}

TEST_P(Frozen, OnlyWhatIsPausedCanBe) {
  const auto life = begin(kFib, {Value::i32(1)});
  life->run->add_fuel(kPlenty);
  ASSERT_EQ(life->run->resume(), RunState::kFinished);
  EXPECT_EQ(freeze(*life->run, *life->instance).error().code, ErrorCode::kInvalidArgument);
}

// -- what is no snapshot --------------------------------------------------------------------------------------

// A small program with a memory, a table, a global and two frames, frozen.
Bytes small_snapshot(std::string_view embedder = "mine") {
  constexpr std::string_view kSmall = R"((module (memory 1 2) (table 2 4 funcref) (elem (i32.const 1) $f)
    (global (mut i32) (i32.const 9)) (data (i32.const 16) "data")
    (func $f (param i32 funcref) (result i32) (loop (br_if 0 (local.get 0))) (i32.const 3))
    (func (export "run") (param i32) (result i32) (local f64)
      (i32.add (local.get 0) (call $f (i32.const 1) (ref.func $f))))))";
  const auto instance = instantiate(kSmall);
  Execution run;
  const Value argument = Value::i32(5);
  EXPECT_TRUE(run.start(instance->find_function("run"), {&argument, 1}));
  run.add_fuel(100);
  EXPECT_EQ(run.resume(), RunState::kOutOfFuel);
  const auto* const state = reinterpret_cast<const uint8_t*>(embedder.data());
  return *freeze(run, *instance, {state, embedder.size()});
}

ErrorCode code_of(const Bytes& bytes) {
  const auto read = Snapshot::read(bytes);
  if (read) return ErrorCode::kInternal;
  EXPECT_FALSE(read.error().message.empty());
  EXPECT_FALSE(read.error().hint.empty());
  return read.error().code;
}

TEST(Snapshot, KeepsTheEmbeddersPart) {
  const auto read = Snapshot::read(small_snapshot("the embedder's"));
  ASSERT_TRUE(read);
  const auto state = read->embedder_state();
  EXPECT_EQ(std::string(state.begin(), state.end()), "the embedder's");
}

TEST(Snapshot, AForeignFileIsRefused) {
  EXPECT_EQ(code_of({}), ErrorCode::kInvalidInput);
  EXPECT_EQ(code_of(Bytes(1000, 0)), ErrorCode::kInvalidInput);
  const std::string_view text =
      "(module (func (export \"run\"))) and more, so that it is as long as a header";
  EXPECT_EQ(code_of({text.begin(), text.end()}), ErrorCode::kInvalidInput);
}

TEST(Snapshot, AnotherVersionIsRefusedAndNamed) {
  Bytes newer = small_snapshot();
  newer[8] = kNewestSnapshotVersion + 1;
  EXPECT_EQ(code_of(newer), ErrorCode::kUnsupported);
  EXPECT_NE(Snapshot::read(newer).error().message.find("versions 2 to 3"), std::string::npos);
  Bytes other_costs = small_snapshot();
  other_costs[12] ^= 1;
  EXPECT_EQ(code_of(other_costs), ErrorCode::kUnsupported);
}

TEST(Snapshot, ACutFileIsRefusedWhereverItIsCut) {
  const Bytes whole = small_snapshot();
  ASSERT_LT(whole.size(), 10'000u);
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_NE(code_of({whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size)}), ErrorCode::kInternal)
        << size;
  Bytes longer = whole;
  longer.push_back(0);
  EXPECT_EQ(code_of(longer), ErrorCode::kInvalidInput);
}

TEST(Snapshot, AFlippedByteIsRefusedWhereverItIs) {
  Bytes bytes = small_snapshot();
  for (size_t at = 0; at < bytes.size(); ++at) {
    bytes[at] ^= static_cast<uint8_t>(1u << (at % 8));
    EXPECT_NE(code_of(bytes), ErrorCode::kInternal) << at;
    bytes[at] ^= static_cast<uint8_t>(1u << (at % 8));
  }
  EXPECT_TRUE(Snapshot::read(bytes));
}

// -- what is forged: the checksum holds ------------------------------------------------------------------------

// A snapshot with 32 bits changed, `from_end` bytes before the end of a section, and its checksum made right.
Bytes forged(uint32_t section, size_t offset, uint32_t value) {
  Bytes bytes = small_snapshot();
  const auto part = section_of(bytes, section);
  EXPECT_LE(offset + sizeof value, part.size());
  std::memcpy(bytes.data() + (part.data() - bytes.data()) + offset, &value, sizeof value);
  seal(bytes);
  return bytes;
}

constexpr uint32_t kMemorySection = 3, kTableSection = 4, kSegmentSection = 5, kFrameSection = 6;
// In the section of frames: fuel used and owed, entry, host call, count, then two places, then values.
constexpr size_t kEntry = 16, kHostCall = 20, kCount = 24, kFirstPlace = 28, kSecondPlace = 36, kValues = 44;

TEST(Snapshot, ForgedFramesAreRefused) {
  ASSERT_TRUE(Snapshot::read(forged(kFrameSection, 0, 1)));  // the fuel: anybody's word
  for (const auto& [offset, value] :
       std::initializer_list<std::pair<size_t, uint32_t>>{{kEntry, 99},
                                                          {kHostCall, 0},
                                                          {kHostCall, 99},
                                                          {kCount, 0},
                                                          {kCount, 1},
                                                          {kCount, 3},
                                                          {kCount, UINT32_MAX},
                                                          {kCount, 1u << 28},
                                                          {kFirstPlace, 0},
                                                          {kFirstPlace, 99},
                                                          {kFirstPlace + 4, 0},
                                                          {kFirstPlace + 4, UINT32_MAX},
                                                          {kSecondPlace, 1},
                                                          {kSecondPlace, UINT32_MAX},
                                                          {kSecondPlace + 4, 1},
                                                          {kSecondPlace + 4, UINT32_MAX}})
    EXPECT_EQ(code_of(forged(kFrameSection, offset, value)), ErrorCode::kInvalidInput)
        << offset << " " << value;
  // Values of the frames: i32, f64, operand i32; then i32, and the reference.
  constexpr size_t kReference = kValues + 4 + 8 + 4 + 4;
  EXPECT_TRUE(Snapshot::read(forged(kFrameSection, kReference, 2)));
  EXPECT_EQ(code_of(forged(kFrameSection, kReference, 3)), ErrorCode::kInvalidInput)
      << "there are two functions";
  EXPECT_EQ(code_of(forged(kFrameSection, kReference + 4, 1)), ErrorCode::kInvalidInput) << "high bits";
}

TEST(Snapshot, ForgedSizesAreRefusedBeforeAnythingIsAllocated) {
  for (const uint32_t pages : {0u, 3u, 65536u, UINT32_MAX})
    EXPECT_EQ(code_of(forged(kMemorySection, 1, pages)), ErrorCode::kInvalidInput) << pages;
  for (const uint32_t offset : {65536u, 131072u, UINT32_MAX})
    EXPECT_EQ(code_of(forged(kMemorySection, 5, offset)), ErrorCode::kInvalidInput) << offset;
  EXPECT_EQ(code_of(forged(kMemorySection, 13, UINT32_MAX)), ErrorCode::kInvalidInput);
  for (const uint32_t count : {0u, 1u, 3u, 5u, UINT32_MAX})
    EXPECT_EQ(code_of(forged(kTableSection, 0, count)), ErrorCode::kInvalidInput) << count;
  EXPECT_EQ(code_of(forged(kTableSection, 4, 3)), ErrorCode::kInvalidInput) << "there are two functions";
}

TEST(Snapshot, AMemoryBeyondTheLimitIsRefused) {
  const auto snapshot = Snapshot::read(forged(kMemorySection, 1, 2));
  ASSERT_TRUE(snapshot) << "the module allows two pages";
  Store store;
  InstanceLimits limits;
  limits.memory_bytes = 65536;
  const auto instance = snapshot->instantiate(store, {}, limits);
  ASSERT_FALSE(instance);
  EXPECT_EQ(instance.error().kind, LinkError::Kind::kLimit);
}

// Every 32-bit word of the engine's sections, changed to what an attacker would try: nothing crashes, whether
// it is refused or runs.
TEST(Snapshot, NoForgedWordCrashes) {
  const Bytes whole = small_snapshot();
  for (uint32_t section = 2; section <= kFrameSection; ++section)
    for (size_t at = 0; at + 4 <= section_of(whole, section).size(); at += section == kMemorySection ? 61 : 1)
      for (const uint32_t value : {0u, 1u, 0x7FFFFFFFu, UINT32_MAX})
        resume_a_little(forged(section, at, value), Tier::kAuto);
}

// A recursion through places that a forged file names at will takes time by what the file has, not by its
// product with the size of the code.
TEST(Snapshot, ManyFramesInALargeFunctionAreReadInTime) {
  std::string text = "(module (func $f (export \"run\") (param i32) ";
  for (int i = 0; i < 4'000; ++i) text += "(call $f (i32.const 1)) ";
  text += "))";
  const auto instance = instantiate(text);
  ExecutionLimits limits;
  limits.call_depth = 4'000;
  Execution run(limits);
  const Value argument = Value::i32(1);
  ASSERT_TRUE(run.start(instance->find_function("run"), {&argument, 1}));
  run.add_fuel(7'000);
  while (run.resume() == RunState::kOutOfFuel && run.backtrace().size() < 64) run.add_fuel(1);
  const auto bytes = freeze(run, *instance);
  ASSERT_TRUE(bytes);
  const auto snapshot = Snapshot::read(*bytes);
  ASSERT_TRUE(snapshot);
  Store store;
  const auto again = snapshot->instantiate(store, {}, {});
  Execution rest(limits);
  EXPECT_TRUE(snapshot->resume_in(rest, **again));
}

}  // namespace
}  // namespace membrane::engine
