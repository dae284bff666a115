// The handlers of vectors: the rows of vector_operations.def, and those that are written out.
#include "engine/code/numeric_simd.h"
#include "engine/interpreter/handler_memory.h"

namespace membrane::engine::handlers {

using namespace numeric;

namespace {

// One access of the slots' memory, so that the processor forwards the vector's own write.
template <typename T>
MEMBRANE_INLINE T lane_at(const uint64_t* slots, uint32_t lane) {
  T value;
  std::memcpy(&value, reinterpret_cast<const char*>(slots) + lane * sizeof(T), sizeof value);
  return value;
}

}  // namespace

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
      *Machine::global(*Machine::state(*run).instance, static_cast<uint32_t>(w.value));
  put_vector(fp + w.a, simd::V128{global.bits, global.high_bits});
  NEXT(2);
}

HANDLER(kGlobalSetVector) {
  const ImmediateWord w = ip[1].imm;
  GlobalInstance& global = *Machine::global(*Machine::state(*run).instance, static_cast<uint32_t>(w.value));
  global.bits = fp[w.a];
  global.high_bits = fp[w.a + 1];
  NEXT(2);
}

}  // namespace membrane::engine::handlers
