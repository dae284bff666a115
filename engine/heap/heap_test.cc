// Structs and arrays: what is kept and what is freed, how much there may be, and that a run with a heap is
// frozen and thawed. What each instruction does: the official scripts. Modules that nobody wrote: Differential.*.

#include "engine/heap/heap.h"

#include <gtest/gtest.h>

#include <cstring>

#include "engine/freeze/snapshot.h"
#include "engine/testing/call_testing.h"
#include "engine/testing/engine_testing.h"
#include "engine/testing/snapshot_testing.h"

namespace membrane::engine {
namespace {

constexpr uint64_t kPlenty = 1'000'000'000;

class HeapOf : public ::testing::TestWithParam<Tier> {
 protected:
  static std::shared_ptr<Instance> make(std::string_view text, const InstanceLimits& limits = {},
                                        Tier tier = GetParam()) {
    auto parsed = wasm::parse_text(text);
    EXPECT_TRUE(parsed) << (parsed ? "" : render(parsed.error().front(), text, "test.wat"));
    auto compiled = compile_module(std::move(*parsed), text, tier);
    EXPECT_TRUE(compiled) << compiled.error().message;
    auto made = Instance::create(*compiled, {}, limits);
    EXPECT_TRUE(made) << made.error().error.message;
    return *made;
  }
  static InstanceLimits heap_of(uint64_t bytes) {
    InstanceLimits limits;
    limits.heap_bytes = bytes;
    return limits;
  }
};
INSTANTIATE_TEST_SUITE_P(Tiers, HeapOf, ::testing::Values(Tier::kInterpreter, Tier::kCompiler, Tier::kAuto),
                         [](const auto& tier) { return std::string(name_of(tier.param)); });

// `keep` links this many nodes into a list, and makes as many that are forgotten; `sum` adds what the list has.
constexpr std::string_view kList = R"((module
  (type $node (struct (field $value i32) (field $next (mut (ref null $node)))))
  (global $list (mut (ref null $node)) (ref.null $node))
  (func $make (param $value i32) (result (ref $node))
    (struct.new $node (local.get $value) (ref.null $node)))
  (func (export "keep") (param $count i32) (local $node (ref null $node))
    (loop $more
      (drop (call $make (i32.const -1)))
      (local.set $node (call $make (local.get $count)))
      (struct.set $node $next (local.get $node) (global.get $list))
      (global.set $list (local.get $node))
      (local.set $count (i32.sub (local.get $count) (i32.const 1)))
      (br_if $more (local.get $count))))
  (func (export "sum") (result i32) (local $sum i32) (local $node (ref null $node))
    (local.set $node (global.get $list))
    (block $end
      (loop $more
        (br_if $end (ref.is_null (local.get $node)))
        (local.set $sum (i32.add (local.get $sum) (struct.get $node $value (local.get $node))))
        (local.set $node (struct.get $node $next (local.get $node)))
        (br $more)))
    (local.get $sum))
  (func (export "forget") (global.set $list (ref.null $node)))
  (func (export "waste") (param $count i32)
    (loop $more
      (drop (call $make (i32.const 7)))
      (local.set $count (i32.sub (local.get $count) (i32.const 1)))
      (br_if $more (local.get $count))))))";

TEST_P(HeapOf, KeepsWhatIsReachedHoweverDeepAndFreesTheRest) {
  constexpr uint32_t kNodes = 300'000;  // far more than a native stack has frames
  const auto instance = make(kList);
  EXPECT_EQ(call(*instance, "keep", {Value::i32(kNodes)}, kPlenty).state, RunState::kFinished);
  const uint64_t kept = instance->heap().bytes();
  EXPECT_GE(kept, uint64_t{kNodes} * 48);
  EXPECT_LT(kept, uint64_t{kNodes} * 48 * 3);
  EXPECT_EQ(call(*instance, "waste", {Value::i32(2'000'000)}, kPlenty).state, RunState::kFinished);
  EXPECT_EQ(call(*instance, "sum", {}, kPlenty).results[0],
            uint32_t{uint64_t{kNodes} * (kNodes + 1) / 2 & UINT32_MAX});
  EXPECT_EQ(call(*instance, "forget").state, RunState::kFinished);
  EXPECT_EQ(call(*instance, "waste", {Value::i32(2'000'000)}, kPlenty).state, RunState::kFinished);
  EXPECT_LT(instance->heap().bytes(), instance->heap().threshold());
}

