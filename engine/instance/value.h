// Values that an embedder gives to functions and gets from them.
//
// Threads: plain data.
#pragma once

#include <bit>
#include <cstdint>

#include "wasm/types.h"

namespace membrane::engine {

// A value with its type. v128 uses both words; references are a FunctionInstance*, an
// embedder's number plus one (below 2^62), or that of an exception of the Store plus one; 0 for null. A reference
// to a struct or an array can be used only with its Store (heap.h), and as long as the Execution that returned it
// lives.
struct Value {
  wasm::ValType type = wasm::ValType::kI32;
  uint64_t bits = 0;
  uint64_t high_bits = 0;

  static Value i32(uint32_t v) { return {wasm::ValType::kI32, v, 0}; }
  static Value i64(uint64_t v) { return {wasm::ValType::kI64, v, 0}; }
  static Value f32(float v) { return {wasm::ValType::kF32, std::bit_cast<uint32_t>(v), 0}; }
  static Value f64(double v) { return {wasm::ValType::kF64, std::bit_cast<uint64_t>(v), 0}; }
  static Value null(wasm::ValType type) { return {type, 0, 0}; }
};

}  // namespace membrane::engine
