// Tail calls: how deep they go, between instances, into the host, with pauses and traps.

#include <gtest/gtest.h>

#include <string>

#include "engine/testing/engine_testing.h"

namespace membrane::engine {
namespace {

MEMBRANE_IN_BOTH_TIERS(TailCall);

Execution& run_to_end(Execution& run, FunctionInstance* function, std::vector<Value> arguments,
                      uint64_t fuel = 100'000'000) {
  run.add_fuel(fuel);
  EXPECT_TRUE(run.start(function, arguments));
  run.resume();
  return run;
}

constexpr std::string_view kEvenOdd = R"((module
  (type $step (func (param i64) (result i32)))
  (table funcref (elem $even $odd))
  (func $even (export "even") (param i64) (result i32)
    (if (i64.eqz (local.get 0)) (then (return (i32.const 1))))
    (return_call $odd (i64.sub (local.get 0) (i64.const 1))))
  (func $odd (param i64) (result i32) (local i64 i64 i64 i64)
    (if (i64.eqz (local.get 0)) (then (return (i32.const 0))))
    (return_call_indirect (type $step) (i64.sub (local.get 0) (i64.const 1)) (i32.const 0)))))";

ExecutionLimits small_stack(uint32_t call_depth) {
  ExecutionLimits limits;
  limits.stack_bytes = 4096;
  limits.call_depth = call_depth;
  return limits;
}

TEST_P(TailCall, AMillionDeepNeedsOneFrame) {
  const auto instance = made(kEvenOdd);
  Execution run(small_stack(2));
  run_to_end(run, instance->find_function("even"), {Value::i64(1'000'001)});
  ASSERT_EQ(run.state(), RunState::kFinished);
  EXPECT_EQ(run.results()[0].bits, 0u);
}

TEST_P(TailCall, PausesAnywhereAndCostsWhatItCosts) {
  const auto instance = made(kEvenOdd);
  Execution whole, stepped;
  run_to_end(whole, instance->find_function("even"), {Value::i64(3)});
  // Three calls of 7 (get, eqz, if, get, const, sub, call; one constant more for the index), and the last's
  // get, eqz, if, const, return.
  EXPECT_EQ(whole.fuel_used(), 7u + 8 + 7 + 5);
  const Value n = Value::i64(3);
  ASSERT_TRUE(stepped.start(instance->find_function("even"), {&n, 1}));
  while (stepped.resume() == RunState::kOutOfFuel) stepped.add_fuel(1);
  EXPECT_EQ(stepped.fuel_used(), whole.fuel_used());
  EXPECT_EQ(stepped.results()[0].bits, 0u);
}

TEST_P(TailCall, ArgumentsMayOverlapTheFrame) {
  const auto instance = made(R"((module
    (func $reverse (param i32 i32 i32) (result i32 i32 i32) (local.get 2) (local.get 1) (local.get 0))
    (func (export "run") (param i32 i32 i32) (result i32 i32 i32)
      (return_call $reverse (local.get 1) (local.get 2) (local.get 0)))))");
  Execution run;
  run_to_end(run, instance->find_function("run"), {Value::i32(1), Value::i32(2), Value::i32(3)});
  ASSERT_EQ(run.results().size(), 3u);
  EXPECT_EQ(run.results()[0].bits, 1u);
  EXPECT_EQ(run.results()[1].bits, 3u);
  EXPECT_EQ(run.results()[2].bits, 2u);
}

// Two modules that end in each other, each with a memory of its own.
struct PingPong {
  Store store;
  Instance* ping = nullptr;
  Instance* pong = nullptr;
  PingPong(Tier ping_tier, Tier pong_tier) {
    const auto resolver = [this](const wasm::Module&, const wasm::Import& import) {
      return ping->find_export(import.name);
    };
    ping = *store.instantiate(compile(R"((module
      (type $step (func (param i32) (result i32)))
      (memory 1) (data (i32.const 0) "\07")
      (table (export "table") 1 funcref)
      (func (export "ping") (param i32) (result i32)
        (if (i32.eqz (local.get 0)) (then (return (i32.load8_u (i32.const 0)))))
        (return_call_indirect (type $step) (i32.sub (local.get 0) (i32.const 1)) (i32.const 0)))
      (func (export "around") (param i32) (result i32)
        (i32.add (call_indirect (type $step) (local.get 0) (i32.const 0)) (i32.load8_u (i32.const 0)))))
      )",
                                      ping_tier),
                              {}, {});
    pong = *store.instantiate(compile(R"((module
      (import "ping" "ping" (func $ping (param i32) (result i32)))
      (import "ping" "table" (table 1 funcref))
      (elem (i32.const 0) $pong)
      (memory 1) (data (i32.const 0) "\09")
      (func $pong (export "pong") (param i32) (result i32)
        (if (i32.eqz (local.get 0)) (then (return (i32.load8_u (i32.const 0)))))
        (if (i32.eq (local.get 0) (i32.const 200001)) (then (unreachable)))
        (return_call $ping (i32.sub (local.get 0) (i32.const 1))))))",
                                      pong_tier),
                              resolver, {});
  }
};

