// Memories and tables with 64-bit addresses: every bound, also where a sum would wrap.

#include <gtest/gtest.h>

#include "engine/testing/call_testing.h"
#include "engine/testing/engine_testing.h"

namespace membrane::engine {
namespace {

MEMBRANE_IN_BOTH_TIERS(Memory64);

constexpr std::string_view kWide = R"((module
  (memory (export "memory") i64 1 3)
  (data (i64.const 8) "\01\02\03\04\05\06\07\08")
  (func (export "load") (param i64) (result i64) (i64.load (local.get 0)))
  (func (export "far") (param i64) (result i32) (i32.load8_u offset=0xFFFF_FFFF_FFFF_FFF0 (local.get 0)))
  (func (export "store") (param i64) (i32.store8 (local.get 0) (i32.const 7)))
  (func (export "fill") (param i64 i64) (memory.fill (local.get 0) (i32.const 1) (local.get 1)))
  (func (export "copy") (param i64 i64 i64) (memory.copy (local.get 0) (local.get 1) (local.get 2)))
  (func (export "grow") (param i64) (result i64) (memory.grow (local.get 0)))
  (func (export "size") (result i64) (memory.size))
  (table $t (export "table") i64 4 8 funcref)
  (elem (table $t) (i64.const 1) func $one)
  (func $one (result i32) (i32.const 1))
  (func (export "get") (param i64) (result i32) (ref.is_null (table.get $t (local.get 0))))
  (func (export "call") (param i64) (result i32) (call_indirect $t (result i32) (local.get 0)))
  (func (export "table.fill") (param i64 i64) (table.fill $t (local.get 0) (ref.func $one) (local.get 1)))
  (func (export "table.grow") (param i64) (result i64) (table.grow $t (ref.null func) (local.get 0)))))";

TEST_P(Memory64, EveryAccessIsBounded) {
  const auto instance = made(kWide);
  EXPECT_EQ(call(*instance, "load", {Value::i64(8)}).results.at(0), 0x0807060504030201u);
  EXPECT_EQ(call(*instance, "load", {Value::i64(65528)}).state, RunState::kFinished);
  for (const uint64_t address : {uint64_t{65529}, uint64_t{1} << 32, (uint64_t{1} << 32) + 8,
                                 uint64_t{1} << 33, uint64_t{1} << 63, UINT64_MAX, UINT64_MAX - 7}) {
    EXPECT_EQ(call(*instance, "load", {Value::i64(address)}).trap, "out of bounds memory access") << address;
    EXPECT_EQ(call(*instance, "store", {Value::i64(address + 8)}).trap,
              address > UINT64_MAX - 8 ? "" : "out of bounds memory access")
        << address;
  }
  EXPECT_EQ(call(*instance, "far", {Value::i64(24)}).trap,
            "out of bounds memory access");  // a sum that wraps
}

TEST_P(Memory64, BulkOperationsAndGrowthAre64BitsWide) {
  const auto instance = made(kWide);
  EXPECT_EQ(call(*instance, "fill", {Value::i64(65535), Value::i64(1)}).state, RunState::kFinished);
  EXPECT_EQ(call(*instance, "fill", {Value::i64(1), Value::i64(UINT64_MAX)}).trap,
            "out of bounds memory access");
  EXPECT_EQ(call(*instance, "fill", {Value::i64(uint64_t{1} << 32), Value::i64(0)}).trap,
            "out of bounds memory access");
  EXPECT_EQ(call(*instance, "copy", {Value::i64(0), Value::i64(uint64_t{1} << 32), Value::i64(1)}).trap,
            "out of bounds memory access");
  EXPECT_EQ(call(*instance, "grow", {Value::i64(uint64_t{1} << 32)}).results.at(0), UINT64_MAX);
  EXPECT_EQ(call(*instance, "grow", {Value::i64(UINT64_MAX)}).results.at(0), UINT64_MAX);
  EXPECT_EQ(call(*instance, "grow", {Value::i64(2)}).results.at(0), 1u);
  EXPECT_EQ(call(*instance, "size").results.at(0), 3u);
}

TEST_P(Memory64, TablesHave64BitIndices) {
  const auto instance = made(kWide);
  EXPECT_EQ(call(*instance, "get", {Value::i64(1)}).results.at(0), 0u);
  EXPECT_EQ(call(*instance, "get", {Value::i64((uint64_t{1} << 32) + 1)}).trap, "out of bounds table access");
  EXPECT_EQ(call(*instance, "call", {Value::i64(1)}).results.at(0), 1u);
  EXPECT_EQ(call(*instance, "call", {Value::i64((uint64_t{1} << 32) + 1)}).trap, "undefined element");
  EXPECT_EQ(call(*instance, "table.fill", {Value::i64(2), Value::i64(uint64_t{1} << 32)}).trap,
            "out of bounds table access");
  EXPECT_EQ(call(*instance, "table.grow", {Value::i64(uint64_t{1} << 40)}).results.at(0), UINT64_MAX);
  EXPECT_EQ(call(*instance, "table.grow", {Value::i64(4)}).results.at(0), 4u);
}

TEST_P(Memory64, AnImportMustHaveTheSameAddresses) {
  const auto narrow = made("(module (memory (export \"m\") 1) (table (export \"t\") 1 funcref))");
  const auto resolver = [&](const wasm::Module&, const wasm::Import& i) {
    return narrow->find_export(i.name);
  };
  for (const std::string_view text : {"(module (import \"\" \"m\" (memory i64 1)))",
                                      "(module (import \"\" \"t\" (table i64 1 funcref)))"}) {
    const auto wide = Instance::create(compiled(text), resolver, {});
    ASSERT_FALSE(wide);
    EXPECT_EQ(wide.error().kind, LinkError::Kind::kIncompatibleImport);
  }
}

}  // namespace
}  // namespace membrane::engine
