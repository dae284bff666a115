// The handlers of references: fields of structs and arrays, casts, i31.
#include "engine/heap/heap.h"
#include "engine/interpreter/aggregates.h"
#include "engine/interpreter/handler.h"

namespace membrane::engine::handlers {

// -- fields: slots dst and reference, or reference and value, and the offset; slots dst, reference and index, or
// reference, index and value.

namespace {

MEMBRANE_INLINE Object* object_of(Run* run, uint64_t reference) {
  return Machine::state(*run).instance->heap().object(reference);
}

}  // namespace

#define FIND_STRUCT(slot)                                                                    \
  if (fp[slot] == 0) [[unlikely]]                                                            \
    TRAP(kNullStructure);                                                                    \
  uint8_t* const field = object_of(run, fp[slot])->fields() + static_cast<uint32_t>(w.value)

#define FIND_ELEMENT(slot, index_slot, size)                    \
  if (fp[slot] == 0) [[unlikely]]                               \
    TRAP(kNullArray);                                           \
  Object* const array = object_of(run, fp[slot]);               \
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

// -- references -----------------------------------------------------------------------------------------

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
  fp[ip[1].slots.a] = object_of(run, array)->length;
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

namespace {

MEMBRANE_INLINE bool passes(Run* run, uint64_t reference, uint64_t type) {
  return is_of_type(*run, reference, static_cast<wasm::ValType>(static_cast<uint32_t>(type)));
}

}  // namespace

HANDLER(kRefTest) {  // dst, reference; type
  fp[ip[1].slots.a] = passes(run, fp[ip[1].slots.b], ip[2].constant) ? 1 : 0;
  NEXT(3);
}

HANDLER(kRefCast) {  // reference; type
  if (!passes(run, fp[ip[1].slots.a], ip[2].constant)) [[unlikely]]
    TRAP(kCastFailure);
  NEXT(3);
}

HANDLER(kCastToAcc) {  // reference; type
  acc = passes(run, fp[ip[1].slots.a], ip[2].constant) ? 1 : 0;
  NEXT(3);
}

HANDLER(kAggregate) {  // first operand; numbers; instruction
  save(PASS_REGISTERS(ip));
  const AggregateOutcome outcome = perform_aggregate(*run, ip, fp);
  fuel = Machine::state(*run).fuel;
  if (outcome == AggregateOutcome::kUnpaid) GO_TO(refill_for_bulk);
  if (outcome == AggregateOutcome::kTrapped) return trapped(PASS_REGISTERS(ip));
  ENTER(ip + 4);
}

HANDLER(kRefFunc) {
  const ImmediateWord w = ip[1].imm;
  fp[w.a] = reinterpret_cast<uint64_t>(
      Machine::function(*Machine::state(*run).instance, static_cast<uint32_t>(w.value)));
  NEXT(2);
}

}  // namespace membrane::engine::handlers