TEST_P(TailCall, InstancesThatEndInEachOtherNeedOneCrossing) {
  for (const Tier other : {Tier::kInterpreter, Tier::kCompiler}) {
    PingPong both(GetParam(), other);
    for (const uint32_t n : {100'000u, 100'001u}) {
      Execution run(small_stack(4));
      run_to_end(run, both.ping->find_function("ping"), {Value::i32(n)});
      ASSERT_EQ(run.state(), RunState::kFinished) << n;
      EXPECT_EQ(run.results()[0].bits, n % 2 == 0 ? 7u : 9u);
    }
    Execution around(small_stack(5));  // and back to the memory of who called
    run_to_end(around, both.ping->find_function("around"), {Value::i32(100'001)});
    ASSERT_EQ(around.state(), RunState::kFinished);
    EXPECT_EQ(around.results()[0].bits, 7u + 7);
  }
}

TEST_P(TailCall, ATrapAfterACrossingHasItsCallersOnly) {
  PingPong both(GetParam(), GetParam());
  Execution run;
  run_to_end(run, both.ping->find_function("ping"), {Value::i32(200'002)});
  ASSERT_EQ(run.state(), RunState::kTrapped);
  EXPECT_EQ(run.trap().backtrace.size(), 1u);
  Execution around;
  run_to_end(around, both.ping->find_function("around"), {Value::i32(200'001)});
  ASSERT_EQ(around.state(), RunState::kTrapped);
  EXPECT_EQ(around.trap().backtrace.size(), 2u);
}

TEST_P(TailCall, IntoTheHostPausesAndReturnsForTheFrame) {
  Store store;
  wasm::FuncType type{{wasm::ValType::kI32}, {wasm::ValType::kI32}};
  FunctionInstance* const host = store.add_host_function(type, [](HostCall& call) {
    if (!call.charge(100)) return HostAction::kOutOfFuel;
    call.results[0] = call.arguments[0] * 2;
    return HostAction::kInterrupt;
  });
  const auto instance =
      store.instantiate(compiled(R"((module (import "a" "f" (func $f (param i32) (result i32)))
        (func $inner (param i32) (result i32) (return_call $f (i32.add (local.get 0) (i32.const 1))))
        (func (export "run") (param i32) (result i32) (i32.add (call $inner (local.get 0)) (i32.const 1)))))"),
                        [&](const wasm::Module&, const wasm::Import&) {
                          return Extern{wasm::ExternKind::kFunc, host, nullptr, nullptr, nullptr};
                        },
                        {});
  ASSERT_TRUE(instance);
  Execution run;
  run.add_fuel(50);
  const Value n = Value::i32(20);
  ASSERT_TRUE(run.start((*instance)->find_function("run"), {&n, 1}));
  EXPECT_EQ(run.resume(), RunState::kOutOfFuel);
  run.add_fuel(1000);
  EXPECT_EQ(run.resume(), RunState::kInterrupted);
  EXPECT_EQ(run.resume(), RunState::kFinished);
  EXPECT_EQ(run.results()[0].bits, 43u);
}

// The frame of the callee does not fit: that is a trap of the call, with the frame that made it.
TEST_P(TailCall, AFrameThatDoesNotFitTrapsAtTheCall) {
  std::string locals;
  for (int i = 0; i < 600; ++i) locals += " i64";
  const std::string text = R"((module
    (type $step (func (param i32) (result i32)))
    (table funcref (elem $large))
    (func $large (param i32) (result i32) (local)" +
                           locals +
                           R"() (local.get 0))
    (func $direct (param i32) (result i32) (nop) (return_call $large (local.get 0)))
    (func $indirect (param i32) (result i32)
      (nop) (nop) (return_call_indirect (type $step) (local.get 0) (i32.const 0)))
    (func $forward (param i32) (result i32) (nop) (nop) (nop) (return_call $later (local.get 0)))
    (func $later (param i32) (result i32) (local)" +
                           locals +
                           R"() (local.get 0))
    (func (export "forward") (param i32) (result i32) (i32.add (call $forward (local.get 0)) (i32.const 1)))
    (func (export "direct") (param i32) (result i32) (i32.add (call $direct (local.get 0)) (i32.const 1)))
    (func (export "indirect") (param i32) (result i32) (i32.add (call $indirect (local.get 0)) (i32.const 1))))
    )";
  const auto instance = made(text), interpreted = instantiate(text, {}, {}, Tier::kInterpreter);
  for (const char* const name : {"direct", "forward", "indirect"}) {
    Execution run(small_stack(10)), expected(small_stack(10)), enough;
    run_to_end(run, instance->find_function(name), {Value::i32(3)});
    run_to_end(expected, interpreted->find_function(name), {Value::i32(3)});
    ASSERT_EQ(run.state(), RunState::kTrapped);
    EXPECT_EQ(run.trap().kind, TrapKind::kStackOverflow);
    EXPECT_EQ(run.fuel_used(), expected.fuel_used());
    ASSERT_EQ(run.trap().backtrace.size(), 2u);
    for (size_t i = 0; i < 2; ++i)
      EXPECT_EQ(run.trap().backtrace[i].code_offset, expected.trap().backtrace.at(i).code_offset);
    run_to_end(enough, instance->find_function(name), {Value::i32(3)});
    ASSERT_EQ(enough.state(), RunState::kFinished);
    EXPECT_EQ(enough.results()[0].bits, 4u);
  }
}

// Code is made again to find a place in it: then the callee, which comes later, is known, as it was not before.
TEST_P(TailCall, TheCodeAfterOneToALaterFunctionHasItsPlace) {
  const std::string text = R"((module
    (func $run (export "run") (param i32 i32) (result i32)
      (if (local.get 0) (then (return_call $later (local.get 1))))
      (i32.div_u (i32.const 1) (local.get 1)))
    (func $later (param i32) (result i32) (local i64 i64 i64 i64) (local.get 0))))";
  const auto instance = made(text), interpreted = instantiate(text, {}, {}, Tier::kInterpreter);
  Execution run, expected;
  run_to_end(run, instance->find_function("run"), {Value::i32(0), Value::i32(0)});
  run_to_end(expected, interpreted->find_function("run"), {Value::i32(0), Value::i32(0)});
  ASSERT_EQ(run.state(), RunState::kTrapped);
  EXPECT_EQ(run.trap().kind, TrapKind::kIntegerDivideByZero);
  EXPECT_EQ(run.fuel_used(), expected.fuel_used());
  ASSERT_EQ(run.trap().backtrace.size(), 1u);
  EXPECT_EQ(run.trap().backtrace[0].code_offset, expected.trap().backtrace.at(0).code_offset);
}

// Arguments from registers, constants, locals in their places and in others', and vectors.
TEST_P(TailCall, ArgumentsOfAllKindsGoRound) {
  const auto instance = made(R"((module
    (func $round (export "run") (param $n i32) (param $a i32) (param $v v128) (param $x f64) (param $b i32)
      (result i32 v128 f64 i32)
      (if (i32.eqz (local.get $n))
        (then (return (local.get $a) (local.get $v) (local.get $x) (local.get $b))))
      (if (i32.and (local.get $n) (i32.const 1)) (then
        (return_call $round (i32.sub (local.get $n) (i32.const 1)) (local.get $b)
          (i32x4.add (local.get $v) (v128.const i32x4 1 2 3 4)) (f64.add (local.get $x) (f64.const 0.5))
          (local.get $a))))
      (return_call $round (i32.sub (local.get $n) (i32.const 1)) (i32.const 7) (local.get $v)
        (local.get $x) (i32.add (local.get $a) (local.get $b))))))");
  Execution run;
  run_to_end(run, instance->find_function("run"),
             {Value::i32(1001), Value::i32(5), {wasm::ValType::kV128, 0, 0}, Value::f64(0), Value::i32(9)});
  ASSERT_EQ(run.state(), RunState::kFinished);
  EXPECT_EQ(run.results()[1].bits, 501u | uint64_t{1002} << 32);
  EXPECT_EQ(run.results()[1].high_bits, 1503u | uint64_t{2004} << 32);
  EXPECT_EQ(run.results()[2].bits, Value::f64(250.5).bits);
  EXPECT_EQ(run.results()[3].bits, 7u);
}

}  // namespace
}  // namespace membrane::engine
