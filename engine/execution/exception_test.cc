// Exceptions: who catches them, through whose frames, what it costs, and where it ends. Modules that nobody
// wrote: Differential.*.

#include <gtest/gtest.h>

#include "engine/freeze/snapshot.h"
#include "engine/testing/engine_testing.h"

namespace membrane::engine {
namespace {

constexpr uint64_t kPlenty = 100'000'000;

class Exceptions : public ::testing::TestWithParam<Tier> {
 protected:
  static std::shared_ptr<CompiledModule> module_of(std::string_view text) {
    auto parsed = wasm::parse_text(text);
    EXPECT_TRUE(parsed) << (parsed ? "" : render(parsed.error().front(), text, "test.wat"));
    auto compiled = compile_module(std::move(*parsed), text, GetParam());
    EXPECT_TRUE(compiled) << compiled.error().message;
    return *compiled;
  }
  static std::shared_ptr<Instance> make(std::string_view text, const InstanceLimits& limits = {}) {
    auto made = Instance::create(module_of(text), {}, limits);
    EXPECT_TRUE(made) << made.error().error.message;
    return *made;
  }
  static Execution& to_end(Execution& run, Instance& instance, std::vector<Value> arguments = {},
                           uint64_t fuel = kPlenty) {
    run.add_fuel(fuel);
    EXPECT_TRUE(run.start(instance.find_function("run"), arguments));
    run.resume();
    return run;
  }
};
INSTANTIATE_TEST_SUITE_P(Tiers, Exceptions,
                         ::testing::Values(Tier::kInterpreter, Tier::kCompiler, Tier::kAuto),
                         [](const auto& tier) { return std::string(name_of(tier.param)); });

// Compiled frames below and above the frame that catches, to a given depth; many times, with a sum that shows it.
constexpr std::string_view kThroughFrames = R"((module
  (tag $e (param i32 i64))
  (func $thrower (param i32) (throw $e (local.get 0) (i64.const 5)))
  (func $deep (param $n i32) (result i32) (local $kept i32)
    (local.set $kept (i32.mul (local.get $n) (i32.const 3)))
    (if (i32.eqz (local.get $n)) (then (call $thrower (i32.const 7))))
    (i32.add (call $deep (i32.sub (local.get $n) (i32.const 1))) (local.get $kept)))
  (func $catcher (param $n i32) (result i32) (local $mine i32)
    (local.set $mine (i32.const 100))
    (block $h (result i32 i64)
      (try_table (result i32) (catch $e $h) (call $deep (local.get $n)))
      (return))
    (i32.wrap_i64)
    (i32.add)
    (i32.add (local.get $mine)))
  (func $around (param $n i32) (result i32) (i32.add (call $catcher (local.get $n)) (i32.const 1)))
  (func (export "run") (param $n i32) (param $times i32) (result i32) (local $sum i32)
    (loop $again
      (local.set $sum (i32.add (local.get $sum) (call $around (local.get $n))))
      (local.set $times (i32.sub (local.get $times) (i32.const 1)))
      (br_if $again (local.get $times)))
    (local.get $sum))))";

TEST_P(Exceptions, PassThroughFramesOfEveryKind) {
  const auto instance = make(kThroughFrames);
  for (const uint32_t n : {0u, 1u, 50u, 5000u}) {
    Execution run;
    to_end(run, *instance, {Value::i32(n), Value::i32(40)});
    ASSERT_EQ(run.state(), RunState::kFinished) << n << ": " << run.trap().message;
    EXPECT_EQ(run.results()[0].bits, 40u * (100 + 7 + 5 + 1)) << n;
  }
}