TEST_P(HeapOf, EndsAtItsLimitTheSameInEveryTier) {
  const auto instance = make(kList, heap_of(1u << 20));
  const Ended ended = call(*instance, "keep", {Value::i32(100'000)}, kPlenty);
  EXPECT_EQ(ended.state, RunState::kTrapped);
  EXPECT_EQ(ended.trap, text_of(TrapKind::kHeapExhausted));
  EXPECT_LE(instance->heap().bytes(), 1u << 20);
  const auto interpreted = make(kList, heap_of(1u << 20), Tier::kInterpreter);
  EXPECT_EQ(ended.fuel, call(*interpreted, "keep", {Value::i32(100'000)}, kPlenty).fuel);
  EXPECT_EQ(instance->heap().bytes(), interpreted->heap().bytes());
  // What was forgotten is there again.
  EXPECT_EQ(call(*instance, "forget").state, RunState::kFinished);
  EXPECT_EQ(call(*instance, "keep", {Value::i32(5'000)}, kPlenty).state, RunState::kFinished);
}

TEST_P(HeapOf, CountsAsMemory) {
  InstanceLimits limits;
  limits.memory_bytes = 4 * wasm::kPageBytes;
  const auto instance = make(R"((module (memory 1)
    (type $bytes (array (mut i8)))
    (global $kept (mut (ref null $bytes)) (ref.null $bytes))
    (func (export "grow") (result i32) (memory.grow (i32.const 3)))
    (func (export "keep") (param $n i32)
      (global.set $kept (array.new_default $bytes (local.get $n))))))",
                             limits);
  EXPECT_EQ(call(*instance, "keep", {Value::i32(4 * wasm::kPageBytes)}).trap,
            text_of(TrapKind::kHeapExhausted));
  EXPECT_EQ(call(*instance, "keep", {Value::i32(0xFFFFFFFF)}, kPlenty).trap,
            text_of(TrapKind::kHeapExhausted));
  EXPECT_EQ(call(*instance, "keep", {Value::i32(60'000)}).state, RunState::kFinished);
  EXPECT_EQ(call(*instance, "grow").results[0], 0xFFFFFFFFu);
  EXPECT_GT(instance->memory_bytes(), wasm::kPageBytes + 60'000u);
}

// What is live is on the operand stacks of frames, after values of other types, and in locals.
TEST_P(HeapOf, FindsReferencesInFrames) {
  const auto instance = make(R"((module
    (type $box (struct (field i64)))
    (func $box (param $x i64) (result (ref $box)) (struct.new $box (local.get $x)))
    (func $waste (param $n i32)
      (loop $more
        (drop (struct.new $box (i64.const -1)))
        (local.set $n (i32.sub (local.get $n) (i32.const 1)))
        (br_if $more (local.get $n))))
    (func $deep (param $n i32) (param $kept (ref $box)) (result i64) (local $mine (ref null $box))
      (if (i32.eqz (local.get $n)) (then (call $waste (i32.const 200000)) (return (i64.const 0))))
      (local.set $mine (call $box (i64.extend_i32_u (local.get $n))))
      (i64.add
        (struct.get $box 0 (call $box (i64.const 1000)))
        (i64.add (f64.const 1.5) (call $deep (i32.sub (local.get $n) (i32.const 1)) (ref.as_non_null (local.get $mine)))
          (drop) (i64.trunc_f64_s)
          (i64.add (struct.get $box 0 (local.get $mine)) (struct.get $box 0 (local.get $kept))))))
    (func (export "run") (result i64)
      (call $deep (i32.const 20) (call $box (i64.const 5))))))");
  EXPECT_EQ(call(*instance, "run", {}, kPlenty).results[0], 1000u + 1 + 20 + 5);
}

TEST_P(HeapOf, HoldsWhatTablesSegmentsExceptionsAndResultsHold) {
  const auto instance = make(R"((module
    (type $box (struct (field i32)))
    (tag $e (param anyref))
    (table $t 2 externref)
    (global $caught (mut exnref) (ref.null exn))
    (elem $s anyref (item (struct.new $box (i32.const 30))) (item (ref.i31 (i32.const 4))))
    (func (export "fill")
      (table.set $t (i32.const 1) (extern.convert_any (struct.new $box (i32.const 10))))
      (block $h (result anyref exnref)
        (try_table (catch_ref $e $h) (throw $e (struct.new $box (i32.const 20))))
        (unreachable))
      (global.set $caught)
      (drop))
    (func (export "waste") (param $n i32)
      (loop $more
        (drop (struct.new $box (i32.const -1)))
        (local.set $n (i32.sub (local.get $n) (i32.const 1)))
        (br_if $more (local.get $n))))
    (type $list (array anyref))
    (func $value (param anyref) (result i32) (struct.get $box 0 (ref.cast (ref $box) (local.get 0))))
    (func (export "sum") (result i32)
      (call $value (any.convert_extern (table.get $t (i32.const 1))))
      (block $h (result anyref) (try_table (catch $e $h) (throw_ref (global.get $caught))) (unreachable))
      (call $value)
      (call $value (array.get $list (array.new_elem $list $s (i32.const 0) (i32.const 2)) (i32.const 0)))
      (i32.add) (i32.add))
    (func (export "box") (result anyref) (struct.new $box (i32.const 99)))
    (func (export "open") (param anyref) (result i32) (call $value (local.get 0)))))");
  EXPECT_EQ(call(*instance, "fill").state, RunState::kFinished);
  Execution holder;
  holder.add_fuel(kPlenty);
  ASSERT_TRUE(holder.start(instance->find_function("box"), {}));
  holder.resume();
  EXPECT_EQ(call(*instance, "waste", {Value::i32(200'000)}, kPlenty).state, RunState::kFinished);
  EXPECT_EQ(call(*instance, "sum").results[0], 60u);
  EXPECT_EQ(call(*instance, "open", {{wasm::ValType::kAnyRef, holder.results()[0].bits, 0}}).results[0], 99u);
}

// A number that was never in use, or is not any more, is not a reference.
TEST_P(HeapOf, TakesNoStaleReferenceFromOutside) {
  const auto instance = make(R"((module (type $box (struct (field i32)))
    (func (export "box") (result anyref) (struct.new $box (i32.const 99)))
    (func (export "open") (param structref))))");
  const uint64_t box = call(*instance, "box").results[0];
  const auto open = [&](uint64_t bits) {
    Execution run;
    return run
        .start(instance->find_function("open"), std::vector<Value>{{wasm::ValType::kStructRef, bits, 0}})
        .has_value();
  };
  EXPECT_TRUE(open(box));
  EXPECT_FALSE(open(object_bits(77)));
  EXPECT_FALSE(open(i31_bits(1)));
  EXPECT_FALSE(open(any_of_extern(5)));
}

// -- frozen and thawed

constexpr std::string_view kWork = R"((module
  (type $pair (struct (field $left (mut anyref)) (field $right (mut (ref null $pair))) (field $packed (mut i8))))
  (type $refs (array (mut (ref null $pair))))
  (type $f (func (param i32) (result i32)))
  (type $with (struct (field (ref $f)) (field externref) (field v128) (field f32) (field i16)))
  (elem declare func $double)
  (elem $s eqref (item (struct.new_default $pair)) (item (ref.i31 (i32.const -5))))
  (func $double (param i32) (result i32) (i32.mul (local.get 0) (i32.const 2)))
  (global $root (mut (ref null $refs)) (ref.null $refs))
  (global $same (ref $pair) (struct.new_default $pair))
  (func (export "run") (param $n i32) (result i32) (local $pair (ref $pair)) (local $sum i32) (local $with (ref $with))
    (global.set $root (array.new $refs (ref.null $pair) (i32.const 16)))
    (local.set $with (struct.new $with (ref.func $double) (extern.convert_any (ref.i31 (i32.const 3)))
      (v128.const i64x2 7 8) (f32.const 1.25) (i32.const 0x12345)))
    (loop $more
      (local.set $pair (struct.new $pair (ref.i31 (local.get $n)) (ref.null $pair) (local.get $n)))
      (struct.set $pair $right (local.get $pair)
        (array.get $refs (global.get $root) (i32.and (local.get $n) (i32.const 15))))
      (array.set $refs (global.get $root) (i32.and (local.get $n) (i32.const 15)) (local.get $pair))
      (local.set $sum (i32.add (local.get $sum) (struct.get_u $pair $packed (local.get $pair))))
      (local.set $sum (i32.add (local.get $sum)
        (i31.get_s (ref.cast (ref i31) (struct.get $pair $left (local.get $pair))))))
      (local.set $sum (i32.add (local.get $sum) (call_ref $f (i32.const 1) (struct.get $with 0 (local.get $with)))))
      (local.set $sum (i32.add (local.get $sum) (ref.eq (global.get $same) (global.get $same))))
      (local.set $n (i32.sub (local.get $n) (i32.const 1)))
      (br_if $more (local.get $n)))
    (i32.add (local.get $sum) (struct.get_u $with 4 (local.get $with)))
    (i32.wrap_i64 (i64x2.extract_lane 0 (struct.get $with 2 (local.get $with))))
    (i31.get_u (ref.cast (ref i31) (any.convert_extern (struct.get $with 1 (local.get $with)))))
    (i32.add) (i32.add))))";

struct Life {
  std::string end;
  uint64_t result = 0, fuel = 0, bytes = 0;
};

Life live(Tier tier, uint32_t n, uint64_t step, uint64_t heap_bytes) {
  auto parsed = wasm::parse_text(kWork);
  EXPECT_TRUE(parsed) << (parsed ? "" : render(parsed.error().front(), kWork, "t.wat"));
  auto compiled = compile_module(std::move(*parsed), kWork, tier);
  EXPECT_TRUE(compiled) << compiled.error().message;
  InstanceLimits limits;
  limits.heap_bytes = heap_bytes;
  auto store = std::make_unique<Store>();
  auto instance = store->instantiate(*compiled, {}, limits);
  auto run = std::make_unique<Execution>();
  EXPECT_TRUE(run->start((*instance)->find_function("run"), std::vector{Value::i32(n)}));
  uint64_t used = 0;
  run->add_fuel(step);
  while (run->resume() == RunState::kOutOfFuel) {
    const uint64_t left = run->fuel_left();
    const auto frozen = freeze(*run, **instance);
    EXPECT_TRUE(frozen) << frozen.error().message;
    const auto snapshot = Snapshot::read(*frozen, tier);
    EXPECT_TRUE(snapshot) << snapshot.error().message;
    used += run->fuel_used();
    run = std::make_unique<Execution>();
    store = std::make_unique<Store>();
    instance = snapshot->instantiate(*store, {}, limits);
    EXPECT_TRUE(instance) << instance.error().error.message;
    EXPECT_TRUE(snapshot->resume_in(*run, **instance));
    run->add_fuel(left + step);
  }
  Life life{run->state() == RunState::kFinished ? "finished" : run->trap().message, 0,
            used + run->fuel_used(), (*instance)->heap().bytes()};
  if (!run->results().empty()) life.result = run->results()[0].bits;
  return life;
}

TEST_P(HeapOf, IsFrozenAndThawedWhereverItStands) {
  const Life whole = live(Tier::kInterpreter, 40, kPlenty, 1u << 20);
  EXPECT_EQ(whole.end, "finished");
  for (const uint64_t step : {23u, 150u}) {
    const Life parts = live(GetParam(), 40, step, 1u << 20);
    EXPECT_EQ(parts.end, whole.end);
    EXPECT_EQ(parts.result, whole.result);
    EXPECT_EQ(parts.fuel, whole.fuel);
    EXPECT_EQ(parts.bytes, whole.bytes);
  }
}

// When it collects, and where there is no more room, is the same however often it is frozen on the way.
TEST_P(HeapOf, IsExhaustedAtTheSamePlaceAfterThawing) {
  const Life whole = live(Tier::kInterpreter, 8'000, kPlenty, 300'000);
  EXPECT_EQ(whole.end, text_of(TrapKind::kHeapExhausted));
  const Life parts = live(GetParam(), 8'000, 20'000, 300'000);
  EXPECT_EQ(parts.end, whole.end);
  EXPECT_EQ(parts.fuel, whole.fuel);
  EXPECT_EQ(parts.bytes, whole.bytes);
}

// The heap's section with a number changed, wherever it is: refused, or harmless.
TEST(FrozenHeap, ThatIsForgedIsRefusedOrHarmless) {
  constexpr uint32_t kHeapSection = 9;
  auto compiled = compile_module(*wasm::parse_text(kWork), kWork, Tier::kInterpreter);
  Store store;
  auto instance = store.instantiate(*compiled, {}, {});
  Execution run;
  ASSERT_TRUE(run.start((*instance)->find_function("run"), std::vector{Value::i32(50)}));
  run.add_fuel(400);
  ASSERT_EQ(run.resume(), RunState::kOutOfFuel);
  const auto frozen = freeze(run, **instance);
  ASSERT_TRUE(frozen) << frozen.error().message;
  const auto section = section_of(*frozen, kHeapSection);
  ASSERT_FALSE(section.empty());
  const auto first = static_cast<size_t>(section.data() - frozen->data());
  uint32_t refused = 0;
  for (size_t at = first; at < first + section.size(); ++at) {
    for (const uint8_t value :
         {uint8_t{0}, uint8_t{1}, uint8_t{2}, uint8_t{3}, uint8_t{6}, uint8_t{0x80}, uint8_t{0xFF}}) {
      std::vector<uint8_t> forged = *frozen;
      if (forged[at] == value) continue;
      forged[at] = value;
      seal(forged);
      refused += resume_a_little(forged, Tier::kInterpreter) ? 0 : 1;
    }
  }
  EXPECT_GT(refused, section.size());
}

TEST(FrozenHeap, BeyondTheLimitOfWhoThawsIsRefused) {
  auto compiled = compile_module(*wasm::parse_text(kWork), kWork, Tier::kInterpreter);
  Store store, other;
  auto instance = store.instantiate(*compiled, {}, {});
  Execution run;
  ASSERT_TRUE(run.start((*instance)->find_function("run"), std::vector{Value::i32(50)}));
  run.add_fuel(400);
  run.resume();
  const auto frozen = freeze(run, **instance);
  const auto snapshot = Snapshot::read(*frozen);
  ASSERT_TRUE(snapshot);
  InstanceLimits small;
  small.heap_bytes = 1'000;
  const auto thawed = snapshot->instantiate(other, {}, small);
  ASSERT_FALSE(thawed);
  EXPECT_EQ(thawed.error().kind, LinkError::Kind::kLimit);
}

// -- runs, as the heap knows them

// A run with one reference.
class OneReference final : public HeapRun {
 public:
  explicit OneReference(uint64_t reference) : reference_(reference) {}
  void set_running(bool is_running) { is_running_ = is_running; }

  int collections = 0;
  const RootCache* cache = nullptr;

 private:
  void show_roots(Tracer& tracer, std::unique_ptr<RootCache>& kept) override {
    ++collections;
    if (kept == nullptr) kept = std::make_unique<RootCache>();
    cache = kept.get();
    tracer.show(Traced::kAny, reference_);
  }
  uint64_t reference_;
};

// As large as the heap may be, so that a second one needs a collection.
struct FullHeap {
  static constexpr uint64_t kLimit = 1u << 16;
  RuntimeType type;
  Heap heap;
  uint64_t first = 0, bytes = 0;

  FullHeap() {
    type.kind = wasm::TypeKind::kStruct;
    type.struct_bytes = kLimit / 2;
    bytes = Heap::bytes_of(type, 0);
    heap.allow(kLimit);
    if (heap.make_room(bytes, nullptr)) first = heap.add(type, 0);
  }
};

TEST(HeapRuns, KeepWhatTheyShowAsLongAsTheyAreEntered) {
  FullHeap full;
  OneReference run(full.first), other(0);
  full.heap.enter(run);
  full.heap.enter(other);
  EXPECT_FALSE(full.heap.make_room(full.bytes, other, nullptr));
  EXPECT_EQ(run.collections, 1);
  EXPECT_EQ(other.cache, run.cache);  // what one has learned is for all
  EXPECT_NE(full.heap.find(full.first), nullptr);
  Heap::leave(run);
  EXPECT_TRUE(full.heap.make_room(full.bytes, other, nullptr));
  EXPECT_EQ(run.collections, 1);
  EXPECT_EQ(full.heap.find(full.first), nullptr);
}

TEST(HeapRuns, NothingIsFreedWhileAnotherRunWaitsForTheHost) {
  FullHeap full;
  OneReference waiting(0), inner(0);
  full.heap.enter(waiting);
  full.heap.enter(inner);
  inner.set_running(true);
  waiting.set_running(true);
  EXPECT_FALSE(full.heap.make_room(full.bytes, inner, nullptr));
  EXPECT_EQ(inner.collections, 0);
  waiting.set_running(false);
  EXPECT_TRUE(full.heap.make_room(full.bytes, inner, nullptr));
  EXPECT_EQ(inner.collections, 1);
}

}  // namespace
}  // namespace membrane::engine
