// How handlers find their place in a memory: in memory 0 by its base, and in any other by its index, whose bounds are compared.
//
// Threads: as for handler.h.
#pragma once

#include "engine/interpreter/handler.h"
#include "engine/memory/access.h"

#if MEMBRANE_GUARD_PAGES
#define CHECK_BOUNDS(address, size) (void)0
#else
#define CHECK_BOUNDS(address, size)                                                                    \
  if ((address) + (size) > Machine::memory(*Machine::state(*run).instance)->size_bytes()) [[unlikely]] \
  TRAP(kMemoryOutOfBounds)
#endif

// Of any memory: its index is in word 1, the offset in word 2; the bounds are compared.
#define FIND_IN_ANY(address_slot, size)                                                   \
  const Memory& any = Machine::memory(*Machine::state(*run).instance, w.c);               \
  const uint64_t address =                                                                \
      any_address(fp[address_slot], ip[2].constant, any.is_64(), size, any.size_bytes()); \
  if (address == kOutside) [[unlikely]]                                                   \
  TRAP(kMemoryOutOfBounds)

#define STORE_FORM(name, type, operand, words)                                                          \
  HANDLER(name) {                                                                                       \
    const ImmediateWord w = ip[1].imm;                                                                  \
    const uint64_t address = uint64_t{static_cast<uint32_t>(fp[w.a])} + static_cast<uint32_t>(w.value); \
    CHECK_BOUNDS(address, sizeof(type));                                                                \
    store<type>(memory, address, operand, ip, fp, fuel);                                                \
    NEXT(words);                                                                                        \
  }

namespace membrane::engine::handlers {

constexpr uint64_t kOutside = UINT64_MAX;

// Where an access of `size` bytes begins, or kOutside.
MEMBRANE_INLINE uint64_t any_address(uint64_t slot, uint64_t offset, bool is_64, uint64_t size,
                                     uint64_t memory_bytes) {
  const uint64_t base = is_64 ? slot : static_cast<uint32_t>(slot), address = base + offset;
  return address < base || memory_bytes < size || address > memory_bytes - size ? kOutside : address;
}

template <typename T>
MEMBRANE_INLINE T read(const Memory& memory, uint64_t address) {
  T value;
  std::memcpy(&value, memory.base() + address, sizeof value);
  return value;
}

template <typename T>
MEMBRANE_INLINE void write(const Memory& memory, uint64_t address, T value) {
  std::memcpy(memory.base() + address, &value, sizeof value);
}

}  // namespace membrane::engine::handlers
