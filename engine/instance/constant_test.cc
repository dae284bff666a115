// Constant expressions: what globals, segments and tables begin with.

#include <gtest/gtest.h>

#include "engine/testing/engine_testing.h"

namespace membrane::engine {
namespace {

uint64_t global(Instance& instance, std::string_view name) {
  return instance.find_export(name)->global->bits;
}

TEST(Constant, ComputesAndReadsEarlierGlobals) {
  const auto instance = instantiate(R"((module
    (global $three (export "three") i32 (i32.const 3))
    (global $i (export "i") i32 (i32.mul (i32.add (global.get $three) (i32.const 4)) (i32.const 6)))
    (global $wraps (export "wraps") i32 (i32.sub (i32.const -2147483648) (global.get $three)))
    (global $l (export "l") i64
      (i64.sub (i64.mul (i64.const 1_000_000_007) (i64.const 1_000_000_009)) (i64.add (i64.const 1) (i64.const -3))))
    (memory (export "memory") 1)
    (data (i32.add (global.get $i) (i32.const 1)) "x")
    (data (offset global.get $i i32.const 1 i32.sub) "y")
    (func $f)
    (table (export "table") 5 funcref)
    (elem (i32.sub (global.get $three) (i32.const 1)) $f)))");
  ASSERT_NE(instance, nullptr);
  EXPECT_EQ(global(*instance, "i"), 42u);
  EXPECT_EQ(global(*instance, "wraps"), 0x7FFF'FFFDu);
  EXPECT_EQ(global(*instance, "l"), 1'000'000'016'000'000'065u);
  EXPECT_EQ(instance->memory()->base()[43], 'x');
  EXPECT_EQ(instance->memory()->base()[41], 'y');
  const auto& elements = instance->find_export("table")->table->elements;
  EXPECT_NE(elements[2], 0u);
  EXPECT_EQ(elements[1] | elements[3], 0u);
}

TEST(Constant, ASegmentThatIsComputedToLieOutsideTraps) {
  const auto module = compile(R"((module (memory 1) (data (i32.sub (i32.const 0) (i32.const 1)) "x")))");
  const auto instance = Instance::create(module, {}, {});
  ASSERT_FALSE(instance);
  EXPECT_EQ(instance.error().trap, TrapKind::kMemoryOutOfBounds);
}

}  // namespace
}  // namespace membrane::engine
