// Calls, pauses, traps and fuel, at the face of the engine.

#include <gtest/gtest.h>

#include <limits>
#include <string_view>
#include <thread>
#include <utility>

#include "engine/testing/call_testing.h"
#include "engine/testing/engine_testing.h"

namespace membrane::engine {
namespace {

constexpr uint64_t kPlenty = 1'000'000;

// Loops, calls, tables, bulk operations and branches with values: what can pause, pauses somewhere here.
constexpr std::string_view kBusy = R"((module
  (memory (export "memory") 1)
  (table funcref (elem $double $square))
  (type $unary (func (param i32) (result i32)))
  (global $count (mut i32) (i32.const 0))
  (func $double (param i32) (result i32) (i32.shl (local.get 0) (i32.const 1)))
  (func $square (param i32) (result i32) (i32.mul (local.get 0) (local.get 0)))
  (func $pair (param i32 i32) (result i32 i32) (local.get 1) (local.get 0))
  (func $fib (param i32) (result i32)
    (if (result i32) (i32.lt_s (local.get 0) (i32.const 2))
      (then (local.get 0))
      (else (i32.add (call $fib (i32.sub (local.get 0) (i32.const 1))) (call $fib (i32.sub (local.get 0) (i32.const 2)))))))
  (func (export "run") (param $n i32) (result i32)
    (local $i i32) (local $sum i32)
    (block $done
      (loop $next
        (br_if $done (i32.ge_u (local.get $i) (local.get $n)))
        (memory.fill (i32.mul (local.get $i) (i32.const 64)) (local.get $i) (i32.const 40))
        (memory.copy (i32.const 1024) (i32.mul (local.get $i) (i32.const 64)) (i32.const 33))
        (local.set $sum (i32.add (local.get $sum)
          (call_indirect (type $unary) (local.get $i) (i32.and (local.get $i) (i32.const 1)))))
        (local.set $sum (i32.add (local.get $sum) (i32.load8_u offset=1024 (local.get $i))))
        (local.set $sum (i32.sub (call $pair (local.get $sum) (i32.const 3))))
        (global.set $count (i32.add (global.get $count) (i32.const 1)))
        (block $a (block $b (block $c (br_table $a $b $c (local.get $i))) (local.set $sum (i32.add (local.get $sum) (i32.const 5))))
          (local.set $sum (i32.xor (local.get $sum) (i32.const 9))))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br $next)))
    (i32.add (local.get $sum) (call $fib (i32.const 7)))))
)";

TEST(Fuel, ARunThatPausesAfterEveryUnitEndsLikeOneThatNeverDoes) {
  const auto module = compile(kBusy);
  const auto whole = Instance::create(module, {}, {});
  const Ended reference = call(**whole, "run", {Value::i32(10)});
  ASSERT_EQ(reference.state, RunState::kFinished);

  const auto stepped = Instance::create(module, {}, {});
  Execution run;
  const Value n = Value::i32(10);
  ASSERT_TRUE(run.start((*stepped)->find_function("run"), {&n, 1}));
  uint64_t pauses = 0;
  while (run.resume() == RunState::kOutOfFuel) {
    ++pauses;
    run.add_fuel(1);
  }
  ASSERT_EQ(run.state(), RunState::kFinished);
  EXPECT_GT(pauses, 100u);
  EXPECT_EQ(run.fuel_used(), reference.fuel);
  EXPECT_EQ(run.results()[0].bits, reference.results[0]);
  EXPECT_TRUE(std::ranges::equal((*stepped)->memory()->bytes(), (*whole)->memory()->bytes()));
}

// Where each frame is at each pause of a run that is given one unit at a time.
std::vector<std::vector<std::pair<uint32_t, uint32_t>>> places_of_pauses(Tier tier) {
  const auto instance = instantiate(kBusy, {}, {}, tier);
  Execution run;
  const Value n = Value::i32(5);
  EXPECT_TRUE(run.start(instance->find_function("run"), {&n, 1}));
  std::vector<std::vector<std::pair<uint32_t, uint32_t>>> pauses;
  while (run.resume() == RunState::kOutOfFuel) {
    auto& frames = pauses.emplace_back();
    for (const CodePlace& place : run.backtrace()) frames.emplace_back(place.function, place.code_offset);
    run.add_fuel(1);
  }
  EXPECT_EQ(run.state(), RunState::kFinished);
  return pauses;
}

