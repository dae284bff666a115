// The handlers of memories and tables: loads, stores, sizes, bulk operations.
#include <algorithm>

#include "engine/interpreter/bulk.h"
#include "engine/interpreter/handler_memory.h"

namespace membrane::engine::handlers {

// -- loads and stores: slots dst and address, or address and value; and the offset --------------------

#define LOAD_FORM(name, from, to, base, words)                                                       \
  HANDLER(name) {                                                                                    \
    const ImmediateWord w = ip[1].imm;                                                               \
    const uint64_t address = uint64_t{static_cast<uint32_t>(base)} + static_cast<uint32_t>(w.value); \
    CHECK_BOUNDS(address, sizeof(from));                                                             \
    RESULT(w.a, static_cast<to>(load<from>(memory, address, ip, fp, fuel)));                         \
    NEXT(words);                                                                                     \
  }

// Of any memory: its index is in word 1, the offset in word 2.
#define LOAD_OF_ANY(name, from, to)                         \
  HANDLER(name) {                                           \
    const SlotsWord w = ip[1].slots;                        \
    FIND_IN_ANY(w.b, sizeof(from));                         \
    RESULT(w.a, static_cast<to>(read<from>(any, address))); \
    NEXT(3);                                                \
  }

#define STORE_TO_ANY(name, type)                   \
  HANDLER(name) {                                  \
    const SlotsWord w = ip[1].slots;               \
    FIND_IN_ANY(w.a, sizeof(type));                \
    write<type>(any, address, get<type>(fp[w.b])); \
    NEXT(3);                                       \
  }

#define LOAD(id, from, to)                                \
  LOAD_FORM(id##S, from, to, fp[w.b], 2)                  \
  LOAD_FORM(id##A, from, to, acc, 2)                      \
  LOAD_FORM(id##K, from, to, fp[w.b] + ip[2].constant, 3) \
  LOAD_OF_ANY(id##M, from, to)

#define STORE(id, type)                                 \
  STORE_FORM(id##S, type, get<type>(fp[w.b]), 2)        \
  STORE_FORM(id##A, type, ACCUMULATOR(type), 2)         \
  STORE_FORM(id##K, type, get<type>(ip[2].constant), 3) \
  STORE_TO_ANY(id##M, type)

#include "engine/code/operations.def"

// -- memory as a whole -----------------------------------------------------------------------------

namespace {

MEMBRANE_INLINE Memory& memory_of(Run* run, uint64_t index) {
  return Machine::memory(*Machine::state(*run).instance, static_cast<uint32_t>(index));
}

}  // namespace

HANDLER(kMemorySize) {  // dst, memory
  fp[ip[1].slots.a] = memory_of(run, ip[1].slots.b).pages();
  NEXT(2);
}

// -- bulk operations of memories and tables ---------------------------------------------------------

HANDLER(kMemoryGrow) {  // dst, pages
  const SlotsWord w = ip[1].slots;
  Memory& m = memory_of(run, ip[2].constant);
  const uint64_t pages = number(fp[w.b], m.is_64());
  if (m.can_grow(pages)) PAY_FOR_BULK(memory_grow_cost(pages));
  fp[w.a] = number(static_cast<uint64_t>(m.grow(pages)), m.is_64());
  ENTER(ip + 3);
}

// Operands are to, from or value, and count; word 2 holds the indices (bulk.h).
#define BULK_HANDLER(id, trap, function)                                                     \
  HANDLER(id) {                                                                              \
    const SlotsWord w = ip[1].slots;                                                         \
    const BulkWork work =                                                                    \
        function(*Machine::state(*run).instance, fp[w.a], fp[w.b], fp[w.c], ip[2].constant); \
    if (!work.in_bounds) TRAP(trap);                                                         \
    PAY_FOR_BULK(work.price);                                                                \
    work.perform();                                                                          \
    ENTER(ip + 3);                                                                           \
  }
BULK_HANDLER(kMemoryFill, kMemoryOutOfBounds, memory_fill)
BULK_HANDLER(kMemoryCopy, kMemoryOutOfBounds, memory_copy)
BULK_HANDLER(kMemoryInit, kMemoryOutOfBounds, memory_init)
BULK_HANDLER(kTableFill, kTableOutOfBounds, table_fill)
BULK_HANDLER(kTableCopy, kTableOutOfBounds, table_copy)
BULK_HANDLER(kTableInit, kTableOutOfBounds, table_init)

HANDLER(kDataDrop) {
  Machine::drop_data(*Machine::state(*run).instance, static_cast<uint32_t>(ip[1].imm.value));
  NEXT(2);
}

// -- tables: word 2 holds the table's index, and in its high half a segment's or source's -----------

// Tables have fewer than 2^32 elements, so an index out of bounds stays so.
HANDLER(kClampIndex) {
  fp[ip[1].slots.a] = std::min<uint64_t>(fp[ip[1].slots.b], UINT32_MAX);
  NEXT(2);
}

HANDLER(kTableGet) {  // dst, index
  const SlotsWord w = ip[1].slots;
  const TableElements& elements = table_of(run, ip[2].constant).elements;
  const uint32_t index = static_cast<uint32_t>(fp[w.b]);
  if (index >= elements.size()) [[unlikely]]
    TRAP(kTableOutOfBounds);
  fp[w.a] = elements[index];
  NEXT(3);
}

HANDLER(kTableSet) {  // index, value
  const SlotsWord w = ip[1].slots;
  TableElements& elements = table_of(run, ip[2].constant).elements;
  const uint32_t index = static_cast<uint32_t>(fp[w.a]);
  if (index >= elements.size()) [[unlikely]]
    TRAP(kTableOutOfBounds);
  elements.writable()[index] = fp[w.b];
  NEXT(3);
}

HANDLER(kTableSize) {
  fp[ip[1].slots.a] = table_of(run, ip[2].constant).elements.size();
  NEXT(3);
}

HANDLER(kTableGrow) {  // dst, value, count
  const SlotsWord w = ip[1].slots;
  Table& table = table_of(run, ip[2].constant);
  const uint64_t count = static_cast<uint32_t>(fp[w.c]);
  if (table.can_grow(count)) PAY_FOR_BULK(bulk_table_cost(count));
  fp[w.a] = number(static_cast<uint64_t>(table.grow(count, fp[w.b])), table.is_64);
  ENTER(ip + 3);
}

namespace {

void drop_elements(Run* run, uint32_t index) {
  Machine::elements(*Machine::state(*run).instance, index) = {};
}

}  // namespace

HANDLER(kElemDrop) {
  drop_elements(run, static_cast<uint32_t>(ip[1].imm.value));
  NEXT(2);
}

}  // namespace membrane::engine::handlers
