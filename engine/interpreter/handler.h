// What the handlers of the interpreter are made of. A handler is a function that runs one operation and ends in a jump to the
// handler of the next; its parameters are the interpreter's registers. Handlers are in the files *_handlers.cc, by subject,
// and those that any of them may end in are declared below. The macros are for these files and interpreter.cc alone.
//
// Threads: handlers run on the thread that calls interpret().
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "engine/code/code.h"
#include "engine/code/fuel.h"
#include "engine/code/numeric_simd.h"
#include "engine/instance/machine.h"

// Dispatch. With tail calls, a handler ends by jumping to the next one, and the eight registers of the
// interpreter stay in those of the calling convention. Without, it saves them and returns to the loop.
#if defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) && !defined(MEMBRANE_NO_TAIL_CALLS)
#define MEMBRANE_TAIL_CALLS 1
#else
#define MEMBRANE_TAIL_CALLS 0
#endif

#if defined(__clang__)
#define MUSTTAIL [[clang::musttail]]
#else
#define MUSTTAIL
#endif

#define REGISTERS                                                                                 \
  [[maybe_unused]] const Word *ip, [[maybe_unused]] uint64_t *fp, [[maybe_unused]] int64_t fuel,  \
      [[maybe_unused]] uint8_t *memory, [[maybe_unused]] Run *run, [[maybe_unused]] uint64_t acc, \
      [[maybe_unused]] double acc64, [[maybe_unused]] float acc32
#define PASS_REGISTERS(at) (at), fp, fuel, memory, run, acc, acc64, acc32

// Handlers are in one section, by which their faults are recognised (interpreted_code.cc).
#define HANDLER(name) __attribute__((section("membrane_interpreter"))) void name(REGISTERS)
#define DECLARE_HANDLER(name) __attribute__((visibility("hidden"))) void name(REGISTERS)

#if MEMBRANE_TAIL_CALLS
#define DISPATCH(at) MUSTTAIL return (at)->handler(PASS_REGISTERS(at))
#else
#define DISPATCH(at) return save(PASS_REGISTERS(at))
#endif
#define GO_TO(function) MUSTTAIL return function(PASS_REGISTERS(ip))

// Continues after an operation of `words` words.
#define NEXT(words) DISPATCH(ip + (words))

// Pays for the segment whose header is at `at`, and runs it.
#define ENTER(at)                                   \
  do {                                              \
    const Word* const header_word = (at);           \
    if (kMetered) fuel -= header_word->header.cost; \
    ip = header_word + 1;                           \
    if (kMetered && fuel < 0) [[unlikely]]          \
      GO_TO(refill);                                \
    DISPATCH(ip);                                   \
  } while (false)

#define TRAP(kind)                                   \
  do {                                               \
    Machine::state(*run).trap_kind = TrapKind::kind; \
    return trapped(PASS_REGISTERS(ip));              \
  } while (false)

// Pays for a bulk operation, or takes more fuel first and begins it again.
#define PAY_FOR_BULK(amount)                    \
  do {                                          \
    const uint64_t price = (amount);            \
    if (fuel < static_cast<int64_t>(price)) {   \
      Machine::state(*run).fuel_needed = price; \
      GO_TO(refill_for_bulk);                   \
    }                                           \
    fuel -= static_cast<int64_t>(price);        \
  } while (false)

// Writes a result to its slot and to the accumulator of its type.
#define RESULT(slot, value)                                   \
  do {                                                        \
    const auto result_value = (value);                        \
    const uint64_t result_bits = slot_of(result_value);       \
    fp[slot] = result_bits;                                   \
    accumulate(result_value, result_bits, acc, acc64, acc32); \
  } while (false)

#define ACCUMULATOR(type) accumulated<type>(acc, acc64, acc32)

namespace membrane::engine::handlers {

// Of each operation.
#define E(operation) DECLARE_HANDLER(operation);
#include "engine/code/operations_each.def"

// Other handlers end in this. It takes more fuel for the segment whose header is before ip.
DECLARE_HANDLER(refill);
// The same for a bulk operation that lacks `fuel_needed`; its word 1 says how far back its header is.
DECLARE_HANDLER(refill_for_bulk);
// Calls, or tail calls, `callee` of the state: of the host, or of any instance. Word 1 names where the arguments begin.
DECLARE_HANDLER(call_instance);
DECLARE_HANDLER(tail_call_instance);

// -- stopping -------------------------------------------------------------------------

MEMBRANE_INLINE void save(REGISTERS) {
  MachineState& m = Machine::state(*run);
  m.ip = ip;
  m.fp = fp;
  m.fuel = fuel;
  m.memory = memory;
#if !MEMBRANE_TAIL_CALLS
  m.acc = acc;
  m.acc64 = acc64;
  m.acc32 = acc32;
#endif
}

MEMBRANE_INLINE void stop(REGISTERS, RunState state) {
  save(PASS_REGISTERS(ip));
  Machine::state(*run).state = state;
}

// The kind of the trap is noted.
MEMBRANE_INLINE void trapped(REGISTERS) { stop(PASS_REGISTERS(ip), RunState::kTrapped); }

// The other tier continues: the state stays kReady.
MEMBRANE_INLINE void hand_over(REGISTERS, Where to) {
  save(PASS_REGISTERS(ip));
  Machine::state(*run).where = to;
}

// -- slots ----------------------------------------------------------------------------

template <typename T>
MEMBRANE_INLINE T get(uint64_t slot) {
  if constexpr (std::is_same_v<T, float>) return std::bit_cast<float>(static_cast<uint32_t>(slot));
  else if constexpr (std::is_same_v<T, double>) return std::bit_cast<double>(slot);
  else return static_cast<T>(slot);
}

template <typename T>
MEMBRANE_INLINE uint64_t slot_of(T value) {
  if constexpr (std::is_same_v<T, float>) return std::bit_cast<uint32_t>(value);
  else if constexpr (std::is_same_v<T, double>) return std::bit_cast<uint64_t>(value);
  else if constexpr (std::is_same_v<T, int32_t>) return static_cast<uint32_t>(value);
  else return static_cast<uint64_t>(value);
}

template <typename T>
MEMBRANE_INLINE T accumulated(uint64_t acc, double acc64, float acc32) {
  if constexpr (std::is_same_v<T, float>) return acc32;
  else if constexpr (std::is_same_v<T, double>) return acc64;
  else return static_cast<T>(acc);
}

template <typename T>
MEMBRANE_INLINE void accumulate(T value, uint64_t bits, uint64_t& acc, double& acc64, float& acc32) {
  if constexpr (std::is_same_v<T, double>) acc64 = value;
  else if constexpr (std::is_same_v<T, float>) acc32 = value;
  else acc = bits;
}

// A v128 is named by the first of its two slots.
MEMBRANE_INLINE simd::V128 vector_at(const uint64_t* slots) {
  simd::V128 v;
  std::memcpy(&v, slots, sizeof v);
  return v;
}
MEMBRANE_INLINE void put_vector(uint64_t* slots, simd::V128 v) { std::memcpy(slots, &v, sizeof v); }

MEMBRANE_INLINE Table& table_of(Run* run, uint64_t index) {
  return *Machine::table(*Machine::state(*run).instance, static_cast<uint32_t>(index));
}

}  // namespace membrane::engine::handlers
