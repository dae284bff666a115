#include "engine/interpreter/interpreter.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "engine/code/fuel.h"
#include "engine/code/numeric.h"
#include "engine/code/numeric_simd.h"
#include "engine/instance/machine.h"
#include "engine/interpreter/aggregates.h"
#include "engine/interpreter/bulk.h"
#include "engine/interpreter/interpreted_code.h"

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

#define REGISTERS                                                                                \
  [[maybe_unused]] const Word *ip, [[maybe_unused]] uint64_t *fp, [[maybe_unused]] int64_t fuel, \
      [[maybe_unused]] uint8_t *memory, [[maybe_unused]] Run *ex, [[maybe_unused]] uint64_t acc, \
      [[maybe_unused]] double acc64, [[maybe_unused]] float acc32
#define PASS_REGISTERS(at) (at), fp, fuel, memory, ex, acc, acc64, acc32
#define HANDLER(name) __attribute__((section("membrane_interpreter"))) static void name(REGISTERS)

#if MEMBRANE_TAIL_CALLS
#define DISPATCH(at) MUSTTAIL return (at)->handler(PASS_REGISTERS(at))
#else
#define DISPATCH(at) return save(PASS_REGISTERS(at))
#endif
#define GO_TO(function) MUSTTAIL return function(PASS_REGISTERS(ip))

// Goes on behind an operation of `words` words.
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

#define TRAP(kind)                                  \
  do {                                              \
    Machine::state(*ex).trap_kind = TrapKind::kind; \
    GO_TO(trapped);                                 \
  } while (false)