TEST(Fuel, IsOverAtTheSamePlaceInEveryTier) {
  const auto places = places_of_pauses(Tier::kInterpreter);
  EXPECT_GT(places.size(), 100u);
  EXPECT_EQ(places_of_pauses(Tier::kCompiler), places);
  EXPECT_EQ(places_of_pauses(Tier::kAuto), places);
}

TEST(Fuel, ExactlyEnoughIsEnoughAndOneLessIsNot) {
  const auto instance = instantiate(kBusy);
  const uint64_t needed = call(*instance, "run", {Value::i32(6)}).fuel;
  EXPECT_EQ(call(*instantiate(kBusy), "run", {Value::i32(6)}, needed).state, RunState::kFinished);
  const Ended short_of_one = call(*instantiate(kBusy), "run", {Value::i32(6)}, needed - 1);
  EXPECT_EQ(short_of_one.state, RunState::kOutOfFuel);
  EXPECT_LT(short_of_one.fuel, needed);
}

TEST(Fuel, CountsEachInstructionOnceAndStructureNot) {
  const auto instance = instantiate(R"((module
    (func (export "two") (result i32) (i32.add (i32.const 1) (i32.const 1)))
    (func (export "block") (block (block (nop))))
    (func (export "loop") (local i32)
      (loop $l (br_if $l (i32.lt_u (local.tee 0 (i32.add (local.get 0) (i32.const 1))) (i32.const 10)))))))");
  EXPECT_EQ(call(*instance, "two").fuel, 3u);
  EXPECT_EQ(call(*instance, "block").fuel, 0u);
  EXPECT_EQ(call(*instance, "loop").fuel, 70u);
}

TEST(Fuel, ATrapGivesBackWhatWasNotExecuted) {
  const auto instance = instantiate(R"((module (memory 1)
    (func (export "divide") (param i32) (result i32)
      (drop (i32.add (i32.const 1) (i32.const 2)))
      (i32.div_u (i32.const 1) (local.get 0))
      (drop) (i32.const 1) (i32.const 2) (drop) (drop) (i32.const 7))
    (func (export "load") (param i32) (result i32)
      (i32.load (local.get 0)) (i32.load offset=4 (local.get 0)) (i32.add) (i32.const 3) (i32.mul))
    (func (export "stop") (unreachable) (drop (i32.const 1)))))");
  EXPECT_EQ(call(*instance, "divide", {Value::i32(0)}).fuel, 7u);
  EXPECT_EQ(call(*instance, "divide", {Value::i32(1)}).fuel, 13u);
  EXPECT_EQ(call(*instance, "load", {Value::i32(65530)}).fuel, 4u);
  EXPECT_EQ(call(*instance, "load", {Value::i32(70000)}).fuel, 2u);
  EXPECT_EQ(call(*instance, "stop").fuel, 1u);
}

TEST(Fuel, BulkOperationsPayByTheByteAndPauseBeforeTheyBegin) {
  const auto instance = instantiate(R"((module (memory (export "memory") 1)
    (func (export "fill") (param i32) (memory.fill (i32.const 0) (i32.const 1) (local.get 0)))
    (func (export "grow") (param i32) (result i32) (memory.grow (local.get 0)))))");
  EXPECT_EQ(call(*instance, "fill", {Value::i32(0)}).fuel, 4u);
  EXPECT_EQ(call(*instance, "fill", {Value::i32(160)}).fuel, 14u);
  EXPECT_EQ(call(*instance, "fill", {Value::i32(161)}).fuel, 15u);
  const auto fresh = instantiate(R"((module (memory (export "memory") 1)
    (func (export "fill") (param i32) (memory.fill (i32.const 0) (i32.const 1) (local.get 0)))))");
  EXPECT_EQ(call(*fresh, "fill", {Value::i32(160)}, 13).state, RunState::kOutOfFuel);
  EXPECT_EQ(fresh->memory()->base()[0], 0);
  EXPECT_EQ(call(*instance, "grow", {Value::i32(2)}).fuel, 2u + 128);
  EXPECT_EQ(call(*instance, "grow", {Value::i32(70000)}).fuel, 2u);
}

