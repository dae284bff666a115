// Which functions Tier::kAuto compiles: counted, not timed, and the same at every run.

#include "engine/code/tier.h"

#include <gtest/gtest.h>

#include <string>

#include "engine/interpreter/interpreter.h"
#include "engine/native/compiler.h"
#include "engine/testing/call_testing.h"
#include "engine/testing/engine_testing.h"

namespace membrane::engine {
namespace {

class Auto : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!native::machine_is_supported()) GTEST_SKIP() << "this machine compiles nothing";
  }
};

// `count` functions of a few instructions in a table, and "run", which calls them in turn, `n` calls altogether.
std::string functions_in_a_table(int count) {
  std::string text = "(module (type $f (func (param i32) (result i32)))\n";
  std::string names;
  for (int i = 0; i < count; ++i) {
    const std::string name = "$f" + std::to_string(i);
    text += "(func " + name + " (type $f) (i32.add (i32.mul (local.get 0) (i32.const 31)) (i32.const " +
            std::to_string(i) + ")))\n";
    names += name + " ";
  }
  text += "(table funcref (elem " + names + "))\n";
  text += R"((func (export "run") (param $n i32) (result i32) (local $i i32) (local $x i32)
    (loop $l
      (local.set $x (call_indirect (type $f) (local.get $x)
        (i32.rem_u (local.get $i) (i32.const )" +
          std::to_string(count) + R"())))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $l (i32.lt_u (local.get $i) (local.get $n))))
    (local.get $x))))";
  return text;
}

// So often may a run have come into interpreted code before the functions of a small module are compiled.
constexpr uint32_t kFewCrossings = 200;

TEST_F(Auto, CompilesEverySmallFunctionThatAHotLoopCalls) {
  constexpr int kFunctions = 200, kCalls = 200 * 200;
  const auto instance = instantiate(functions_in_a_table(kFunctions), {}, {}, Tier::kAuto);
  const auto expected = instantiate(functions_in_a_table(kFunctions), {}, {}, Tier::kInterpreter);
  const Ended ended = call(*instance, "run", {Value::i32(kCalls)}, 100'000'000);
  const Ended wanted = call(*expected, "run", {Value::i32(kCalls)}, 100'000'000);
  EXPECT_EQ(ended.results, wanted.results);
  EXPECT_EQ(ended.fuel, wanted.fuel);
  EXPECT_EQ(instance->compiled().native_function_count(), kFunctions + 1);
  for (uint32_t i = 0; i < kFunctions; ++i)
    EXPECT_LE(instance->compiled().function(i).crossings, kFewCrossings) << i;
}

TEST_F(Auto, CompilesTheSameFunctionsAtEveryRun) {
  const auto counted = [](int calls) {
    const auto instance = instantiate(functions_in_a_table(200), {}, {}, Tier::kAuto);
    static_cast<void>(call(*instance, "run", {Value::i32(static_cast<uint32_t>(calls))}, 100'000'000));
    return instance->compiled().native_function_count();
  };
  for (const int calls : {3'000, 4'500, 5'000, 10'000}) EXPECT_EQ(counted(calls), counted(calls)) << calls;
  EXPECT_LT(counted(3'000), counted(10'000));
}

TEST_F(Auto, CompilesNothingOfAShortRun) {
  const auto instance = instantiate(functions_in_a_table(50), {}, {}, Tier::kAuto);
  const Ended ended = call(*instance, "run", {Value::i32(100)});
  EXPECT_LT(ended.fuel, kSampleFuel);
  EXPECT_EQ(instance->compiled().native_function_count(), 0u);
}

// A function that compiled code calls now and then, for a while each time: the interpreter's fuel is sampled also
// then.
TEST_F(Auto, SamplesWhatCompiledCodeCalls) {
  const auto instance = instantiate(R"((module
    (func $slow (param $n i32) (loop $l
      (br_if $l (local.tee $n (i32.sub (local.get $n) (i32.const 1))))))
    (func (export "run") (local $i i32)
      (loop $l (br_if $l (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 100000))))
      (call $slow (i32.const 10000)))))",
                                    {}, {}, Tier::kAuto);
  EXPECT_EQ(call(*instance, "run", {}, 100'000'000).state, RunState::kFinished);
  EXPECT_EQ(instance->compiled().native_function_count(), 2u);
  EXPECT_EQ(instance->compiled().function(0).crossings, 1u);
}