TEST(ExceptionFuel, IsTheSameInEveryTierAndWhereverItPauses) {
  std::optional<uint64_t> fuel;
  for (const Tier tier : {Tier::kInterpreter, Tier::kCompiler, Tier::kAuto}) {
    auto compiled = compile_module(*wasm::parse_text(kThroughFrames), kThroughFrames, tier);
    for (const uint64_t step : {uint64_t{1}, uint64_t{13}, kPlenty}) {
      const auto instance = Instance::create(*compiled, {}, {});
      Execution run;
      const Value arguments[] = {Value::i32(20), Value::i32(3)};
      ASSERT_TRUE(run.start((*instance)->find_function("run"), arguments));
      while (run.resume() == RunState::kOutOfFuel) run.add_fuel(step);
      ASSERT_EQ(run.state(), RunState::kFinished);
      EXPECT_EQ(run.results()[0].bits, 3u * 113);
      if (!fuel) fuel = run.fuel_used();
      EXPECT_EQ(run.fuel_used(), *fuel) << name_of(tier) << " " << step;
    }
  }
}

TEST_P(Exceptions, CostWhatIsLeftAndLookedAt) {
  const auto instance = make(R"((module (tag $a) (tag $b)
    (func $throw (throw $b))
    (func $between (try_table (catch $a 0) (call $throw)))
    (func (export "run")
      (try_table (catch $a 0) (catch $b 0) (call $between)))))");
  Execution run;
  to_end(run, *instance);
  ASSERT_EQ(run.state(), RunState::kFinished);
  // Two calls and the throw; two frames that are left; one clause that does not catch, and one, and one that does.
  EXPECT_EQ(run.fuel_used(), 3u + 2 + 3);
}

TEST_P(Exceptions, ThatNobodyCatchesStopWhereTheyWereThrown) {
  const auto instance = make(R"((module (tag $wrong (param i32 f64)) (tag $other)
    (func $inner (throw $wrong (i32.const -7) (f64.const 1.5)))
    (func $outer (try_table (catch $other 0) (call $inner)))
    (func (export "run") (call $outer))))");
  Execution run;
  to_end(run, *instance);
  ASSERT_EQ(run.state(), RunState::kTrapped);
  EXPECT_EQ(run.trap().kind, TrapKind::kUncaughtException);
  EXPECT_EQ(run.trap().message, "uncaught exception $wrong [i32 -7, f64 1.5]");
  ASSERT_EQ(run.trap().backtrace.size(), 3u);
  EXPECT_EQ(run.trap().backtrace[0].function_name, "inner");
  EXPECT_EQ(run.trap().backtrace[2].function, 2u);
  EXPECT_EQ(run.fuel_used(), 2u + 2 + 1 + 3 + 1);  // calls, constants, throw; three frames, a clause
}

TEST_P(Exceptions, NullCannotBeThrown) {
  const auto instance = make(R"((module (func (export "run") (throw_ref (ref.null exn)))))");
  Execution run;
  to_end(run, *instance);
  ASSERT_EQ(run.state(), RunState::kTrapped);
  EXPECT_EQ(run.trap().message, "null exception reference");
}

TEST_P(Exceptions, ATailCallLeavesTheTryTable) {
  const auto instance = make(R"((module (tag $e)
    (func $throw (throw $e))
    (func $tail (try_table (catch_all 0) (return_call $throw)))
    (func (export "run") (result i32)
      (block $h (try_table (catch $e $h) (call $tail)) (return (i32.const 1)))
      (i32.const 2))))");
  Execution run;
  to_end(run, *instance);
  EXPECT_EQ(run.results().at(0).bits, 2u);
}