TEST(Fuel, WraparoundIsNotPossible) {
  const auto instance = instantiate("(module (func (export \"run\") (result i32) (i32.const 7)))");
  Execution run;
  run.add_fuel(std::numeric_limits<uint64_t>::max());
  run.add_fuel(std::numeric_limits<uint64_t>::max());
  ASSERT_TRUE(run.start(instance->find_function("run"), {}));
  EXPECT_EQ(run.resume(), RunState::kFinished);
  EXPECT_EQ(run.fuel_used(), 1u);
  EXPECT_LE(run.fuel_left(), static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
}

TEST(Fuel, ManyLocalsArePaidForAtEveryCall) {
  std::string text = "(module (func (export \"run\") (local";
  for (int i = 0; i < 800; ++i) text += " i64";
  const auto instance = instantiate(text + ")))");
  EXPECT_EQ(call(*instance, "run").fuel, 100u);
}

TEST(Trap, HasItsPlaceAndTheCallsThatLedToIt) {
  constexpr std::string_view kText = R"((module
  (func $inner (param i32) (result i32)
    (i32.rem_s (i32.const 7) (local.get 0)))
  (func $outer (export "run") (param i32) (result i32)
    (i32.add (i32.const 1)
             (call $inner (local.get 0))))))";
  const auto instance = instantiate(kText);
  Execution run;
  run.add_fuel(kPlenty);
  const Value zero = Value::i32(0);
  ASSERT_TRUE(run.start(instance->find_function("run"), {&zero, 1}));
  ASSERT_EQ(run.resume(), RunState::kTrapped);
  EXPECT_EQ(run.trap().kind, TrapKind::kIntegerDivideByZero);
  ASSERT_EQ(run.trap().backtrace.size(), 2u);
  EXPECT_EQ(run.trap().backtrace[0].function_name, "inner");
  EXPECT_EQ(locate(kText, run.trap().backtrace[0].text_offset).line, 3u);
  EXPECT_EQ(run.trap().backtrace[1].function_name, "outer");
  EXPECT_EQ(locate(kText, run.trap().backtrace[1].text_offset).line, 6u);
}

TEST(Trap, ARecursionHasThePlaceOfEachOfItsCalls) {
  constexpr std::string_view kText = R"((module
  (func $f (export "run") (param i32)
    (if (i32.eqz (local.get 0)) (then (unreachable)))
    (if (i32.and (local.get 0) (i32.const 1))
      (then (call $f (i32.sub (local.get 0) (i32.const 1))))
      (else (call $g (i32.sub (local.get 0) (i32.const 1))))))
  (func $g (param i32)
    (call $f (local.get 0)))))";
  const auto instance = instantiate(kText);
  Execution run;
  run.add_fuel(kPlenty);
  const Value four = Value::i32(4);
  ASSERT_TRUE(run.start(instance->find_function("run"), {&four, 1}));
  ASSERT_EQ(run.resume(), RunState::kTrapped);
  std::vector<uint32_t> lines;
  for (const CodePlace& place : run.trap().backtrace) lines.push_back(locate(kText, place.text_offset).line);
  EXPECT_EQ(lines, (std::vector<uint32_t>{3, 5, 8, 6, 5, 8, 6}));
}