// The other way round: compiled code returns to a loop that is interpreted, which then continues in compiled code.
TEST_F(Auto, GoesOnInCompiledCodeInALoopAroundIt) {
  const auto instance = instantiate(R"((module
    (func $inner (param $n i32) (loop $l
      (br_if $l (local.tee $n (i32.sub (local.get $n) (i32.const 1))))))
    (func (export "run") (param $n i32)
      (loop $l
        (call $inner (i32.const 1000))
        (br_if $l (local.tee $n (i32.sub (local.get $n) (i32.const 1))))))))",
                                    {}, {}, Tier::kAuto);
  EXPECT_EQ(call(*instance, "run", {Value::i32(10'000)}, 1'000'000'000).state, RunState::kFinished);
  EXPECT_EQ(instance->compiled().native_function_count(), 2u);
  EXPECT_LE(instance->compiled().function(1).crossings, kFewCrossings);
}

// Recursion: its frames of before return to the interpreter; those to come are compiled code's.
TEST_F(Auto, CompilesARecursiveFunction) {
  const auto instance = instantiate(R"((module
    (func $fib (export "fib") (param i32) (result i32)
      (if (result i32) (i32.lt_u (local.get 0) (i32.const 2)) (then (local.get 0))
        (else (i32.add (call $fib (i32.sub (local.get 0) (i32.const 1)))
                       (call $fib (i32.sub (local.get 0) (i32.const 2)))))))))",
                                    {}, {}, Tier::kAuto);
  const Ended ended = call(*instance, "fib", {Value::i32(22)}, 100'000'000);
  EXPECT_EQ(ended.results, std::vector<uint64_t>{17'711});
  EXPECT_EQ(instance->compiled().native_function_count(), 1u);
  EXPECT_LE(instance->compiled().function(0).crossings, kFewCrossings);
}

// What pays for a bulk operation ends a sample as well.
TEST_F(Auto, SamplesALoopOfBulkOperations) {
  const auto instance = instantiate(R"((module (memory 1)
    (func (export "run") (param $n i32)
      (loop $l
        (memory.fill (i32.const 0) (local.get $n) (i32.const 65536))
        (br_if $l (local.tee $n (i32.sub (local.get $n) (i32.const 1))))))))",
                                    {}, {}, Tier::kAuto);
  EXPECT_EQ(call(*instance, "run", {Value::i32(100)}, 100'000'000).state, RunState::kFinished);
  EXPECT_EQ(instance->compiled().native_function_count(), 1u);
}

// However a run goes between the tiers, it is polled as often.
TEST_F(Auto, IsPolledAsOftenAsTheInterpreter) {
  const auto polls_in = [](Tier tier) {
    const auto instance = instantiate(functions_in_a_table(100), {}, {}, tier);
    int polls = 0;
    ExecutionLimits limits;
    limits.poll_interval_fuel = 100'000;
    limits.poll = [&] { return ++polls, false; };
    Execution run(limits);
    run.add_fuel(100'000'000);
    EXPECT_TRUE(run.start(instance->find_function("run"), std::vector{Value::i32(500'000)}));
    EXPECT_EQ(run.resume(), RunState::kFinished);
    // One is for each function that is translated.
    return std::pair{polls, static_cast<int>(run.fuel_used() / limits.poll_interval_fuel)};
  };
  const auto [of_auto, slices] = polls_in(Tier::kAuto);
  EXPECT_GE(of_auto, slices);
  EXPECT_LE(of_auto, slices + 101 + 3);
  EXPECT_EQ(polls_in(Tier::kInterpreter).second, slices);
}

TEST(Interpreted, NothingIsCompiled) {
  const auto instance = instantiate(functions_in_a_table(100), {}, {}, Tier::kInterpreter);
  static_cast<void>(call(*instance, "run", {Value::i32(100'000)}, 100'000'000));
  EXPECT_EQ(instance->compiled().native_function_count(), 0u);
}

}  // namespace
}  // namespace membrane::engine