// Each instance has a memory and a tag of its own; one shares its tag.
TEST_P(Exceptions, CrossInstancesAndComeBackToTheOwnMemory) {
  Store store;
  const auto thrower = store.instantiate(module_of(R"((module
    (tag $shared (export "shared") (param i32)) (tag $own)
    (memory 1) (data (i32.const 0) "\07")
    (func (export "throw") (param i32)
      (if (local.get 0) (then (throw $shared (i32.load8_u (i32.const 0)))))
      (throw $own))))"),
                                         {}, {});
  ASSERT_TRUE(thrower);
  const auto catcher = store.instantiate(
      module_of(R"((module
    (import "t" "shared" (tag $shared (param i32))) (import "t" "throw" (func $throw (param i32)))
    (tag $own)
    (memory 1) (data (i32.const 0) "\09")
    (func $through (param i32) (call $throw (local.get 0)))
    (func (export "run") (param i32) (result i32)
      (block $other
        (block $wrong
          (block $mine (result i32)
            (try_table (catch $shared $mine) (catch $own $wrong) (catch_all $other) (call $through (local.get 0)))
            (return (i32.const 0)))
          (return (i32.add (i32.mul (i32.const 10)) (i32.load8_u (i32.const 0)))))
        (return (i32.const 2)))
      (i32.const 1))
    (func (export "tail") (param i32) (return_call $throw (local.get 0)))))"),
      [&](const wasm::Module&, const wasm::Import& import) { return (*thrower)->find_export(import.name); },
      {});
  ASSERT_TRUE(catcher) << catcher.error().error.message;
  for (const uint32_t shared : {0u, 1u}) {
    Execution run;
    to_end(run, **catcher, {Value::i32(shared)});
    ASSERT_EQ(run.state(), RunState::kFinished) << run.trap().message;
    EXPECT_EQ(run.results()[0].bits, shared != 0 ? 79u : 1u);
  }
  Execution run;
  run.add_fuel(kPlenty);
  const Value one = Value::i32(1);
  ASSERT_TRUE(run.start((*catcher)->find_function("tail"), {&one, 1}));
  EXPECT_EQ(run.resume(), RunState::kTrapped);
  EXPECT_EQ(run.trap().message, "uncaught exception $shared [i32 7]");
}

TEST_P(Exceptions, OfTheHostsOwnTagsAreCaught) {
  Store store;
  const auto resolver = [&](const wasm::FuncType& type) {
    return [&store, type](const wasm::Module&, const wasm::Import&) {
      Extern given;
      given.kind = wasm::ExternKind::kTag;
      given.tag = store.add_tag(type);
      return given;
    };
  };
  const auto compiled = module_of(R"((module (import "a" "e" (tag $e (param i32)))
    (func (export "run") (result i32)
      (block $h (result i32) (try_table (catch $e $h) (throw $e (i32.const 3))) (unreachable)))))");
  const auto instance = store.instantiate(compiled, resolver({{wasm::ValType::kI32}, {}}), {});
  ASSERT_TRUE(instance);
  Execution run;
  to_end(run, **instance);
  EXPECT_EQ(run.results().at(0).bits, 3u);
  const auto other = store.instantiate(compiled, resolver({{wasm::ValType::kI64}, {}}), {});
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().kind, LinkError::Kind::kIncompatibleImport);
}

// What a host function runs by itself is a run of its own, whose end the host has to check.
TEST_P(Exceptions, EndAtTheHostsOwnRun) {
  Store store;
  Instance* self = nullptr;
  FunctionInstance* const host = store.add_host_function({{}, {wasm::ValType::kI32}}, [&](HostCall& call) {
    Execution inner;
    inner.add_fuel(1000);
    EXPECT_TRUE(inner.start(self->find_function("throw"), {}));
    call.results[0] =
        inner.resume() == RunState::kTrapped && inner.trap().kind == TrapKind::kUncaughtException;
    return HostAction::kContinue;
  });
  const auto made =
      store.instantiate(module_of(R"((module (import "a" "f" (func $f (result i32))) (tag $e)
    (func (export "throw") (throw $e))
    (func (export "run") (result i32)
      (block $h (try_table (result i32) (catch_all $h) (call $f)) (return)) (i32.const 5))))"),
                        [&](const wasm::Module&, const wasm::Import&) {
                          return Extern{wasm::ExternKind::kFunc, host, nullptr, nullptr, nullptr};
                        },
                        {});
  ASSERT_TRUE(made);
  self = *made;
  Execution run;
  to_end(run, *self);
  EXPECT_EQ(run.results().at(0).bits, 1u);
}