TEST(Trap, EveryAccessBeyondTheMemoryIsCaught) {
  const auto instance = instantiate(R"((module (memory 1)
    (func (export "load8") (param i32) (drop (i32.load8_u (local.get 0))))
    (func (export "load64") (param i32) (drop (i64.load (local.get 0))))
    (func (export "loadf") (param i32) (drop (f64.load offset=4294967295 (local.get 0))))
    (func (export "loadk") (param i32) (drop (i32.load offset=8 (i32.add (local.get 0) (i32.const 16)))))
    (func (export "store16") (param i32) (i32.store16 (local.get 0) (i32.const 1)))
    (func (export "storef") (param i32) (f32.store offset=2147483648 (local.get 0) (f32.const 1)))))");
  const auto traps = [&](std::string_view name, uint32_t address) {
    return call(*instance, name, {Value::i32(address)}).trap == "out of bounds memory access";
  };
  EXPECT_FALSE(traps("load8", 65535));
  EXPECT_TRUE(traps("load8", 65536));
  EXPECT_TRUE(traps("load8", UINT32_MAX));
  EXPECT_FALSE(traps("load64", 65528));
  EXPECT_TRUE(traps("load64", 65529));
  EXPECT_TRUE(traps("loadf", 0));
  EXPECT_TRUE(traps("loadf", UINT32_MAX));
  EXPECT_FALSE(traps("loadk", 65508));
  EXPECT_TRUE(traps("loadk", 65509));
  EXPECT_FALSE(traps("loadk", UINT32_MAX)) << "the addition wraps, the offset does not";
  EXPECT_FALSE(traps("store16", 65534));
  EXPECT_TRUE(traps("store16", 65535));
  EXPECT_TRUE(traps("storef", UINT32_MAX));
}

TEST(Trap, AStoreOverTheEndOfTheMemoryWritesNothing) {
  const auto instance = instantiate(R"((module (memory 1)
    (func (export "2") (param i32) (i32.store16 (local.get 0) (i32.const -1)))
    (func (export "4") (param i32) (i32.store (local.get 0) (i32.const -1)))
    (func (export "4f") (param i32) (f32.store (local.get 0) (f32.const -1.1)))
    (func (export "8") (param i32) (i64.store (local.get 0) (i64.const -1)))
    (func (export "8f") (param i32) (f64.store (local.get 0) (f64.const -1.1)))
    (func (export "16") (param i32) (v128.store (local.get 0) (v128.const i64x2 -1 -1)))
    (func (export "8lane") (param i32) (v128.store64_lane 1 (local.get 0) (v128.const i64x2 -1 -1)))
    (func (export "last") (param i32) (result i64) (i64.load (local.get 0)))))");
  const std::pair<std::string_view, uint32_t> stores[] = {{"2", 2},  {"4", 4},   {"4f", 4},   {"8", 8},
                                                          {"8f", 8}, {"16", 16}, {"8lane", 8}};
  for (const auto& [name, width] : stores) {
    for (uint32_t outside = 1; outside <= width; ++outside) {
      EXPECT_EQ(call(*instance, name, {Value::i32(65536 - width + outside)}).trap,
                "out of bounds memory access");
      for (const uint32_t at : {65520u, 65528u})
        EXPECT_EQ(call(*instance, "last", {Value::i32(at)}).results[0], 0u) << name << ": " << outside;
    }
  }
}

TEST(Limits, RecursionEndsInATrapAndTheInstanceStaysUsable) {
  const auto instance = instantiate(R"((module
    (func $down (export "down") (param i32) (result i32)
      (if (result i32) (local.get 0) (then (call $down (i32.sub (local.get 0) (i32.const 1)))) (else (i32.const 9))))
    (func $wide (export "wide") (local i64 i64 i64 i64 i64 i64 i64 i64) (call $wide))))");
  EXPECT_EQ(call(*instance, "down", {Value::i32(5000)}).results[0], 9u);
  EXPECT_EQ(call(*instance, "down", {Value::i32(UINT32_MAX)}).trap, "call stack exhausted");
  EXPECT_EQ(call(*instance, "wide").trap, "call stack exhausted");
  EXPECT_EQ(call(*instance, "down", {Value::i32(3)}).results[0], 9u);
}

