// From a vector instruction to machine code, once its operands are in registers: which instruction of the
// processor it is, or which sequence of them (vector_code.def). What is in which register is the compiler's
// business.
//
// The meaning is that of numeric_simd.h. NaNs are made canonical by the compiler, where their bits can be seen:
// a row says as which lanes of floats operands are read, so that a NaN of those need not be canonical, and of
// which lanes the result may have one that is not.
//
// Threads: constants and pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/native/assembler.h"
#include "engine/native/state.h"
#include "wasm/opcode.h"

namespace membrane::engine::native {

enum class Lanes : uint8_t { kNone, kF32, kF64 };

// A sequence reads x, y and z, and writes `to`, which is none of these. It may use the last two.
struct VectorRegisters {
  Xmm to, x, y, z, t, u;
};
using VectorSequence = void (*)(Assembler&, const VectorRegisters&);

struct VectorCode {
  enum class Form : uint8_t {
    kNone,      // not in the table
    kOne,       // to = avx(x)
    kTwo,       // to = avx(x, y)
    kCommutes,  // the same; x and y may be exchanged
    kSwapped,   // to = avx(y, x)
    kSequence,
    kShift,  // the rest is lanes, loads and tests, as the sections of the table
    kSplat,
    kSplatFloat,
    kExtract,
    kExtractSigned,
    kExtractFloat,
    kReplace,
    kReplaceFloat,
    kLoadLane,
    kStoreLane,
    kLoad,
    kLoadZero,
    kAllTrue,
    kBitmask,
  };
  enum class Shift : uint8_t { kLeft, kRight, kRightSigned };
  Form form = Form::kNone;
  Avx avx{};
  uint8_t operands = 0;   // where all are vectors
  int16_t constant = -1;  // after the instruction; -1 for none
  Lanes reads = Lanes::kNone, makes = Lanes::kNone;
  VectorSequence sequence = nullptr;
  uint8_t log2_bytes = 0;  // of a lane, or of what is read
  uint8_t bits = 0;        // kShift: of a lane
  Shift shift{};
};
const VectorCode& vector_code(wasm::Opcode op);

// An operand in the NativeState.
constexpr Mem vector_constant(VectorConstant c) {
  return {r14, static_cast<int32_t>(offsetof(NativeState, vector_constants) +
                                    sizeof(Constant) * static_cast<size_t>(c))};
}

// to = x shifted by a constant below the width. Of bytes, what crosses their borders is still there when
// stays_of_bytes() says what stays; else that is 0xFF.
void write_shift(Assembler& a, const VectorCode& code, const VectorRegisters& r, uint8_t count);
uint8_t stays_of_bytes(const VectorCode& code, uint8_t count);
// The same by the number in y, to which more_of_count() was added.
void write_variable_shift(Assembler& a, const VectorCode& code, const VectorRegisters& r);
constexpr uint8_t more_of_count(const VectorCode& code) {
  return code.bits == 8 && code.shift == VectorCode::Shift::kRightSigned ? 8 : 0;
}

// A shuffle that is one instruction.
struct ShuffleCode {
  Avx avx{};
  bool has_constant = false;
  uint8_t constant = 0;
  bool takes_one = false;    // operand: the first
  bool first_is_y = false;   // its first operand is the instruction's second
  bool second_is_y = false;  // the same of its second
};
bool find_shuffle(const uint8_t (&indices)[16], ShuffleCode& found);

}  // namespace membrane::engine::native
