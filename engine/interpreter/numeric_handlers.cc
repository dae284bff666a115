// The handlers of numbers: the rows of operations.def except those of memories and fields, and the operations that fuse
// two of them.
#include "engine/code/numeric.h"
#include "engine/interpreter/handler.h"

namespace membrane::engine::handlers {

using namespace numeric;

// Slots dst, a, b; or dst, a and a constant. The word has the slot of an operand that is in the accumulator, too.

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

#include "engine/code/operations.def"

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

}  // namespace membrane::engine::handlers