TEST(Limits, MemoryGrowsToTheLimitAndNoFurther) {
  InstanceLimits limits;
  limits.memory_bytes = uint64_t{4} * wasm::kPageBytes;
  const auto instance = instantiate(
      "(module (memory 1) (func (export \"grow\") (param i32) (result i32) (memory.grow (local.get 0))))", {},
      limits);
  EXPECT_EQ(call(*instance, "grow", {Value::i32(3)}).results[0], 1u);
  EXPECT_FALSE(instance->limit_was_hit());
  EXPECT_EQ(call(*instance, "grow", {Value::i32(1)}).results[0], UINT32_MAX);
  EXPECT_TRUE(instance->limit_was_hit());
  const auto module = compile("(module (memory 5))");
  const auto refused = Instance::create(module, {}, limits);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, LinkError::Kind::kLimit);
}

TEST(Limits, MemoryGrowsToTheEndOfItsAddressesAndNoFurther) {
  InstanceLimits limits;
  limits.memory_bytes = uint64_t{4} << 30;
  const auto instance = instantiate(R"((module (memory 0)
      (func (export "grow") (param i32) (result i32) (memory.grow (local.get 0)))
      (func (export "last") (result i32)
        (i32.store8 (i32.const -1) (i32.const 7)) (i32.load8_u (i32.const -1)))))",
                                    {}, limits);
  EXPECT_EQ(call(*instance, "grow", {Value::i32(65'536)}, 1'000'000'000).results.at(0), 0u);
  EXPECT_EQ(instance->memory_bytes(), uint64_t{4} << 30);
  EXPECT_EQ(call(*instance, "last", {}).results[0], 7u);
  EXPECT_FALSE(instance->limit_was_hit());
  EXPECT_EQ(call(*instance, "grow", {Value::i32(1)}).results[0], UINT32_MAX);
  EXPECT_TRUE(instance->limit_was_hit());
}

TEST(Limits, TheTablesOfAnInstanceShareTheirLimit) {
  InstanceLimits limits;
  limits.table_elements = 10;
  const auto instance = instantiate(R"((module (table $a 3 funcref) (table $b 3 externref)
    (func (export "a") (param i32) (result i32) (table.grow $a (ref.null func) (local.get 0)))
    (func (export "b") (param i32) (result i32) (table.grow $b (ref.null extern) (local.get 0)))))",
                                    {}, limits);
  EXPECT_EQ(call(*instance, "a", {Value::i32(5)}).results[0], UINT32_MAX);
  EXPECT_EQ(call(*instance, "a", {Value::i32(3)}).results[0], 3u);
  EXPECT_EQ(call(*instance, "b", {Value::i32(2)}).results[0], UINT32_MAX);
  EXPECT_EQ(call(*instance, "b", {Value::i32(1)}).results[0], 3u);
  EXPECT_EQ(call(*instance, "a", {Value::i32(0)}).results[0], 6u);
  EXPECT_EQ(call(*instance, "a", {Value::i32(1)}).results[0], UINT32_MAX);
  const auto refused = Instance::create(compile("(module (table 6 funcref) (table 5 funcref))"), {}, limits);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, LinkError::Kind::kLimit);
}

TEST(Limits, APollInterruptsAndTheRunCanGoOn) {
  const auto instance = instantiate(R"((module (func (export "run") (result i32) (local i32)
    (loop $l (br_if $l (i32.lt_u (local.tee 0 (i32.add (local.get 0) (i32.const 1))) (i32.const 5000)))) (local.get 0))))");
  int polls = 0;
  ExecutionLimits limits;
  limits.poll_interval_fuel = 1000;
  limits.poll = [&] { return ++polls % 4 == 0; };
  Execution run(limits);
  run.add_fuel(kPlenty);
  ASSERT_TRUE(run.start(instance->find_function("run"), {}));
  int interruptions = 0;
  while (run.resume() == RunState::kInterrupted) ++interruptions;
  EXPECT_EQ(run.state(), RunState::kFinished);
  EXPECT_GT(interruptions, 5);
  EXPECT_EQ(run.results()[0].bits, 5000u);
  EXPECT_EQ(run.fuel_used(), 5000u * 7 + 1);
}

