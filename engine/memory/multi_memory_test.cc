// Several memories: each has bounds, growth and bytes of its own, and they share one limit.

#include <gtest/gtest.h>

#include "engine/testing/call_testing.h"
#include "engine/testing/engine_testing.h"

namespace membrane::engine {
namespace {

MEMBRANE_IN_BOTH_TIERS(MultiMemory);

constexpr std::string_view kTwo = R"((module
  (memory $a (export "a") 1 4)
  (memory $b (export "b") 2 4)
  (data $d (memory $b) (i32.const 70000) "hello")
  (data $passive "12345678")
  (func (export "store") (param i32 i32) (i32.store $b offset=4 (local.get 0) (local.get 1)))
  (func (export "load8") (param i32) (result i32) (i32.load8_s $b (local.get 0)))
  (func (export "load64") (param i32) (result i64) (i64.load $b (local.get 0)))
  (func (export "float") (param i32) (result f64)
    (f64.store $b (local.get 0) (f64.const 2.5)) (f64.load 1 (local.get 0)))
  (func (export "copy") (param i32 i32 i32) (memory.copy $a $b (local.get 0) (local.get 1) (local.get 2)))
  (func (export "init") (param i32 i32 i32) (memory.init $b $passive (local.get 0) (local.get 1) (local.get 2)))
  (func (export "fill") (param i32 i32 i32) (memory.fill $b (local.get 0) (local.get 1) (local.get 2)))
  (func (export "grow a") (param i32) (result i32) (memory.grow (local.get 0)))
  (func (export "grow b") (param i32) (result i32) (memory.grow $b (local.get 0)))
  (func (export "size b") (result i32) (memory.size $b))))";

TEST_P(MultiMemory, EachHasItsOwnBytesAndBounds) {
  const auto instance = made(kTwo);
  uint8_t* const a = instance->find_export("a")->memory->base();
  uint8_t* const b = instance->find_export("b")->memory->base();
  EXPECT_EQ(b[70000], 'h');
  EXPECT_EQ(call(*instance, "store", {Value::i32(100), Value::i32(0x81)}).state, RunState::kFinished);
  EXPECT_EQ(b[104], 0x81);
  EXPECT_EQ(a[104], 0);
  EXPECT_EQ(call(*instance, "load8", {Value::i32(104)}).results.at(0), 0xFFFFFF81u);
  EXPECT_EQ(call(*instance, "load64", {Value::i32(104)}).results.at(0), 0x81u);
  EXPECT_EQ(call(*instance, "load64", {Value::i32(131072 - 8)}).state, RunState::kFinished);
  EXPECT_EQ(call(*instance, "load64", {Value::i32(131072 - 7)}).trap, "out of bounds memory access");
  EXPECT_EQ(call(*instance, "store", {Value::i32(131072 - 7), Value::i32(1)}).trap,
            "out of bounds memory access");
  EXPECT_EQ(call(*instance, "store", {Value::i32(UINT32_MAX), Value::i32(1)}).trap,
            "out of bounds memory access");
  EXPECT_EQ(call(*instance, "float", {Value::i32(8)}).results.at(0), Value::f64(2.5).bits);
}

TEST_P(MultiMemory, BulkOperationsGoBetweenThem) {
  const auto instance = made(kTwo);
  const auto three = [](uint32_t x, uint32_t y, uint32_t z) {
    return std::vector{Value::i32(x), Value::i32(y), Value::i32(z)};
  };
  uint8_t* const a = instance->find_export("a")->memory->base();
  uint8_t* const b = instance->find_export("b")->memory->base();
  EXPECT_EQ(call(*instance, "copy", three(3, 70000, 5)).fuel, 3u + 1 + 1);
  EXPECT_EQ(a[7], 'o');
  EXPECT_EQ(call(*instance, "copy", three(65532, 70000, 5)).trap, "out of bounds memory access");
  EXPECT_EQ(call(*instance, "init", three(90000, 2, 3)).state, RunState::kFinished);
  EXPECT_EQ(b[90000], '3');
  EXPECT_EQ(call(*instance, "fill", three(100000, 7, 3)).state, RunState::kFinished);
  EXPECT_EQ(b[100002], 7);
  EXPECT_EQ(call(*instance, "fill", three(131072, 7, 1)).trap, "out of bounds memory access");
}

TEST_P(MultiMemory, TheLimitIsForAllOfThem) {
  const auto instance = made(kTwo, {.memory_bytes = 5 * 65536});
  EXPECT_EQ(call(*instance, "grow a", {Value::i32(1)}).results.at(0), 1u);
  EXPECT_FALSE(instance->limit_was_hit());
  EXPECT_EQ(call(*instance, "grow b", {Value::i32(2)}).results.at(0), UINT32_MAX);
  EXPECT_TRUE(instance->limit_was_hit());
  EXPECT_EQ(call(*instance, "grow b", {Value::i32(1)}).results.at(0), 2u);
  EXPECT_EQ(call(*instance, "grow a", {Value::i32(1)}).results.at(0), UINT32_MAX);
  EXPECT_EQ(call(*instance, "size b").results.at(0), 3u);
  EXPECT_EQ(instance->memory_bytes(), 5u * 65536);
  const auto refused = Instance::create(compiled(kTwo), {}, {.memory_bytes = 2 * 65536});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, LinkError::Kind::kLimit);
}

}  // namespace
}  // namespace membrane::engine