constexpr std::string_view kManyThrows = R"((module (tag $e (param i64))
  (func (export "run") (param $n i32) (param $keep i32) (result i32) (local $last exnref)
    (loop $again
      (if (local.get $keep)
        (then (block $h (result exnref) (try_table (catch_all_ref $h) (throw $e (i64.const 1))) (unreachable))
              (local.set $last))
        (else (block $h (try_table (catch_all $h) (throw $e (i64.const 1))))))
      (local.set $n (i32.sub (local.get $n) (i32.const 1)))
      (br_if $again (local.get $n)))
    (ref.is_null (local.get $last)))))";

TEST_P(Exceptions, ThatAreKeptAreLimitedAndOthersAreNot) {
  InstanceLimits limits;
  limits.exception_bytes = 24 * 1000;  // a pair of words, and one that it carries
  const auto enough = make(kManyThrows, limits), few = make(kManyThrows, limits),
             unkept = make(kManyThrows, limits);
  Execution run, over, free;
  to_end(run, *enough, {Value::i32(1000), Value::i32(1)});
  EXPECT_EQ(run.state(), RunState::kFinished);
  to_end(over, *few, {Value::i32(1001), Value::i32(1)});
  ASSERT_EQ(over.state(), RunState::kTrapped);
  EXPECT_EQ(over.trap().kind, TrapKind::kTooManyExceptions);
  to_end(free, *unkept, {Value::i32(100'000), Value::i32(0)});
  EXPECT_EQ(free.state(), RunState::kFinished);
}

// Each takes two words, of 8,192 on a page, and a place among those of all.
TEST_P(Exceptions, ThatAreKeptComeOutOfTheMemoryLimit) {
  constexpr uint32_t kOnAPage = 4'096, kPlacesOnAPage = 8'192, kMost = 16 * kOnAPage;
  InstanceLimits limits;
  limits.memory_bytes =
      (kMost / kOnAPage + kMost / kPlacesOnAPage - ExceptionArena::kLentPages) * wasm::kPageBytes;
  const auto enough = make(kManyThrows, limits), few = make(kManyThrows, limits);
  Execution run, over;
  to_end(run, *enough, {Value::i32(kMost), Value::i32(1)});
  EXPECT_EQ(run.state(), RunState::kFinished) << run.trap().message;
  to_end(over, *few, {Value::i32(kMost + 1), Value::i32(1)});
  ASSERT_EQ(over.state(), RunState::kTrapped);
  EXPECT_EQ(over.trap().kind, TrapKind::kTooManyExceptions);
}

// What is kept and what the memory grows by are one amount.
TEST_P(Exceptions, ThatAreKeptLeaveLessForTheMemoryToGrow) {
  InstanceLimits limits;
  limits.memory_bytes = 64 * wasm::kPageBytes;
  const auto instance = make(R"((module (tag $e (param i64)) (memory 1)
    (func (export "run") (param $n i32) (result i32 i32) (local $last exnref)
      (loop $again
        (block $h (result exnref) (try_table (catch_all_ref $h) (throw $e (i64.const 1))) (unreachable))
        (local.set $last)
        (local.set $n (i32.sub (local.get $n) (i32.const 1)))
        (br_if $again (local.get $n)))
      (memory.grow (i32.const 56)) (memory.grow (i32.const 55)))))",
                             limits);
  Execution run;
  to_end(run, *instance, {Value::i32(16 * 4'096)});  // 16 pages, and 8 of places: 8 more than the host lends
  ASSERT_EQ(run.state(), RunState::kFinished) << run.trap().message;
  EXPECT_EQ(static_cast<int32_t>(run.results().at(0).bits), -1);
  EXPECT_EQ(run.results().at(1).bits, 1u);
}

// A recursion through a try_table with many clauses: what is examined is paid for, and never without a result.
std::string many_clauses() {
  std::string text = "(module (tag $a) (tag $b) (func $deep (param i32) (try_table";
  for (int i = 0; i < 2000; ++i) text += " (catch $a 0)";
  return text +
         " (if (i32.eqz (local.get 0)) (then (throw $b))) (call $deep (i32.sub (local.get 0) (i32.const "
         "1)))))"
         " (func (export \"run\") (block $h (try_table (catch_all $h) (call $deep (i32.const 2000))))))";
}

TEST_P(Exceptions, ALongSearchIsPaidForAndAsksWhetherToGoOn) {
  const auto instance = make(many_clauses());
  Execution poor;
  to_end(poor, *instance, {}, 1'000'000);
  EXPECT_EQ(poor.state(), RunState::kOutOfFuel);
  EXPECT_LT(poor.fuel_used(), 100'000u);
  poor.add_fuel(10'000'000);
  EXPECT_EQ(poor.resume(), RunState::kFinished);
  EXPECT_GT(poor.fuel_used(), 2000u * 2001);
  ExecutionLimits limits;
  int polls = 0;
  limits.poll_interval_fuel = kPlenty;
  limits.poll = [&] { return ++polls == 4; };
  Execution asked(limits);
  to_end(asked, *instance);
  EXPECT_EQ(asked.state(), RunState::kInterrupted);
  EXPECT_EQ(asked.resume(), RunState::kFinished);
  EXPECT_EQ(asked.fuel_used(), poor.fuel_used());
}

// Labels of every kind, values below what is caught, a v128, and a function that returns what it catches.
TEST_P(Exceptions, LandWhereTheirLabelIs) {
  const auto instance = make(R"((module
    (tag $v (param v128 i32)) (tag $n (param i32))
    (func $returns (param i32 i32) (result i32)
      (try_table (result i32) (catch $n 0) (throw $n (i32.add (local.get 0) (local.get 1)))))
    (func (export "run") (result i32 i32 i32) (local $turns i32)
      (i32.const 11)
      (i32.const 0)
      (loop $again (param i32) (result i32)
        (local.set $turns (i32.add (i32.const 1)))
        (if (result i32) (i32.lt_u (local.get $turns) (i32.const 5))
          (then (try_table (result i32) (catch $n $again) (throw $n (local.get $turns))))
          (else (local.get $turns))))
      (block $h (result v128 i32)
        (try_table (catch $v $h)
          (throw $v (v128.const i32x4 1 2 3 4) (call $returns (i32.const 20) (i32.const 22))))
        (unreachable))
      (local.set $turns)
      (i32x4.extract_lane 3)
      (i32.add (local.get $turns)))))");
  Execution run;
  to_end(run, *instance);
  ASSERT_EQ(run.state(), RunState::kFinished) << run.trap().message;
  EXPECT_EQ(run.results()[0].bits, 11u);
  EXPECT_EQ(run.results()[1].bits, 5u);
  EXPECT_EQ(run.results()[2].bits, 46u);
}

// References in a local, a global, a table and another exception; thrown again when all is thawed.
constexpr std::string_view kKept = R"((module
  (tag $e (param i32)) (tag $wraps (param exnref i64))
  (global $g (mut exnref) (ref.null exn))
  (table $t 2 exnref)
  (func $catch (param i32) (result exnref)
    (block $h (result exnref) (try_table (catch_all_ref $h) (throw $e (local.get 0))) (unreachable)))
  (func $value (param exnref) (result i32)
    (block $h (result i32) (try_table (catch $e $h) (throw_ref (local.get 0))) (unreachable)))
  (func $unwrap (param exnref) (result exnref)
    (block $h (result exnref i64) (try_table (catch $wraps $h) (throw_ref (local.get 0))) (unreachable))
    (drop))
  (func (export "run") (result i32) (local $l exnref)
    (local.set $l (call $catch (i32.const 1)))
    (global.set $g (call $catch (i32.const 20)))
    (table.set $t (i32.const 1) (call $catch (i32.const 300)))
    (block $h (result exnref)
      (try_table (catch_all_ref $h) (throw $wraps (call $catch (i32.const 4000)) (i64.const -1)))
      (unreachable))
    (call $value (call $unwrap))
    (i32.add (call $value (local.get $l)))
    (i32.add (call $value (global.get $g)))
    (i32.add (call $value (table.get $t (i32.const 1)))))))";

TEST_P(Exceptions, AreFrozenAndThawedWhereverTheyAreKept) {
  Execution whole;
  const auto instance = make(kKept);
  to_end(whole, *instance);
  ASSERT_EQ(whole.results().at(0).bits, 4321u);
  for (const uint64_t step : {3u, 7u, 20u}) {
    auto store = std::make_unique<Store>();
    auto made = store->instantiate(module_of(kKept), {}, {});
    ASSERT_TRUE(made);
    auto run = std::make_unique<Execution>();
    ASSERT_TRUE(run->start((*made)->find_function("run"), {}));
    uint64_t used = 0, left = 0;
    for (int lives = 0; run->add_fuel(left + step), run->resume() == RunState::kOutOfFuel && lives < 500;
         ++lives) {
      left = run->fuel_left();
      const auto bytes = freeze(*run, **made);
      ASSERT_TRUE(bytes) << bytes.error().message;
      used += run->fuel_used();
      const auto snapshot = Snapshot::read(*bytes, GetParam());
      ASSERT_TRUE(snapshot) << snapshot.error().message;
      run = std::make_unique<Execution>();
      store = std::make_unique<Store>();
      made = snapshot->instantiate(*store, {}, {});
      ASSERT_TRUE(made) << made.error().error.message;
      ASSERT_TRUE(snapshot->resume_in(*run, **made));
    }
    ASSERT_EQ(run->state(), RunState::kFinished) << step;
    EXPECT_EQ(run->results().at(0).bits, 4321u);
    EXPECT_EQ(used + run->fuel_used(), whole.fuel_used());
  }
}

// In the middle of kKept, when two exceptions are kept.
Result<Snapshot> half_way(const std::shared_ptr<CompiledModule>& module) {
  Store store;
  auto made = store.instantiate(module, {}, {});
  Execution run;
  run.add_fuel(40);
  EXPECT_TRUE(run.start((*made)->find_function("run"), {}));
  EXPECT_EQ(run.resume(), RunState::kOutOfFuel);
  const auto bytes = freeze(run, **made);
  EXPECT_TRUE(bytes);
  return Snapshot::read(*bytes, module->tier());
}

TEST_P(Exceptions, OfTwoLivesInOneStoreAreTwo) {
  const auto snapshot = half_way(module_of(kKept));
  ASSERT_TRUE(snapshot);
  Store store;
  Execution runs[2];
  for (Execution& run : runs) {
    const auto made = snapshot->instantiate(store, {}, {});
    ASSERT_TRUE(made && snapshot->resume_in(run, **made));
    run.add_fuel(kPlenty);
    ASSERT_EQ(run.resume(), RunState::kFinished) << run.trap().message;
    EXPECT_EQ(run.results().at(0).bits, 4321u);
  }
}

TEST_P(Exceptions, BeyondTheLimitOfWhoThawsAreRefused) {
  const auto snapshot = half_way(module_of(kKept));
  ASSERT_TRUE(snapshot);
  Store other;
  InstanceLimits limits;
  limits.exception_bytes = 10;
  const auto thawed = snapshot->instantiate(other, {}, limits);
  ASSERT_FALSE(thawed);
  EXPECT_EQ(thawed.error().kind, LinkError::Kind::kLimit);
}

}  // namespace
}  // namespace membrane::engine
