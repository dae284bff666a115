// What running costs beyond the cost column of wasm/opcodes.def. Together they are the
// cost table; kCostVersion changes with any of them, and every report names it.
// The rules in words: docs/fuel.md.
//
// Threads: constants and pure functions.
#pragma once

#include <cstdint>

namespace membrane::engine {

inline constexpr uint32_t kCostVersion = 2;

// Without it, segments are not charged and nothing ends an endless loop: only for the benchmark of the cost of
// fuel.
#ifdef MEMBRANE_UNMETERED_BENCHMARK
inline constexpr bool kMetered = false;
#else
inline constexpr bool kMetered = true;
#endif

// memory.fill, memory.copy, memory.init: 1 for each 16 bytes begun.
constexpr uint64_t bulk_memory_cost(uint64_t bytes) { return (bytes + 15) / 16; }
// table.fill, table.copy, table.init, table.grow: 1 an element.
constexpr uint64_t bulk_table_cost(uint64_t elements) { return elements; }
// A struct or an array: 1 for each 16 bytes begun of what it counts for (heap.h). array.fill, array.copy and
// array.init: as the bulk operations of memories, by the bytes of the elements.
constexpr uint64_t allocation_cost(uint64_t bytes) { return bulk_memory_cost(bytes); }
// memory.grow, when it succeeds: 1 for each KiB.
constexpr uint64_t memory_grow_cost(uint64_t pages) { return pages * 64; }
// Entering a function whose locals fill this many slots of 8 bytes, which must be zeroed.
constexpr uint32_t zeroing_cost(uint32_t slots) { return slots / 8; }

// throw and throw_ref: 1 for each frame that is left, for each clause that is examined on the way, and for
// each 8 slots that the exception carries.
constexpr uint64_t throw_cost(uint64_t frames, uint64_t clauses, uint32_t slots) {
  return frames + clauses + slots / 8;
}

}  // namespace membrane::engine