namespace membrane::engine {

bool refill_slice(Run& ex, int64_t& fuel, uint64_t needed, uint64_t slice) {
  MachineState& m = Machine::state(ex);
  const ExecutionLimits& limits = Machine::limits(ex);
  const bool polls = m.fuel_until_poll == 0;
  if (polls) m.fuel_until_poll = limits.poll_interval_fuel;
  const int64_t lacking = static_cast<int64_t>(needed) - fuel;
  const uint64_t wanted = std::max<uint64_t>(std::min(slice, m.fuel_until_poll), lacking > 0 ? lacking : 0);
  const uint64_t taken = std::min(m.fuel_reserve, wanted);
  m.fuel_reserve -= taken;
  fuel += static_cast<int64_t>(taken);
  m.fuel_until_poll -= std::min(wanted, m.fuel_until_poll);
  return polls && limits.poll && limits.poll();
}

namespace {

using namespace numeric;

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

// -- stopping -------------------------------------------------------------------------

MEMBRANE_INLINE void save(REGISTERS) {
  MachineState& m = Machine::state(*ex);
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

void stop(REGISTERS, RunState state) {
  save(PASS_REGISTERS(ip));
  Machine::state(*ex).state = state;
}

HANDLER(trapped) { stop(PASS_REGISTERS(ip), RunState::kTrapped); }

// The other side goes on: the state stays kReady.
void hand_over(REGISTERS, Where to) {
  save(PASS_REGISTERS(ip));
  Machine::state(*ex).where = to;
}

// The interpreter's slices are short where functions may be compiled: the function that is running when one ends
// uses much fuel, as a rule, and is worth compiling. Hot functions are found at no cost in the code, and the same
// at every run.
bool samples_functions(Run& ex) {
  const FunctionCode* const function = Machine::state(ex).top->function;
  return function->module->tier() != Tier::kInterpreter;
}
uint64_t slice_of(Run& ex) {
  const uint64_t slice = Machine::limits(ex).poll_interval_fuel;
  return samples_functions(ex) ? std::min(kSampleFuel, slice) : slice;
}

// ip is behind a header whose cost the slice did not cover.
HANDLER(refill) {
  const uint32_t cost = ip[-1].header.cost;
  fuel += cost;
  const bool ends_sample =
      std::exchange(Machine::state(*ex).sample_fuel, kSampleFuel) != 0 && samples_functions(*ex);
  const bool interrupted = refill_slice(*ex, fuel, cost, slice_of(*ex));
  if (interrupted) return stop(PASS_REGISTERS(ip - 1), RunState::kInterrupted);
  if (fuel < static_cast<int64_t>(cost)) return stop(PASS_REGISTERS(ip - 1), RunState::kOutOfFuel);
  if (ends_sample && cost != 0) return hand_over(PASS_REGISTERS(ip - 1), Where::kTierUp);
  fuel -= cost;
  DISPATCH(ip);
}

// ip is a bulk operation that lacks `fuel_needed`; word 1 says how far back its header is.
HANDLER(refill_for_bulk) {
  const Word* const header = ip - ip[1].slots.d;
  const uint64_t needed = Machine::state(*ex).fuel_needed;
  // Where functions are sampled it gets no more than it needs, and the sample ends at the next header.
  const uint64_t slice = samples_functions(*ex) ? 0 : slice_of(*ex);
  const bool interrupted = refill_slice(*ex, fuel, needed, slice);
  if (!interrupted && fuel >= static_cast<int64_t>(needed)) DISPATCH(ip);
  fuel += header->header.cost;
  return stop(PASS_REGISTERS(header), interrupted ? RunState::kInterrupted : RunState::kOutOfFuel);
}

#define PAY_FOR_BULK(amount)                   \
  do {                                         \
    const uint64_t price = (amount);           \
    if (fuel < static_cast<int64_t>(price)) {  \
      Machine::state(*ex).fuel_needed = price; \
      GO_TO(refill_for_bulk);                  \
    }                                          \
    fuel -= static_cast<int64_t>(price);       \
  } while (false)

template <typename T>
MEMBRANE_INLINE void accumulate(T value, uint64_t bits, uint64_t& acc, double& acc64, float& acc32) {
  if constexpr (std::is_same_v<T, double>) acc64 = value;
  else if constexpr (std::is_same_v<T, float>) acc32 = value;
  else acc = bits;
}

// Writes a result to its slot and to the accumulator of its type.
#define RESULT(slot, value)                                   \
  do {                                                        \
    const auto result_value = (value);                        \
    const uint64_t result_bits = slot_of(result_value);       \
    fp[slot] = result_bits;                                   \
    accumulate(result_value, result_bits, acc, acc64, acc32); \
  } while (false)

// -- numeric: slots dst, a, b; or dst, a and a constant ------------------------------------
//
// Where an operand is the accumulator, its slot stands in the word all the same.

#define ACCUMULATOR(type) accumulated<type>(acc, acc64, acc32)

#define FORM(name, word_format, result, a_value, b_value, words, function) \
  HANDLER(name) {                                                          \
    const word_format;                                                     \
    RESULT(w.a, static_cast<result>(function(a_value, b_value)));          \
    NEXT(words);                                                           \
  }
#define SLOTS SlotsWord w = ip[1].slots
#define IMMEDIATE ImmediateWord w = ip[1].imm

#define INTEGER_BINARY(id, type, function)                                                               \
  FORM(id##SS, SLOTS, type, get<type>(fp[w.b]), get<type>(fp[w.c]), 2, function)                         \
  FORM(id##SK, IMMEDIATE, type, get<type>(fp[w.b]), static_cast<type>(static_cast<int64_t>(w.value)), 2, \
       function)                                                                                         \
  FORM(id##AS, SLOTS, type, get<type>(acc), get<type>(fp[w.c]), 2, function)                             \
  FORM(id##SA, SLOTS, type, get<type>(fp[w.b]), get<type>(acc), 2, function)                             \
  FORM(id##AK, IMMEDIATE, type, get<type>(acc), static_cast<type>(static_cast<int64_t>(w.value)), 2, function)

#define BRANCH_FORM(name, a_value, b_value, words, function)  \
  HANDLER(name) {                                             \
    const BranchWord w = ip[1].branch;                        \
    if (function(a_value, b_value)) ENTER(ip + 1 + w.target); \
    ENTER(ip + (words));                                      \
  }

#define INTEGER_COMPARE(id, type, function)                                                 \
  FORM(id##SS, SLOTS, uint32_t, get<type>(fp[w.b]), get<type>(fp[w.c]), 2, function)        \
  FORM(id##SK, SLOTS, uint32_t, get<type>(fp[w.b]), get<type>(ip[2].constant), 3, function) \
  FORM(id##AS, SLOTS, uint32_t, get<type>(acc), get<type>(fp[w.c]), 2, function)            \
  FORM(id##AK, SLOTS, uint32_t, get<type>(acc), get<type>(ip[2].constant), 3, function)     \
  BRANCH_FORM(id##BrSS, get<type>(fp[w.a]), get<type>(fp[w.b]), 2, function)                \
  BRANCH_FORM(id##BrSK, get<type>(fp[w.a]), get<type>(ip[2].constant), 3, function)         \
  BRANCH_FORM(id##BrAS, get<type>(acc), get<type>(fp[w.b]), 2, function)                    \
  BRANCH_FORM(id##BrAK, get<type>(acc), get<type>(ip[2].constant), 3, function)

#define FLOAT_FORMS(id, type, result, function)                                           \
  FORM(id##SS, SLOTS, result, get<type>(fp[w.b]), get<type>(fp[w.c]), 2, function)        \
  FORM(id##SK, SLOTS, result, get<type>(fp[w.b]), get<type>(ip[2].constant), 3, function) \
  FORM(id##AS, SLOTS, result, ACCUMULATOR(type), get<type>(fp[w.c]), 2, function)         \
  FORM(id##SA, SLOTS, result, get<type>(fp[w.b]), ACCUMULATOR(type), 2, function)
#define FLOAT_BINARY(id, type, function) FLOAT_FORMS(id, type, type, function)
#define FLOAT_COMPARE(id, type, function) FLOAT_FORMS(id, type, uint32_t, function)

#define INTEGER_DIVIDE(id, type, function, overflows)          \
  HANDLER(id) {                                                \
    const SlotsWord w = ip[1].slots;                           \
    const type a = get<type>(fp[w.b]), b = get<type>(fp[w.c]); \
    if (b == 0) [[unlikely]]                                   \
      TRAP(kIntegerDivideByZero);                              \
    if (overflows && quotient_overflows(a, b)) [[unlikely]]    \
      TRAP(kIntegerOverflow);                                  \
    RESULT(w.a, function(a, b));                               \
    NEXT(2);                                                   \
  }

#define UNARY_FORM(name, from, to, expression, operand) \
  HANDLER(name) {                                       \
    const SlotsWord w = ip[1].slots;                    \
    const from x = operand;                             \
    RESULT(w.a, static_cast<to>(expression));           \
    NEXT(2);                                            \
  }
#define UNARY(id, from, to, expression)                       \
  UNARY_FORM(id##S, from, to, expression, get<from>(fp[w.b])) \
  UNARY_FORM(id##A, from, to, expression, ACCUMULATOR(from))

#define TRUNCATE(id, from, to)                \
  HANDLER(id) {                               \
    const SlotsWord w = ip[1].slots;          \
    const from x = get<from>(fp[w.b]);        \
    if (x != x) [[unlikely]]                  \
      TRAP(kInvalidConversion);               \
    if (!truncation_fits<to>(x)) [[unlikely]] \
      TRAP(kIntegerOverflow);                 \
    RESULT(w.a, static_cast<to>(x));          \
    NEXT(2);                                  \
  }

// -- memory: slots dst and address, or address and value; and the offset ------------------------

#if MEMBRANE_GUARD_PAGES
#define CHECK_BOUNDS(address, size) (void)0
#else
#define CHECK_BOUNDS(address, size)                                                                   \
  if ((address) + (size) > Machine::memory(*Machine::state(*ex).instance)->size_bytes()) [[unlikely]] \
  TRAP(kMemoryOutOfBounds)
#endif

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

#define LOAD_FORM(name, from, to, base, words)                                                       \
  HANDLER(name) {                                                                                    \
    const ImmediateWord w = ip[1].imm;                                                               \
    const uint64_t address = uint64_t{static_cast<uint32_t>(base)} + static_cast<uint32_t>(w.value); \
    CHECK_BOUNDS(address, sizeof(from));                                                             \
    RESULT(w.a, static_cast<to>(load<from>(memory, address, ip, fp, fuel)));                         \
    NEXT(words);                                                                                     \
  }
// Of any memory: its index stands in word 1, the offset in word 2; the bounds are compared.
#define FIND_IN_ANY(address_slot, size)                                                   \
  const Memory& any = Machine::memory(*Machine::state(*ex).instance, w.c);                \
  const uint64_t address =                                                                \
      any_address(fp[address_slot], ip[2].constant, any.is_64(), size, any.size_bytes()); \
  if (address == kOutside) [[unlikely]]                                                   \
  TRAP(kMemoryOutOfBounds)

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

#define STORE_FORM(name, type, operand, words)                                                          \
  HANDLER(name) {                                                                                       \
    const ImmediateWord w = ip[1].imm;                                                                  \
    const uint64_t address = uint64_t{static_cast<uint32_t>(fp[w.a])} + static_cast<uint32_t>(w.value); \
    CHECK_BOUNDS(address, sizeof(type));                                                                \
    store<type>(memory, address, operand, ip, fp, fuel);                                                \
    NEXT(words);                                                                                        \
  }
#define STORE(id, type)                                 \
  STORE_FORM(id##S, type, get<type>(fp[w.b]), 2)        \
  STORE_FORM(id##A, type, ACCUMULATOR(type), 2)         \
  STORE_FORM(id##K, type, get<type>(ip[2].constant), 3) \
  STORE_TO_ANY(id##M, type)

// -- fields: slots dst and reference, or reference and value, and the offset; slots dst, reference and index, or
// reference, index and value.

MEMBRANE_INLINE Object* object_of(Run* ex, uint64_t reference) {
  return Machine::state(*ex).instance->heap().object(reference);
}

#define FIND_STRUCT(slot)                                                                   \
  if (fp[slot] == 0) [[unlikely]]                                                           \
    TRAP(kNullStructure);                                                                   \
  uint8_t* const field = object_of(ex, fp[slot])->fields() + static_cast<uint32_t>(w.value)

#define FIND_ELEMENT(slot, index_slot, size)                    \
  if (fp[slot] == 0) [[unlikely]]                               \
    TRAP(kNullArray);                                           \
  Object* const array = object_of(ex, fp[slot]);                \
  const uint64_t index = static_cast<uint32_t>(fp[index_slot]); \
  if (index >= array->length) [[unlikely]]                      \
    TRAP(kArrayOutOfBounds);                                    \
  uint8_t* const field = array->fields() + index * (size)

#define FIELD_GET(id, from, to)                \
  HANDLER(kStructGet##id) {                    \
    const ImmediateWord w = ip[1].imm;         \
    FIND_STRUCT(w.b);                          \
    from value;                                \
    std::memcpy(&value, field, sizeof value);  \
    fp[w.a] = slot_of(static_cast<to>(value)); \
    NEXT(2);                                   \
  }                                            \
  HANDLER(kArrayGet##id) {                     \
    const SlotsWord w = ip[1].slots;           \
    FIND_ELEMENT(w.b, w.c, sizeof(from));      \
    from value;                                \
    std::memcpy(&value, field, sizeof value);  \
    fp[w.a] = slot_of(static_cast<to>(value)); \
    NEXT(2);                                   \
  }
#define FIELD_SET(id, type)                        \
  HANDLER(kStructSet##id) {                        \
    const ImmediateWord w = ip[1].imm;             \
    FIND_STRUCT(w.a);                              \
    const type value = static_cast<type>(fp[w.b]); \
    std::memcpy(field, &value, sizeof value);      \
    NEXT(2);                                       \
  }                                                \
  HANDLER(kArraySet##id) {                         \
    const SlotsWord w = ip[1].slots;               \
    FIND_ELEMENT(w.a, w.b, sizeof(type));          \
    const type value = static_cast<type>(fp[w.c]); \
    std::memcpy(field, &value, sizeof value);      \
    NEXT(2);                                       \
  }

#include "engine/code/operations.def"

HANDLER(kStructGetVector) {
  const ImmediateWord w = ip[1].imm;
  FIND_STRUCT(w.b);
  std::memcpy(fp + w.a, field, 16);
  NEXT(2);
}

HANDLER(kStructSetVector) {
  const ImmediateWord w = ip[1].imm;
  FIND_STRUCT(w.a);
  std::memcpy(field, fp + w.b, 16);
  NEXT(2);
}

HANDLER(kArrayGetVector) {
  const SlotsWord w = ip[1].slots;
  FIND_ELEMENT(w.b, w.c, 16);
  std::memcpy(fp + w.a, field, 16);
  NEXT(2);
}

HANDLER(kArraySetVector) {
  const SlotsWord w = ip[1].slots;
  FIND_ELEMENT(w.a, w.b, 16);
  std::memcpy(field, fp + w.c, 16);
  NEXT(2);
}

// -- vectors: a v128 is named by the first of its two slots ------------------------------------------

MEMBRANE_INLINE simd::V128 vector_at(const uint64_t* slots) {
  simd::V128 v;
  std::memcpy(&v, slots, sizeof v);
  return v;
}
MEMBRANE_INLINE void put_vector(uint64_t* slots, simd::V128 v) { std::memcpy(slots, &v, sizeof v); }

// One access of the slots' memory, so that the vector's own write is still at hand.
template <typename T>
MEMBRANE_INLINE T lane_at(const uint64_t* slots, uint32_t lane) {
  T value;
  std::memcpy(&value, reinterpret_cast<const char*>(slots) + lane * sizeof(T), sizeof value);
  return value;
}

#define VECTOR_FORM(name, ...)                \
  HANDLER(name) {                             \
    const SlotsWord w = ip[1].slots;          \
    const simd::V128 a = vector_at(fp + w.b); \
    put_vector(fp + w.a, __VA_ARGS__);        \
    NEXT(2);                                  \
  }
#define VECTOR_UNARY(id, function) VECTOR_FORM(id, function(a))
#define VECTOR_BINARY(id, function) VECTOR_FORM(id, function(a, vector_at(fp + w.c)))
#define VECTOR_TERNARY(id, function) VECTOR_FORM(id, function(a, vector_at(fp + w.c), vector_at(fp + w.d)))
#define VECTOR_SHIFT(id, function) VECTOR_FORM(id, function(a, static_cast<uint32_t>(fp[w.c])))
#define VECTOR_REPLACE(id, type) VECTOR_FORM(id, simd::replace_lane<type>(a, static_cast<type>(fp[w.c]), w.d))

#define VECTOR_TEST(id, function)               \
  HANDLER(id) {                                 \
    const SlotsWord w = ip[1].slots;            \
    RESULT(w.a, function(vector_at(fp + w.b))); \
    NEXT(2);                                    \
  }

#define VECTOR_EXTRACT(id, from, to)                            \
  HANDLER(id) {                                                 \
    const SlotsWord w = ip[1].slots;                            \
    RESULT(w.a, static_cast<to>(lane_at<from>(fp + w.b, w.c))); \
    NEXT(2);                                                    \
  }

#define VECTOR_SPLAT(id, type)                                           \
  HANDLER(id) {                                                          \
    const SlotsWord w = ip[1].slots;                                     \
    put_vector(fp + w.a, simd::splat<type>(static_cast<type>(fp[w.b]))); \
    NEXT(2);                                                             \
  }

#define VECTOR_LOAD_FORM(name, type, function, base, words)                                          \
  HANDLER(name) {                                                                                    \
    const ImmediateWord w = ip[1].imm;                                                               \
    const uint64_t address = uint64_t{static_cast<uint32_t>(base)} + static_cast<uint32_t>(w.value); \
    CHECK_BOUNDS(address, sizeof(type));                                                             \
    put_vector(fp + w.a, function(load<type>(memory, address, ip, fp, fuel)));                       \
    NEXT(words);                                                                                     \
  }
#define VECTOR_LOAD(id, type, function)                                \
  VECTOR_LOAD_FORM(id##S, type, function, fp[w.b], 2)                  \
  VECTOR_LOAD_FORM(id##A, type, function, acc, 2)                      \
  VECTOR_LOAD_FORM(id##K, type, function, fp[w.b] + ip[2].constant, 3) \
  HANDLER(id##M) {                                                     \
    const SlotsWord w = ip[1].slots;                                   \
    FIND_IN_ANY(w.b, sizeof(type));                                    \
    put_vector(fp + w.a, function(read<type>(any, address)));          \
    NEXT(3);                                                           \
  }

#define VECTOR_LOAD_LANE(id, type) /* word 2: the vector and the lane */                                \
  HANDLER(id) {                                                                                         \
    const ImmediateWord w = ip[1].imm;                                                                  \
    const uint64_t address = uint64_t{static_cast<uint32_t>(fp[w.b])} + static_cast<uint32_t>(w.value); \
    CHECK_BOUNDS(address, sizeof(type));                                                                \
    const type lane = load<type>(memory, address, ip, fp, fuel);                                        \
    const SlotsWord v = ip[2].slots;                                                                    \
    put_vector(fp + w.a, simd::replace_lane<type>(vector_at(fp + v.a), lane, v.b));                     \
    NEXT(3);                                                                                            \
  }                                                                                                     \
  HANDLER(id##M) { /* word 3: the vector and the lane */                                                \
    const SlotsWord w = ip[1].slots;                                                                    \
    FIND_IN_ANY(w.b, sizeof(type));                                                                     \
    const SlotsWord v = ip[3].slots;                                                                    \
    put_vector(fp + w.a, simd::replace_lane<type>(vector_at(fp + v.a), read<type>(any, address), v.b)); \
    NEXT(4);                                                                                            \
  }

#define VECTOR_STORE_LANE(id, type) /* word 2: the lane */                                              \
  HANDLER(id) {                                                                                         \
    const ImmediateWord w = ip[1].imm;                                                                  \
    const uint64_t address = uint64_t{static_cast<uint32_t>(fp[w.a])} + static_cast<uint32_t>(w.value); \
    CHECK_BOUNDS(address, sizeof(type));                                                                \
    store<type>(memory, address, lane_at<type>(fp + w.b, ip[2].slots.a), ip, fp, fuel);                 \
    NEXT(3);                                                                                            \
  }                                                                                                     \
  HANDLER(id##M) {                                                                                      \
    const SlotsWord w = ip[1].slots;                                                                    \
    FIND_IN_ANY(w.a, sizeof(type));                                                                     \
    write<type>(any, address, lane_at<type>(fp + w.b, w.d));                                            \
    NEXT(3);                                                                                            \
  }

#include "engine/code/vector_operations.def"

STORE_FORM(kV128Store, simd::V128, vector_at(fp + w.b), 2)

HANDLER(kV128StoreM) {
  const SlotsWord w = ip[1].slots;
  FIND_IN_ANY(w.a, sizeof(simd::V128));
  write<simd::V128>(any, address, vector_at(fp + w.b));
  NEXT(3);
}

HANDLER(kV128Const) {  // dst; 16 bytes
  put_vector(fp + ip[1].slots.a, simd::V128{ip[2].constant, ip[3].constant});
  NEXT(4);
}

HANDLER(kI8x16Shuffle) {  // dst, a, b; 16 indices
  const SlotsWord w = ip[1].slots;
  const simd::V128 chosen{ip[2].constant, ip[3].constant};
  put_vector(fp + w.a, simd::shuffle(vector_at(fp + w.b), vector_at(fp + w.c), chosen));
  NEXT(4);
}

HANDLER(kShuffleByPshufb) {  // dst, a, b; 16 indices into a, 16 into b
  const SlotsWord w = ip[1].slots;
  const simd::V128 of_a{ip[2].constant, ip[3].constant}, of_b{ip[4].constant, ip[5].constant};
  put_vector(fp + w.a, simd::pshufb(vector_at(fp + w.b), of_a) | simd::pshufb(vector_at(fp + w.c), of_b));
  NEXT(6);
}

VECTOR_FORM(kSwizzleByPshufb, simd::swizzle_by_pshufb(a, vector_at(fp + w.c)))

HANDLER(kCopyVector) {
  put_vector(fp + ip[1].slots.a, vector_at(fp + ip[1].slots.b));
  NEXT(2);
}

HANDLER(kSelectVector) {  // dst, if true, if false, condition
  const SlotsWord w = ip[1].slots;
  put_vector(fp + w.a, vector_at(fp + (static_cast<uint32_t>(fp[w.d]) != 0 ? w.b : w.c)));
  NEXT(2);
}

HANDLER(kGlobalGetVector) {
  const ImmediateWord w = ip[1].imm;
  const GlobalInstance& global =
      *Machine::global(*Machine::state(*ex).instance, static_cast<uint32_t>(w.value));
  put_vector(fp + w.a, simd::V128{global.bits, global.high_bits});
  NEXT(2);
}

HANDLER(kGlobalSetVector) {
  const ImmediateWord w = ip[1].imm;
  GlobalInstance& global = *Machine::global(*Machine::state(*ex).instance, static_cast<uint32_t>(w.value));
  global.bits = fp[w.a];
  global.high_bits = fp[w.a + 1];
  NEXT(2);
}

// -- memory as a whole -----------------------------------------------------------------------------

MEMBRANE_INLINE Memory& memory_of(Run* ex, uint64_t index) {
  return Machine::memory(*Machine::state(*ex).instance, static_cast<uint32_t>(index));
}

HANDLER(kMemorySize) {  // dst, memory
  fp[ip[1].slots.a] = memory_of(ex, ip[1].slots.b).pages();
  NEXT(2);
}

// -- bulk operations of memories and tables ---------------------------------------------------------

HANDLER(kMemoryGrow) {  // dst, pages
  const SlotsWord w = ip[1].slots;
  Memory& m = memory_of(ex, ip[2].constant);
  const uint64_t pages = number(fp[w.b], m.is_64());
  if (m.can_grow(pages)) PAY_FOR_BULK(memory_grow_cost(pages));
  fp[w.a] = number(static_cast<uint64_t>(m.grow(pages)), m.is_64());
  ENTER(ip + 3);
}

// Operands are to, from or value, and count; word 2 holds the indices (bulk.h).
#define BULK_HANDLER(id, trap, function)                                                    \
  HANDLER(id) {                                                                             \
    const SlotsWord w = ip[1].slots;                                                        \
    const BulkWork work =                                                                   \
        function(*Machine::state(*ex).instance, fp[w.a], fp[w.b], fp[w.c], ip[2].constant); \
    if (!work.in_bounds) TRAP(trap);                                                        \
    PAY_FOR_BULK(work.price);                                                               \
    work.perform();                                                                         \
    ENTER(ip + 3);                                                                          \
  }
BULK_HANDLER(kMemoryFill, kMemoryOutOfBounds, memory_fill)
BULK_HANDLER(kMemoryCopy, kMemoryOutOfBounds, memory_copy)
BULK_HANDLER(kMemoryInit, kMemoryOutOfBounds, memory_init)
BULK_HANDLER(kTableFill, kTableOutOfBounds, table_fill)
BULK_HANDLER(kTableCopy, kTableOutOfBounds, table_copy)
BULK_HANDLER(kTableInit, kTableOutOfBounds, table_init)

HANDLER(kDataDrop) {
  Machine::drop_data(*Machine::state(*ex).instance, static_cast<uint32_t>(ip[1].imm.value));
  NEXT(2);
}

// -- tables: word 2 holds the table's index, and in its high half a segment's or source's -----------

MEMBRANE_INLINE Table& table_of(Run* ex, uint64_t index) {
  return *Machine::table(*Machine::state(*ex).instance, static_cast<uint32_t>(index));
}

// Tables have fewer than 2^32 elements: what is beyond stays beyond.
HANDLER(kClampIndex) {
  fp[ip[1].slots.a] = std::min<uint64_t>(fp[ip[1].slots.b], UINT32_MAX);
  NEXT(2);
}

HANDLER(kTableGet) {  // dst, index
  const SlotsWord w = ip[1].slots;
  const TableElements& elements = table_of(ex, ip[2].constant).elements;
  const uint32_t index = static_cast<uint32_t>(fp[w.b]);
  if (index >= elements.size()) [[unlikely]]
    TRAP(kTableOutOfBounds);
  fp[w.a] = elements[index];
  NEXT(3);
}

HANDLER(kTableSet) {  // index, value
  const SlotsWord w = ip[1].slots;
  TableElements& elements = table_of(ex, ip[2].constant).elements;
  const uint32_t index = static_cast<uint32_t>(fp[w.a]);
  if (index >= elements.size()) [[unlikely]]
    TRAP(kTableOutOfBounds);
  elements.writable()[index] = fp[w.b];
  NEXT(3);
}

HANDLER(kTableSize) {
  fp[ip[1].slots.a] = table_of(ex, ip[2].constant).elements.size();
  NEXT(3);
}

HANDLER(kTableGrow) {  // dst, value, count
  const SlotsWord w = ip[1].slots;
  Table& table = table_of(ex, ip[2].constant);
  const uint64_t count = static_cast<uint32_t>(fp[w.c]);
  if (table.can_grow(count)) PAY_FOR_BULK(bulk_table_cost(count));
  fp[w.a] = number(static_cast<uint64_t>(table.grow(count, fp[w.b])), table.is_64);
  ENTER(ip + 3);
}

void drop_elements(Run* ex, uint32_t index) { Machine::elements(*Machine::state(*ex).instance, index) = {}; }
HANDLER(kElemDrop) {
  drop_elements(ex, static_cast<uint32_t>(ip[1].imm.value));
  NEXT(2);
}

HANDLER(kRefIsNull) {
  fp[ip[1].slots.a] = fp[ip[1].slots.b] == 0;
  NEXT(2);
}

HANDLER(kCheckNonNull) {
  if (fp[ip[1].slots.a] == 0) [[unlikely]]
    TRAP(kNullReference);
  NEXT(2);
}

HANDLER(kArrayLen) {
  const uint64_t array = fp[ip[1].slots.b];
  if (array == 0) [[unlikely]]
    TRAP(kNullArray);
  fp[ip[1].slots.a] = object_of(ex, array)->length;
  NEXT(2);
}

HANDLER(kRefI31) {
  fp[ip[1].slots.a] = i31_bits(fp[ip[1].slots.b]);
  NEXT(2);
}

HANDLER(kI31GetS) {
  const uint64_t i31 = fp[ip[1].slots.b];
  if (i31 == 0) [[unlikely]]
    TRAP(kNullI31);
  fp[ip[1].slots.a] = static_cast<uint32_t>(static_cast<int32_t>(static_cast<uint32_t>(i31)) >> 1);
  NEXT(2);
}

HANDLER(kI31GetU) {
  const uint64_t i31 = fp[ip[1].slots.b];
  if (i31 == 0) [[unlikely]]
    TRAP(kNullI31);
  fp[ip[1].slots.a] = i31 >> 1;
  NEXT(2);
}

HANDLER(kAnyConvertExtern) {
  fp[ip[1].slots.a] = any_of_extern(fp[ip[1].slots.b]);
  NEXT(2);
}

HANDLER(kExternConvertAny) {
  fp[ip[1].slots.a] = extern_of_any(fp[ip[1].slots.b]);
  NEXT(2);
}

MEMBRANE_INLINE bool passes(Run* ex, uint64_t reference, uint64_t type) {
  return is_of_type(*ex, reference, static_cast<wasm::ValType>(static_cast<uint32_t>(type)));
}

HANDLER(kRefTest) {  // dst, reference; type
  fp[ip[1].slots.a] = passes(ex, fp[ip[1].slots.b], ip[2].constant) ? 1 : 0;
  NEXT(3);
}

HANDLER(kRefCast) {  // reference; type
  if (!passes(ex, fp[ip[1].slots.a], ip[2].constant)) [[unlikely]]
    TRAP(kCastFailure);
  NEXT(3);
}

HANDLER(kCastToAcc) {  // reference; type
  acc = passes(ex, fp[ip[1].slots.a], ip[2].constant) ? 1 : 0;
  NEXT(3);
}

HANDLER(kAggregate) {  // first operand; numbers; instruction
  save(PASS_REGISTERS(ip));
  const AggregateOutcome outcome = perform_aggregate(*ex, ip, fp);
  fuel = Machine::state(*ex).fuel;
  if (outcome == AggregateOutcome::kUnpaid) GO_TO(refill_for_bulk);
  if (outcome == AggregateOutcome::kTrapped) GO_TO(trapped);
  ENTER(ip + 4);
}

HANDLER(kRefFunc) {
  const ImmediateWord w = ip[1].imm;
  fp[w.a] = reinterpret_cast<uint64_t>(
      Machine::function(*Machine::state(*ex).instance, static_cast<uint32_t>(w.value)));
  NEXT(2);
}

// -- moving values -------------------------------------------------------------------------------

HANDLER(kCopy) {
  fp[ip[1].slots.a] = fp[ip[1].slots.b];
  NEXT(2);
}

HANDLER(kCopyTwo) {
  const SlotsWord w = ip[1].slots;
  fp[w.a] = fp[w.b];
  fp[w.c] = fp[w.d];
  NEXT(2);
}

HANDLER(kCopyMany) {  // to, from, slots
  const SlotsWord w = ip[1].slots;
  std::memmove(fp + w.a, fp + w.b, w.c * sizeof(uint64_t));
  NEXT(2);
}

HANDLER(kConst32) {
  fp[ip[1].imm.a] = static_cast<uint32_t>(ip[1].imm.value);
  NEXT(2);
}

HANDLER(kConst64) {
  fp[ip[1].slots.a] = ip[2].constant;
  NEXT(3);
}

HANDLER(kSelect) {  // dst, if true, if false, condition
  const SlotsWord w = ip[1].slots;
  const uint64_t yes = fp[w.b], no = fp[w.c];
  fp[w.a] = static_cast<uint32_t>(fp[w.d]) != 0 ? yes : no;
  NEXT(2);
}

HANDLER(kF64MulAdd) {  // dst, a, b, c: c + a * b
  const SlotsWord w = ip[1].slots;
  const double product = get<double>(fp[w.b]) * get<double>(fp[w.c]);
  RESULT(w.a, canonical(get<double>(fp[w.d]) + product));
  NEXT(2);
}

HANDLER(kF64MulSub) {  // dst, a, b, c: c - a * b
  const SlotsWord w = ip[1].slots;
  const double product = get<double>(fp[w.b]) * get<double>(fp[w.c]);
  RESULT(w.a, canonical(get<double>(fp[w.d]) - product));
  NEXT(2);
}

HANDLER(kI32AddAdd) {  // dst, a, b, c
  const SlotsWord w = ip[1].slots;
  RESULT(w.a, static_cast<uint32_t>(fp[w.b] + fp[w.c] + fp[w.d]));
  NEXT(2);
}

HANDLER(kI32RotlXor) {  // dst, a, b, count: a xor (b rotated left)
  const SlotsWord w = ip[1].slots;
  RESULT(w.a, get<uint32_t>(fp[w.b]) ^ rotl(get<uint32_t>(fp[w.c]), uint32_t{w.d}));
  NEXT(2);
}

HANDLER(kGlobalGet) {
  const ImmediateWord w = ip[1].imm;
  fp[w.a] = Machine::global(*Machine::state(*ex).instance, static_cast<uint32_t>(w.value))->bits;
  NEXT(2);
}

HANDLER(kGlobalSet) {
  const ImmediateWord w = ip[1].imm;
  Machine::global(*Machine::state(*ex).instance, static_cast<uint32_t>(w.value))->bits = fp[w.a];
  NEXT(2);
}

// -- control: the target counts from word 1 -----------------------------------------------------------

HANDLER(kEnter) { ENTER(ip + 1); }

HANDLER(kBr) { ENTER(ip + 1 + ip[1].branch.target); }

#define BRANCH_HANDLER(id, condition)            \
  HANDLER(id) {                                  \
    const BranchWord w = ip[1].branch;           \
    [[maybe_unused]] const uint64_t x = fp[w.a]; \
    if (condition) ENTER(ip + 1 + w.target);     \
    ENTER(ip + 2);                               \
  }
BRANCH_HANDLER(kBrIf, static_cast<uint32_t>(x) != 0)
BRANCH_HANDLER(kBrUnless, static_cast<uint32_t>(x) == 0)
BRANCH_HANDLER(kBrIfA, static_cast<uint32_t>(acc) != 0)
BRANCH_HANDLER(kBrUnlessA, static_cast<uint32_t>(acc) == 0)
BRANCH_HANDLER(kBrIf64, x != 0)
BRANCH_HANDLER(kBrUnless64, x == 0)

HANDLER(kBrTable) {  // index, count; then a branch word for each label, the default last
  const ImmediateWord w = ip[1].imm;
  const uint32_t index = std::min(static_cast<uint32_t>(fp[w.a]), static_cast<uint32_t>(w.value));
  const Word* const chosen = ip + 2 + index;
  ENTER(chosen + chosen->branch.target);
}

HANDLER(kUnreachable) { TRAP(kUnreachable); }

// -- exceptions: word 1 ends with the distance back to the header --------------------------------------------

// Out of the handler, which could not end in a jump if it had anything in memory.
struct Raised {
  enum class Outcome : uint64_t { kCaught, kCaughtByCompiled, kTrapped, kUnpaid, kInterrupted } outcome;
  const Word* landing;  // kCaught
};
[[gnu::noinline]] Raised raise_exception(Run& ex) {
  MachineState& m = Machine::state(ex);
  const CatchSearch found = ex.find_catch(static_cast<uint64_t>(m.fuel) + m.fuel_reserve);
  if (found.interrupted) return {Raised::Outcome::kInterrupted, nullptr};
  if (found.price > static_cast<uint64_t>(m.fuel)) {
    m.fuel_needed = found.price;
    return {Raised::Outcome::kUnpaid, nullptr};
  }
  m.fuel -= static_cast<int64_t>(found.price);
  if (found.clause == nullptr) {
    m.trap_message = describe(m.throwing);
    m.trap_kind = TrapKind::kUncaughtException;
    return {Raised::Outcome::kTrapped, nullptr};
  }
  const Caught caught = ex.enter_catch(found);
  if (caught == Caught::kInterpreted) return {Raised::Outcome::kCaught, m.ip};
  if (caught == Caught::kCompiled) return {Raised::Outcome::kCaughtByCompiled, nullptr};
  m.trap_kind = TrapKind::kTooManyExceptions;
  return {Raised::Outcome::kTrapped, nullptr};
}

HANDLER(raise) {
  save(PASS_REGISTERS(ip));
  const Raised raised = raise_exception(*ex);
  MachineState& m = Machine::state(*ex);
  fuel = m.fuel;
  if (raised.outcome == Raised::Outcome::kUnpaid) GO_TO(refill_for_bulk);
  if (raised.outcome == Raised::Outcome::kTrapped) GO_TO(trapped);
  if (raised.outcome == Raised::Outcome::kCaughtByCompiled)
    return hand_over(PASS_REGISTERS(ip), Where::kNative);
  if (raised.outcome == Raised::Outcome::kInterrupted) {
    ip -= ip[1].slots.d;
    fuel += ip->header.cost;
    return stop(PASS_REGISTERS(ip), RunState::kInterrupted);
  }
  fp = m.fp;
  memory = Machine::memory_base(*m.instance);
  ENTER(raised.landing);
}

HANDLER(kThrow) {  // the values; tag
  MachineState& m = Machine::state(*ex);
  m.throwing = {Machine::tag(*m.instance, static_cast<uint32_t>(ip[2].constant)), fp + ip[1].slots.a, 0,
                m.throwing.looked_at};
  GO_TO(raise);
}

HANDLER(kThrowRef) {  // the exception
  MachineState& m = Machine::state(*ex);
  const uint64_t reference = fp[ip[1].slots.a];
  const ExceptionArena::Exception* const exception = Machine::exceptions(*m.instance).find(reference);
  if (exception == nullptr) TRAP(kNullException);
  m.throwing = {exception->tag, exception->payload(), reference, m.throwing.looked_at};
  GO_TO(raise);
}

// -- calls ----------------------------------------------------------------------------------------------

#define LEAVE_FRAME()                             \
  do {                                            \
    FrameRecord*& top = Machine::state(*ex).top;  \
    const Word* const return_ip = top->return_ip; \
    fp = top->fp;                                 \
    --top;                                        \
    ENTER(return_ip);                             \
  } while (false)

HANDLER(kReturn) { LEAVE_FRAME(); }

HANDLER(kReturnOne) {
  fp[0] = fp[ip[1].slots.a];
  LEAVE_FRAME();
}

HANDLER(kReturnOneA) {
  fp[0] = acc;
  LEAVE_FRAME();
}

HANDLER(kReturnVector) {
  put_vector(fp, vector_at(fp + ip[1].slots.a));
  LEAVE_FRAME();
}

HANDLER(kReturnMany) {  // first, slots
  std::memmove(fp, fp + ip[1].slots.a, ip[1].slots.b * sizeof(uint64_t));
  LEAVE_FRAME();
}

// Makes the frame of `callee`, whose arguments begin at `arguments`, and goes there.
#define ENTER_FUNCTION(callee, arguments, return_to)                                                    \
  do {                                                                                                  \
    MachineState& machine = Machine::state(*ex);                                                        \
    const FunctionCode* const function = (callee);                                                      \
    uint64_t* const frame = (arguments);                                                                \
    FrameRecord* const record = machine.top + 1;                                                        \
    if (frame + function->frame_slots > machine.stack_end || record >= machine.frames_end) [[unlikely]] \
      TRAP(kStackOverflow);                                                                             \
    record->return_ip = (return_to);                                                                    \
    record->fp = fp;                                                                                    \
    record->function = function;                                                                        \
    machine.top = record;                                                                               \
    for (uint32_t i = 0; i < function->zero_slots; ++i) frame[function->param_slots + i] = 0;           \
    fp = frame;                                                                                         \
    ENTER(function->entry.load(std::memory_order_acquire));                                             \
  } while (false)

HANDLER(kCall) {  // arguments; the callee's FunctionCode
  ENTER_FUNCTION(ip[2].function, fp + ip[1].slots.a, ip + 3);
}

// Calls the host. The results replace the arguments.
HostAction call_host(Run& ex, FunctionInstance& target, uint64_t* slots) {
  MachineState& m = Machine::state(ex);
  HostCall call{ex, m.instance, {slots, target.param_slots}, {slots, target.result_slots}, {}};
  const HostAction action = (*target.host)(call);
  if (action == HostAction::kTrap) {
    m.trap_kind = TrapKind::kHost;
    m.trap_message = std::move(call.trap_message);
  }
  return action;
}

// Calls through a FunctionInstance: the host's, the own instance's or another's. Word 1 names where the
// arguments begin; the call has three words.
HANDLER(call_instance) {
  FunctionInstance& target = *Machine::state(*ex).callee;
  uint64_t* const arguments = fp + ip[1].slots.a;
  MachineState& m = Machine::state(*ex);
  if (target.code == nullptr) {
    const uint64_t slots = std::max(target.param_slots, target.result_slots);
    if (arguments + slots > m.stack_end) TRAP(kStackOverflow);
    save(PASS_REGISTERS(ip));
    const HostAction action = call_host(*ex, target, arguments);
    fuel = m.fuel;  // the host may have charged
    if (action == HostAction::kTrap) GO_TO(trapped);
    if (action == HostAction::kOutOfFuel) {
      m.at_call = m.has_callee = true;
      return stop(PASS_REGISTERS(ip), RunState::kOutOfFuel);
    }
    if (action == HostAction::kInterrupt) return stop(PASS_REGISTERS(ip + 3), RunState::kInterrupted);
    if (action == HostAction::kExit) return stop(PASS_REGISTERS(ip), RunState::kExited);
    ENTER(ip + 3);
  }
  if (target.instance == Machine::home(*m.instance)) ENTER_FUNCTION(target.code, arguments, ip + 3);
  if (m.top + 2 >= m.frames_end) TRAP(kStackOverflow);
  FrameRecord* const crossing = ++m.top;
  *crossing = {ip + 3, fp, nullptr, m.instance};
  if (arguments + target.code->frame_slots > m.stack_end) {
    --m.top;
    TRAP(kStackOverflow);
  }
  m.instance = target.instance;
  memory = Machine::memory_base(*target.instance);
  ENTER_FUNCTION(target.code, arguments, kCrossReturnStub);
}

HANDLER(kCrossReturn) {
  MachineState& m = Machine::state(*ex);
  const FrameRecord& crossing = *m.top;
  m.instance = crossing.instance;
  memory = Machine::memory_base(*m.instance);
  LEAVE_FRAME();
}

HANDLER(kCallImport) {  // arguments; function index
  MachineState& m = Machine::state(*ex);
  m.callee = Machine::function(*m.instance, static_cast<uint32_t>(ip[2].constant));
  GO_TO(call_instance);
}

// What a call through a table reaches; null when it may not, and trap_kind says why. `type_and_table` is
// word 2 of the call.
MEMBRANE_INLINE FunctionInstance* find_target(Run* ex, uint64_t slot, uint64_t type_and_table) {
  MachineState& m = Machine::state(*ex);
  const TableElements& elements = table_of(ex, type_and_table >> 32).elements;
  const uint32_t index = static_cast<uint32_t>(slot);
  if (index >= elements.size()) [[unlikely]] {
    m.trap_kind = TrapKind::kUndefinedElement;
    return nullptr;
  }
  FunctionInstance* const target = Machine::target(*m.instance, elements[index]);
  if (target == nullptr) [[unlikely]] {
    m.trap_kind = TrapKind::kUninitializedElement;
    return nullptr;
  }
  const wasm::FuncType* const wanted = Machine::type(*m.instance, static_cast<uint32_t>(type_and_table));
  if (target->type != wanted && !is_subtype(target->type, wanted)) [[unlikely]] {
    m.trap_kind = TrapKind::kIndirectCallTypeMismatch;
    return nullptr;
  }
  return target;
}

HANDLER(kCallIndirect) {  // arguments, index; type and table
  MachineState& m = Machine::state(*ex);
  FunctionInstance* const target = find_target(ex, fp[ip[1].slots.b], ip[2].constant);
  if (target == nullptr) [[unlikely]]
    GO_TO(trapped);
  if (target->instance == Machine::home(*m.instance) && target->code != nullptr)
    ENTER_FUNCTION(target->code, fp + ip[1].slots.a, ip + 3);
  m.callee = target;
  GO_TO(call_instance);
}

HANDLER(kCallRef) {  // arguments, function
  MachineState& m = Machine::state(*ex);
  FunctionInstance* const target = Machine::target(*m.instance, fp[ip[1].slots.b]);
  if (target == nullptr) [[unlikely]]
    TRAP(kNullFunction);
  if (target->instance == Machine::home(*m.instance) && target->code != nullptr)
    ENTER_FUNCTION(target->code, fp + ip[1].slots.a, ip + 3);
  m.callee = target;
  GO_TO(call_instance);
}

// -- tail calls: the frame becomes the callee's. Its record keeps the caller's return address. --------------

#define REPLACE_FUNCTION(callee, arguments)                                                \
  do {                                                                                     \
    MachineState& machine = Machine::state(*ex);                                           \
    const FunctionCode* const function = (callee);                                         \
    if (fp + function->frame_slots > machine.stack_end) [[unlikely]]                       \
      TRAP(kStackOverflow);                                                                \
    std::memmove(fp, (arguments), function->param_slots * sizeof(uint64_t));               \
    machine.top->function = function;                                                      \
    for (uint32_t i = 0; i < function->zero_slots; ++i) fp[function->param_slots + i] = 0; \
    ENTER(function->entry.load(std::memory_order_acquire));                                \
  } while (false)

HANDLER(kReturnCall) {  // arguments; the callee's FunctionCode
  REPLACE_FUNCTION(ip[2].function, fp + ip[1].slots.a);
}

// A frame whose code belongs to another instance than its caller's has a crossing below it. It stays for
// whoever follows in that frame, so that instances that call each other's tails need no more than one.
bool make_crossing(MachineState& m) {
  if (m.top->return_ip == kCrossReturnStub) return true;
  if (m.top + 1 >= m.frames_end) return false;
  FrameRecord* const crossing = m.top++;
  *m.top = {kCrossReturnStub, crossing->fp, crossing->function, nullptr};
  *crossing = {crossing->return_ip, crossing->fp, nullptr, m.instance};
  return true;
}

// The host's results become those of the frame.
HANDLER(tail_call_host) {
  MachineState& m = Machine::state(*ex);
  FunctionInstance& target = *m.callee;
  uint64_t* const arguments = fp + ip[1].slots.a;
  if (arguments + std::max(target.param_slots, target.result_slots) > m.stack_end) TRAP(kStackOverflow);
  save(PASS_REGISTERS(ip));
  const HostAction action = call_host(*ex, target, arguments);
  fuel = m.fuel;  // the host may have charged
  if (action == HostAction::kTrap) GO_TO(trapped);
  if (action == HostAction::kOutOfFuel) {
    m.at_call = m.has_callee = true;
    return stop(PASS_REGISTERS(ip), RunState::kOutOfFuel);
  }
  if (action == HostAction::kExit) return stop(PASS_REGISTERS(ip), RunState::kExited);
  std::memmove(fp, arguments, target.result_slots * sizeof(uint64_t));
  if (action == HostAction::kInterrupt) {
    const Word* const return_ip = m.top->return_ip;
    fp = m.top->fp;
    --m.top;
    return stop(PASS_REGISTERS(return_ip), RunState::kInterrupted);
  }
  LEAVE_FRAME();
}

HANDLER(tail_call_instance) {
  MachineState& m = Machine::state(*ex);
  const FunctionInstance& target = *m.callee;
  if (target.code == nullptr) GO_TO(tail_call_host);
  uint64_t* const arguments = fp + ip[1].slots.a;
  if (target.instance == Machine::home(*m.instance)) REPLACE_FUNCTION(target.code, arguments);
  if (fp + target.code->frame_slots > m.stack_end || !make_crossing(m)) TRAP(kStackOverflow);
  m.instance = target.instance;
  memory = Machine::memory_base(*target.instance);
  REPLACE_FUNCTION(target.code, arguments);
}

HANDLER(kReturnCallImport) {  // arguments; function index
  MachineState& m = Machine::state(*ex);
  m.callee = Machine::function(*m.instance, static_cast<uint32_t>(ip[2].constant));
  GO_TO(tail_call_instance);
}

HANDLER(kReturnCallIndirect) {  // arguments, index; type and table
  FunctionInstance* const target = find_target(ex, fp[ip[1].slots.b], ip[2].constant);
  if (target == nullptr) [[unlikely]]
    GO_TO(trapped);
  Machine::state(*ex).callee = target;
  GO_TO(tail_call_instance);
}

HANDLER(kReturnCallRef) {  // arguments, function
  MachineState& m = Machine::state(*ex);
  FunctionInstance* const target = Machine::target(*m.instance, fp[ip[1].slots.b]);
  if (target == nullptr) [[unlikely]]
    TRAP(kNullFunction);
  m.callee = target;
  GO_TO(tail_call_instance);
}

bool translate_and_poll(Run& ex) {
  const FunctionCode& function = *Machine::state(ex).top->function;
  function.module->translate_function(function.index);
  const ExecutionLimits& limits = Machine::limits(ex);
  return limits.poll && limits.poll();
}

HANDLER(kTranslate) {
  const bool interrupted = translate_and_poll(*ex);
  const Word* const entry = Machine::state(*ex).top->function->entry.load(std::memory_order_acquire);
  if (interrupted) return stop(PASS_REGISTERS(entry), RunState::kInterrupted);
  ENTER(entry);
}

HANDLER(kExit) { stop(PASS_REGISTERS(ip), RunState::kFinished); }

HANDLER(kEnterNative) { hand_over(PASS_REGISTERS(ip), Where::kNativeCall); }

// The frame that returned left its results at fp.
HANDLER(kReturnToNative) { hand_over(PASS_REGISTERS(ip), Where::kNativeReturn); }

Word header_of_stub() {
  Word w{};
  w.header = {0, 0};
  return w;
}
Word handler_word(Handler handler) {
  Word w{};
  w.handler = handler;
  return w;
}

#if !MEMBRANE_TAIL_CALLS
void loop(Run* ex) {
  MachineState& m = Machine::state(*ex);
  while (m.state == RunState::kReady && m.where == Where::kInterpreter)
    m.ip->handler(m.ip, m.fp, m.fuel, m.memory, ex, m.acc, m.acc64, m.acc32);
}
#endif

HANDLER(begin) { ENTER(ip); }

}  // namespace

bool is_tail_call(Handler handler) {
  return handler == kReturnCallImport || handler == kReturnCallRef || handler == kReturnCallIndirect ||
         handler == tail_call_instance;
}

const Handler kHandlers[] = {
#define E(operation) operation,
#include "engine/code/operations_each.def"
};

const Word kTranslateStub[2] = {header_of_stub(), handler_word(kTranslate)};
const Word kNativeStub[2] = {header_of_stub(), handler_word(kEnterNative)};
const Word kExitStub[2] = {header_of_stub(), handler_word(kExit)};
const Word kReturnToNativeStub[2] = {header_of_stub(), handler_word(kReturnToNative)};
const Word kCrossReturnStub[2] = {header_of_stub(), handler_word(kCrossReturn)};
// The word after the handler says where the arguments begin: at the start of the frame.
const Word kTailHostStub[2] = {handler_word(tail_call_instance), Word{}};

void interpret(Run& ex) {
  MachineState& m = Machine::state(ex);
  m.memory = Machine::memory_base(*m.instance);
  m.state = RunState::kReady;
  const InterpretedCode scope(ex);
  if (sigsetjmp(Machine::fault_jump(ex), 0) != 0) {
    m.trap_kind = TrapKind::kMemoryOutOfBounds;
    m.state = RunState::kTrapped;
    return;
  }
  const bool at_call = std::exchange(m.at_call, false), has_callee = std::exchange(m.has_callee, false);
  const Handler handler = !at_call                      ? begin
                          : !has_callee                 ? m.ip->handler
                          : is_tail_call(m.ip->handler) ? tail_call_instance
                                                        : call_instance;
  handler(m.ip, m.fp, m.fuel, m.memory, &ex, 0, 0, 0);
#if !MEMBRANE_TAIL_CALLS
  loop(&ex);
#endif
}

}  // namespace membrane::engine