// -- host functions ---------------------------------------------------------------------

Resolver host_with(Store& store, wasm::FuncType type, HostFunction function) {
  return [&store, type = std::move(type), function = std::move(function)](const wasm::Module&,
                                                                          const wasm::Import&) {
    return std::optional(
        Extern{wasm::ExternKind::kFunc, store.add_host_function(type, function), nullptr, nullptr, nullptr});
  };
}

constexpr std::string_view kCallsHost = R"((module (import "host" "f" (func $f (param i32) (result i32)))
  (func (export "run") (param i32) (result i32) (i32.add (call $f (local.get 0)) (i32.const 1)))))";
const wasm::FuncType kUnary{{wasm::ValType::kI32}, {wasm::ValType::kI32}};

TEST(HostCall, PaysFuelAndPausesBeforeItBegins) {
  Store store;
  int calls = 0;
  const auto instance = store.instantiate(compile(kCallsHost),
                                          host_with(store, kUnary,
                                                    [&](HostCall& call) {
                                                      if (!call.charge(100)) return HostAction::kOutOfFuel;
                                                      ++calls;
                                                      call.results[0] = call.arguments[0] * 2;
                                                      call.owe(10);
                                                      return HostAction::kContinue;
                                                    }),
                                          {});
  ASSERT_TRUE(instance);
  Execution run;
  run.add_fuel(50);
  const Value n = Value::i32(21);
  ASSERT_TRUE(run.start((*instance)->find_function("run"), {&n, 1}));
  EXPECT_EQ(run.resume(), RunState::kOutOfFuel);
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(run.fuel_used(), 2u);
  run.add_fuel(1000);
  EXPECT_EQ(run.resume(), RunState::kFinished);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(run.results()[0].bits, 43u);
  EXPECT_EQ(run.fuel_used(), 4u + 110);
}

TEST(HostCall, CanTrapAndExit) {
  Store store;
  const auto instance = store.instantiate(compile(kCallsHost),
                                          host_with(store, kUnary,
                                                    [&](HostCall& call) {
                                                      if (call.arguments[0] == 0) return HostAction::kExit;
                                                      call.trap_message = "no such luck";
                                                      return HostAction::kTrap;
                                                    }),
                                          {});
  ASSERT_TRUE(instance);
  EXPECT_EQ(call(**instance, "run", {Value::i32(0)}).state, RunState::kExited);
  const Ended trapped = call(**instance, "run", {Value::i32(1)});
  EXPECT_EQ(trapped.state, RunState::kTrapped);
  EXPECT_EQ(trapped.trap, "no such luck");
}

TEST(HostCall, MayRunAnotherGuestMeanwhile) {
  const auto inner =
      instantiate("(module (memory 1) (func (export \"run\") (result i32) (i32.load (i32.const 70000))))");
  Store store;
  const auto outer =
      store.instantiate(compile(R"((module (import "host" "f" (func $f (param i32) (result i32))) (memory 1)
    (func (export "run") (param i32) (result i32) (i32.add (call $f (local.get 0)) (i32.load (i32.const 80000))))))"),
                        host_with(store, kUnary,
                                  [&](HostCall& c) {
                                    EXPECT_EQ(call(*inner, "run").trap, "out of bounds memory access");
                                    c.results[0] = 1;
                                    return HostAction::kContinue;
                                  }),
                        {});
  ASSERT_TRUE(outer);
  EXPECT_EQ(call(**outer, "run", {Value::i32(0)}).trap, "out of bounds memory access");
}

