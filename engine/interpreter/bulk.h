// The bulk operations of memories and tables, for both tiers. Each is checked first,
// then paid for, then done: an operation that is out of bounds moves nothing and pays for no byte.
//
// `indices` holds what the instruction names: in its low half the destination of a copy, or the
// segment of an init; in its high half the source of a copy, or the destination of an init.
//
// Threads: one at a time, as for the Instance. Specification: WebAssembly 3.0, chapter 4.4.
#pragma once

#include <algorithm>
#include <cstring>

#include "engine/code/fuel.h"
#include "engine/instance/machine.h"

namespace membrane::engine {

struct BulkWork {
  bool in_bounds = false;
  bool of_elements = false;  // 8 bytes each
  uint64_t price = 0;
  void* to = nullptr;
  const void* from = nullptr;  // null: to be filled with `value`
  uint64_t value = 0;
  uint64_t count = 0;

  MEMBRANE_INLINE void perform() const {
    if (count == 0) return;
    if (from != nullptr) std::memmove(to, from, of_elements ? count * sizeof(uint64_t) : count);
    else if (of_elements) std::fill_n(static_cast<uint64_t*>(to), count, value);
    else std::memset(to, static_cast<int>(value & 0xFF), count);
  }
};

// An address, a size or a count as a slot holds it.
MEMBRANE_INLINE uint64_t number(uint64_t slot, bool is_64) {
  return is_64 ? slot : static_cast<uint32_t>(slot);
}
MEMBRANE_INLINE bool in_bounds(uint64_t from, uint64_t count, uint64_t size) {
  return count <= size && from <= size - count;
}

MEMBRANE_INLINE BulkWork memory_fill(const Instance& instance, uint64_t to, uint64_t value, uint64_t count,
                                     uint64_t indices) {
  const Memory& m = Machine::memory(instance, static_cast<uint32_t>(indices));
  to = number(to, m.is_64());
  count = number(count, m.is_64());
  return {in_bounds(to, count, m.size_bytes()),
          false,
          bulk_memory_cost(count),
          m.base() + to,
          nullptr,
          value,
          count};
}

MEMBRANE_INLINE BulkWork memory_copy(const Instance& instance, uint64_t to, uint64_t from, uint64_t count,
                                     uint64_t indices) {
  const Memory& target = Machine::memory(instance, static_cast<uint32_t>(indices));
  const Memory& source = Machine::memory(instance, static_cast<uint32_t>(indices >> 32));
  to = number(to, target.is_64());
  from = number(from, source.is_64());
  count = number(count, target.is_64() && source.is_64());
  if (!in_bounds(to, count, target.size_bytes()) || !in_bounds(from, count, source.size_bytes())) return {};
  return {true, false, bulk_memory_cost(count), target.base() + to, source.base() + from, 0, count};
}

MEMBRANE_INLINE BulkWork memory_init(const Instance& instance, uint64_t to, uint64_t from, uint64_t count,
                                     uint64_t indices) {
  const std::span<const uint8_t> data = Machine::data(instance, static_cast<uint32_t>(indices));
  const Memory& m = Machine::memory(instance, static_cast<uint32_t>(indices >> 32));
  to = number(to, m.is_64());
  from = static_cast<uint32_t>(from);
  count = static_cast<uint32_t>(count);
  if (!in_bounds(to, count, m.size_bytes()) || !in_bounds(from, count, data.size())) return {};
  return {true, false, bulk_memory_cost(count), m.base() + to, data.data() + from, 0, count};
}

// Indices of tables with 64 bits are clamped before (translate.cc): 32 bits hold them all.
MEMBRANE_INLINE BulkWork table_work(TableElements& target, const std::span<const uint64_t>* source,
                                    uint64_t to, uint64_t second, uint64_t count) {
  to = static_cast<uint32_t>(to);
  count = static_cast<uint32_t>(count);
  const uint64_t from = static_cast<uint32_t>(second);
  if (!in_bounds(to, count, target.size())) return {};
  if (source != nullptr && !in_bounds(from, count, source->size())) return {};
  // Made writable first, since it may be the source as well, and move.
  uint64_t* const target_at = target.writable().data() + to;
  const uint64_t* source_at = source == nullptr ? nullptr : source->data() + from;
  return {true, true, bulk_table_cost(count), target_at, source_at, second, count};
}

MEMBRANE_INLINE BulkWork table_fill(const Instance& instance, uint64_t to, uint64_t value, uint64_t count,
                                    uint64_t indices) {
  return table_work(Machine::table(instance, static_cast<uint32_t>(indices))->elements, nullptr, to, value,
                    count);
}

MEMBRANE_INLINE BulkWork table_copy(const Instance& instance, uint64_t to, uint64_t from, uint64_t count,
                                    uint64_t indices) {
  TableElements& target = Machine::table(instance, static_cast<uint32_t>(indices))->elements;
  const std::span<const uint64_t> source =
      Machine::table(instance, static_cast<uint32_t>(indices >> 32))->elements;
  return table_work(target, &source, to, from, count);
}

MEMBRANE_INLINE BulkWork table_init(Instance& instance, uint64_t to, uint64_t from, uint64_t count,
                                    uint64_t indices) {
  const std::span<const uint64_t> source = Machine::elements(instance, static_cast<uint32_t>(indices));
  return table_work(Machine::table(instance, static_cast<uint32_t>(indices >> 32))->elements, &source, to,
                    from, count);
}

}  // namespace membrane::engine
