// A global: one cell, which compiled code reads and writes in place.
//
// Ownership: of a Store. Threads: those of the Store.
#pragma once

#include <cstdint>

#include "wasm/types.h"

namespace membrane::engine {

struct GlobalInstance {
  wasm::GlobalType type;
  uint64_t bits = 0;
  uint64_t high_bits = 0;
  const wasm::FuncType* defined = nullptr;  // what its type refers to, when it is a defined one
};

}  // namespace membrane::engine