TEST(Linking, CallsAcrossInstancesSwitchMemoryAndBack) {
  Store store;
  const auto library = store.instantiate(compile(R"((module (memory (export "memory") 1)
    (func (export "peek") (param i32) (result i32) (i32.load8_u (local.get 0)))))"),
                                         {}, {});
  ASSERT_TRUE(library);
  (*library)->memory()->base()[5] = 77;
  const auto user = store.instantiate(
      compile(R"((module (import "lib" "peek" (func $peek (param i32) (result i32)))
    (memory (export "memory") 1)
    (func (export "run") (result i32)
      (i32.store8 (i32.const 5) (i32.const 1))
      (i32.add (call $peek (i32.const 5)) (i32.load8_u (i32.const 5))))
    (func (export "trap") (result i32) (call $peek (i32.const 99999)))))"),
      [&](const wasm::Module&, const wasm::Import& import) { return (*library)->find_export(import.name); },
      {});
  ASSERT_TRUE(user);
  EXPECT_EQ(call(**user, "run").results[0], 78u);
  EXPECT_EQ(call(**user, "trap").trap, "out of bounds memory access");
}

// Its first element segment stays in the other's table (specification, 4.5.4), and so do its functions.
TEST(Linking, FunctionsOfAnInstanceThatCouldNotBeMadeRun) {
  Store store;
  const auto host = store.instantiate(compile(R"((module (table (export "t") 2 funcref)
    (func (export "run") (call_indirect (i32.const 0)))))"),
                                      {}, {});
  ASSERT_TRUE(host);
  const auto failed = store.instantiate(
      compile(R"((module (import "host" "t" (table 2 funcref)) (memory 1) (data $d "abc")
    (func $f (memory.init $d (i32.const 0) (i32.const 0) (i32.const 3)) (data.drop $d)
      (memory.init $d (i32.const 0) (i32.const 0) (i32.const 1)))
    (elem (i32.const 0) $f) (elem (i32.const 9) $f)))"),
      [&](const wasm::Module&, const wasm::Import& import) { return (*host)->find_export(import.name); }, {});
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().trap, TrapKind::kTableOutOfBounds);
  EXPECT_EQ(call(**host, "run").trap, "out of bounds memory access");
}

// -- many at once ---------------------------------------------------------------------------

TEST(Determinism, ThreadsThatShareAModuleAgree) {
  const auto module = compile(kBusy);
  const auto reference = Instance::create(module, {}, {});
  const Ended expected = call(**reference, "run", {Value::i32(12)});
  std::vector<std::thread> threads;
  std::atomic<int> differences = 0;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        const auto instance = Instance::create(module, {}, {});
        const Ended found = call(**instance, "run", {Value::i32(12)});
        if (found.fuel != expected.fuel || found.results != expected.results) ++differences;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(differences, 0);
}

TEST(Memory, RegionsComeBackEmpty) {
  const RegionPool::Count before = RegionPool::instance().count();
  for (int i = 0; i < 3; ++i) {
    const auto instance = instantiate("(module (memory 2))");
    for (const uint8_t byte : instance->memory()->bytes()) ASSERT_EQ(byte, 0);
    std::ranges::fill(instance->memory()->bytes(), uint8_t{0xAB});
  }
  EXPECT_EQ(RegionPool::instance().count().in_use, before.in_use);
}

TEST(Native, LongLoopsDoNotUseTheHostStack) {
  // Each operation of the loop jumps to the next; one that called instead would overflow in a moment.
  const auto instance = instantiate(
      R"((module (memory 1) (func (export "run") (result f64) (local $i i32) (local $x f64) (local $l i64)
    (loop $next
      (local.set $x (f64.add (f64.mul (local.get $x) (f64.const 0.5)) (f64.convert_i32_u (local.get $i))))
      (f64.store (i32.and (local.get $i) (i32.const 0xff8)) (local.get $x))
      (local.set $l (i64.add (i64.load (i32.and (local.get $i) (i32.const 0xff8))) (i64.extend_i32_u (local.get $i))))
      (local.set $x (select (local.get $x) (f64.load (i32.const 8)) (i32.wrap_i64 (local.get $l))))
      (local.set $x (f64.sqrt (f64.abs (local.get $x))))
      (br_if $next (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 2000000))))
    (local.get $x))))");
  EXPECT_EQ(call(*instance, "run", {}, 1'000'000'000).state, RunState::kFinished);
}

}  // namespace
}  // namespace membrane::engine
