#include "engine/native/vector_code.h"

#include <array>
#include <utility>

namespace membrane::engine::native {
namespace {

using Bits = Assembler::Bits;
using enum Avx;
using R = VectorRegisters;
using C = VectorConstant;

constexpr uint8_t kEqual = 0, kNotLess = 13;            // predicates of comparisons
constexpr uint8_t kTowardZero = 11;                     // of roundings
constexpr uint8_t kLowTwice = 0x50, kHighTwice = 0xFA;  // vpshufd: lanes 0 0 1 1, and 2 2 3 3

void write_zero(Assembler& a, Xmm to) { a.avx(kVpxor, to, to, to); }
void write_ones(Assembler& a, Xmm to) { a.avx(kVpcmpeqd, to, to, to); }
void load(Assembler& a, Xmm to, C c) { a.vload16(to, vector_constant(c)); }

// -- bits --------------------------------------------------------------------------------------------

void invert(Assembler& a, const R& r) {
  write_ones(a, r.t);
  a.avx(kVpxor, r.to, r.x, r.t);
}
void bitselect(Assembler& a, const R& r) {
  a.avx(kVpand, r.to, r.z, r.x);
  a.avx(kVpandn, r.t, r.z, r.y);
  a.avx(kVpor, r.to, r.to, r.t);
}
void swizzle(Assembler& a, const R& r) {
  a.avx(kVpaddusb, r.t, r.y, vector_constant(C::kBeyondLanes));
  a.avx(kVpshufb, r.to, r.x, r.t);
}

// -- comparisons -------------------------------------------------------------------------------------

template <Avx kCompare>
void inverted(Assembler& a, const R& r) {
  a.avx(kCompare, r.to, r.x, r.y);
  write_ones(a, r.t);
  a.avx(kVpxor, r.to, r.to, r.t);
}
template <Avx kCompare>
void inverted_swapped(Assembler& a, const R& r) {
  inverted<kCompare>(a, {r.to, r.y, r.x, r.z, r.t, r.u});
}
// Not more, or not less: the first operand is the lesser, or the greater one.
template <Avx kExtreme, Avx kCompare>
void is_extreme(Assembler& a, const R& r) {
  a.avx(kExtreme, r.t, r.x, r.y);
  a.avx(kCompare, r.to, r.t, r.x);
}
template <Avx kExtreme, Avx kCompare>
void is_not_extreme(Assembler& a, const R& r) {
  is_extreme<kExtreme, kCompare>(a, r);
  write_ones(a, r.t);
  a.avx(kVpxor, r.to, r.to, r.t);
}

// -- integers ----------------------------------------------------------------------------------------

template <Avx kSubtract>
void negated(Assembler& a, const R& r) {
  write_zero(a, r.t);
  a.avx(kSubtract, r.to, r.t, r.x);
}
void magnitudes(Assembler& a, const R& r) {
  negated<kVpsubq>(a, r);
  a.avx_blend(kVblendvpd, r.to, r.x, r.to, r.x);
}
// Each half of a byte by a table.
void popcnt(Assembler& a, const R& r) {
  load(a, r.u, C::kLowNibbles);
  a.avx(kVpand, r.t, r.x, r.u);
  a.avx_shift(kShiftVpsrlw, r.to, r.x, 4);
  a.avx(kVpand, r.to, r.to, r.u);
  load(a, r.u, C::kBitsOfNibbles);
  a.avx(kVpshufb, r.t, r.u, r.t);
  a.avx(kVpshufb, r.to, r.u, r.to);
  a.avx(kVpaddb, r.to, r.to, r.t);
}
// Of 64 bits: the product of the low halves, and the two of a high and a low one.
void product(Assembler& a, const R& r) {
  a.avx_shift(kShiftVpsrlq, r.t, r.x, 32);
  a.avx(kVpmuludq, r.t, r.t, r.y);
  a.avx_shift(kShiftVpsrlq, r.to, r.y, 32);
  a.avx(kVpmuludq, r.to, r.to, r.x);
  a.avx(kVpaddq, r.t, r.t, r.to);
  a.avx_shift(kShiftVpsllq, r.t, r.t, 32);
  a.avx(kVpmuludq, r.to, r.x, r.y);
  a.avx(kVpaddq, r.to, r.to, r.t);
}
// Only -1 times -1 is beyond the largest fraction, and wraps to the least number.
void q15mulr(Assembler& a, const R& r) {
  a.avx(kVpmulhrsw, r.to, r.x, r.y);
  a.avx(kVpcmpeqw, r.t, r.to, vector_constant(C::kLeastWords));
  a.avx(kVpxor, r.to, r.to, r.t);
}
// The bytes of even numbers, extended in their places; then those of odd ones.
void dot_of_bytes(Assembler& a, const R& r) {
  a.avx_shift(kShiftVpsllw, r.t, r.x, 8);
  a.avx_shift(kShiftVpsraw, r.t, r.t, 8);
  a.avx_shift(kShiftVpsllw, r.u, r.y, 8);
  a.avx_shift(kShiftVpsraw, r.u, r.u, 8);
  a.avx(kVpmullw, r.t, r.t, r.u);
  a.avx_shift(kShiftVpsraw, r.u, r.x, 8);
  a.avx_shift(kShiftVpsraw, r.to, r.y, 8);
  a.avx(kVpmullw, r.to, r.to, r.u);
  a.avx(kVpaddw, r.to, r.to, r.t);
}
void dot_of_bytes_add(Assembler& a, const R& r) {
  dot_of_bytes(a, r);
  a.avx(kVpmaddwd, r.to, r.to, vector_constant(C::kOneWords));
  a.avx(kVpaddd, r.to, r.to, r.z);
}

// -- integers of two widths --------------------------------------------------------------------------

template <Avx kExtend>
void extend_high(Assembler& a, const R& r) {
  a.avx(kVpunpckhqdq, r.to, r.x, r.x);
  a.avx(kExtend, r.to, 0, r.to);
}
template <Avx kUnpack>
void unpack_with_zero(Assembler& a, const R& r) {
  write_zero(a, r.t);
  a.avx(kUnpack, r.to, r.x, r.t);
}
template <Avx kExtend>
void multiply_low_bytes(Assembler& a, const R& r) {
  a.avx(kExtend, r.t, 0, r.x);
  a.avx(kExtend, r.to, 0, r.y);
  a.avx(kVpmullw, r.to, r.to, r.t);
}
template <Avx kExtend>
void multiply_high_bytes(Assembler& a, const R& r) {
  a.avx(kVpunpckhqdq, r.t, r.x, r.x);
  a.avx(kVpunpckhqdq, r.to, r.y, r.y);
  multiply_low_bytes<kExtend>(a, {r.to, r.t, r.to, r.z, r.t, r.u});
}
template <Avx kMultiplyHigh, Avx kUnpack>
void multiply_words(Assembler& a, const R& r) {
  a.avx(kVpmullw, r.t, r.x, r.y);
  a.avx(kMultiplyHigh, r.to, r.x, r.y);
  a.avx(kUnpack, r.to, r.t, r.to);
}
template <Avx kMultiply, uint8_t kOrder>
void multiply_halves(Assembler& a, const R& r) {
  a.avx(kVpshufd, r.t, 0, r.x, kOrder);
  a.avx(kVpshufd, r.to, 0, r.y, kOrder);
  a.avx(kMultiply, r.to, r.to, r.t);
}
void add_pairs_of_bytes(Assembler& a, const R& r) {  // what has no sign comes first
  load(a, r.t, C::kOneBytes);
  a.avx(kVpmaddubsw, r.to, r.t, r.x);
}
void add_pairs_of_bytes_u(Assembler& a, const R& r) {
  a.avx(kVpmaddubsw, r.to, r.x, vector_constant(C::kOneBytes));
}
void add_pairs_of_words(Assembler& a, const R& r) {
  a.avx(kVpmaddwd, r.to, r.x, vector_constant(C::kOneWords));
}
void add_pairs_of_words_u(Assembler& a, const R& r) {
  a.avx_shift(kShiftVpsrld, r.t, r.x, 16);
  a.avx(kVpand, r.to, r.x, vector_constant(C::kLowWords));
  a.avx(kVpaddd, r.to, r.to, r.t);
}

// -- floats ------------------------------------------------------------------------------------------

// As the compiler's float_extreme(): done both ways, the bits combine to what WebAssembly asks for.
template <Avx kMinimum>
void minimum(Assembler& a, const R& r) {
  a.avx(kMinimum, r.t, r.x, r.y);
  a.avx(kMinimum, r.to, r.y, r.x);
  a.fbits(Bits::kOr, r.to, r.to, r.t);
}
template <Avx kMaximum, Avx kSubtract>
void maximum(Assembler& a, const R& r) {
  a.avx(kMaximum, r.t, r.x, r.y);
  a.avx(kMaximum, r.to, r.y, r.x);
  a.fbits(Bits::kXor, r.t, r.t, r.to);
  a.fbits(Bits::kOr, r.to, r.to, r.t);
  a.avx(kSubtract, r.to, r.to, r.t);
}
template <Bits kOperation, C kConstant>
void with_constant(Assembler& a, const R& r) {
  a.fbits(kOperation, r.to, r.x, vector_constant(kConstant));
}
template <Avx kMultiplyAdd>
void multiply_add(Assembler& a, const R& r) {
  a.fmov(r.to, r.z);
  a.avx(kMultiplyAdd, r.to, r.x, r.y);
}

// -- between floats and integers -----------------------------------------------------------------------

// The halves of 16 bits are exact, so that only their sum is rounded. The high one is halved, for its sign.
void convert_unsigned(Assembler& a, const R& r) {
  a.avx(kVpand, r.t, r.x, vector_constant(C::kLowWords));
  a.avx(kVpsubd, r.to, r.x, r.t);
  a.avx(kVcvtdq2ps, r.t, 0, r.t);
  a.avx_shift(kShiftVpsrld, r.to, r.to, 1);
  a.avx(kVcvtdq2ps, r.to, 0, r.to);
  a.avx(kVaddps, r.to, r.to, r.to);
  a.avx(kVaddps, r.to, r.to, r.t);
}
// Below the high half of 2^52 a number is 2^52 and itself.
void convert_low_unsigned(Assembler& a, const R& r) {
  a.avx(kVunpcklps, r.to, r.x, vector_constant(C::kTwoTo52HighHalves));
  a.avx(kVsubpd, r.to, r.to, vector_constant(C::kTwoTo52Doubles));
}
// What does not fit is made the least number by the processor, and inverted where it was too large. NaNs are
// zeros before.
void truncate(Assembler& a, const R& r) {
  a.avx(kVcmpps, r.t, r.x, r.x, kEqual);
  a.fbits(Bits::kAnd, r.t, r.t, r.x);
  a.avx(kVcmpps, r.to, r.t, vector_constant(C::kTwoTo31Floats), kNotLess);
  a.avx(kVcvttps2dq, r.t, 0, r.t);
  a.avx(kVpxor, r.to, r.to, r.t);
}
// The sum of what is below 2^31, or 2^31, and of what is above it.
void truncate_unsigned(Assembler& a, const R& r) {
  write_zero(a, r.t);
  a.avx(kVmaxps, r.t, r.x, r.t);  // the second of a NaN and a number
  a.avx(kVsubps, r.u, r.t, vector_constant(C::kTwoTo31Floats));
  a.avx(kVcmpps, r.to, r.u, vector_constant(C::kTwoTo31Floats), kNotLess);
  a.avx(kVcvttps2dq, r.u, 0, r.u);
  a.avx(kVpxor, r.u, r.u, r.to);
  write_zero(a, r.to);
  a.avx(kVpmaxsd, r.u, r.u, r.to);
  a.avx(kVcvttps2dq, r.to, 0, r.t);
  a.avx(kVpaddd, r.to, r.to, r.u);
}
void truncate_wide(Assembler& a, const R& r) {
  a.avx(kVcmppd, r.t, r.x, r.x, kEqual);
  a.fbits(Bits::kAnd, r.t, r.t, vector_constant(C::kMostInt32Doubles));
  a.avx(kVminpd, r.t, r.x, r.t);
  a.avx(kVcvttpd2dq, r.to, 0, r.t);
}
// The low halves of 2^52 and the number.
void truncate_wide_unsigned(Assembler& a, const R& r) {
  write_zero(a, r.u);
  a.avx(kVmaxpd, r.t, r.x, r.u);
  a.avx(kVminpd, r.t, r.t, vector_constant(C::kMostUint32Doubles));
  a.avx(kVroundpd, r.t, 0, r.t, kTowardZero);
  a.avx(kVaddpd, r.t, r.t, vector_constant(C::kTwoTo52Doubles));
  a.avx(kVshufps, r.to, r.t, r.u, 0x88);
}

// -- the table -----------------------------------------------------------------------------------------

constexpr std::array<VectorCode, wasm::kOpcodeCount> make_codes() {
  std::array<VectorCode, wasm::kOpcodeCount> codes{};
  const auto at = [&](wasm::Opcode op) -> VectorCode& { return codes[static_cast<size_t>(op)]; };
  using enum VectorCode::Form;
#define ROW(op, form_of, count, avx_of, constant_of, reads_as, makes_of) \
  at(wasm::Opcode::op) = {.form = form_of,                               \
                          .avx = avx_of,                                 \
                          .operands = count,                             \
                          .constant = constant_of,                       \
                          .reads = Lanes::reads_as,                      \
                          .makes = Lanes::makes_of};
#define SEQUENCE(op, count, function, reads_as, makes_of) \
  at(wasm::Opcode::op) = {.form = kSequence,              \
                          .operands = count,              \
                          .reads = Lanes::reads_as,       \
                          .makes = Lanes::makes_of,       \
                          .sequence = function};
#define SHIFT(op, width, kind)                                                              \
  at(wasm::Opcode::op) = {.form = kShift, .bits = width, .shift = VectorCode::Shift::kind};
#define LANE(op, form_of, avx_of, log2)                                        \
  at(wasm::Opcode::op) = {.form = form_of, .avx = avx_of, .log2_bytes = log2};
#include "engine/native/vector_code.def"
  return codes;
}
constexpr std::array<VectorCode, wasm::kOpcodeCount> kCodes = make_codes();

// -- shifts --------------------------------------------------------------------------------------------

// By log2 of a lane's bytes less one; bytes are shifted as words.
constexpr Avx kShiftsByConstant[3][3] = {{kShiftVpsllw, kShiftVpslld, kShiftVpsllq},
                                         {kShiftVpsrlw, kShiftVpsrld, kShiftVpsrlq},
                                         {kShiftVpsraw, kShiftVpsrad, kShiftVpsrlq}};
constexpr Avx kShiftsByRegister[3][3] = {
    {kVpsllw, kVpslld, kVpsllq}, {kVpsrlw, kVpsrld, kVpsrlq}, {kVpsraw, kVpsrad, kVpsrlq}};
Avx shift_of(const Avx (&table)[3][3], const VectorCode& code) {
  return table[static_cast<size_t>(code.shift)][code.bits == 64 ? 2 : code.bits == 32 ? 1 : 0];
}
// By either kind of count.
template <typename Shift>
void write_signed_shift(Assembler& a, const VectorCode& code, const R& r, const Shift& shift) {
  if (code.bits == 8) {  // as the high halves of words
    a.avx(kVpunpcklbw, r.t, r.x, r.x);
    a.avx(kVpunpckhbw, r.to, r.x, r.x);
    shift(r.t, r.t);
    shift(r.to, r.to);
    a.avx(kVpacksswb, r.to, r.t, r.to);
  } else if (code.bits == 64) {  // the sign that was shifted is spread by subtracting it
    load(a, r.t, C::kSigns64);
    shift(r.t, r.t);
    shift(r.to, r.x);
    a.avx(kVpxor, r.to, r.to, r.t);
    a.avx(kVpsubq, r.to, r.to, r.t);
  } else {
    shift(r.to, r.x);
  }
}

}  // namespace

const VectorCode& vector_code(wasm::Opcode op) { return kCodes[static_cast<size_t>(op)]; }

uint8_t stays_of_bytes(const VectorCode& code, uint8_t count) {
  if (code.bits != 8 || code.shift == VectorCode::Shift::kRightSigned) return 0xFF;
  return static_cast<uint8_t>(code.shift == VectorCode::Shift::kLeft ? 0xFF << count : 0xFF >> count);
}

void write_shift(Assembler& a, const VectorCode& code, const VectorRegisters& r, uint8_t count) {
  const Avx o = shift_of(kShiftsByConstant, code);
  if (code.shift != VectorCode::Shift::kRightSigned) return a.avx_shift(o, r.to, r.x, count);
  const auto whole = static_cast<uint8_t>(count + more_of_count(code));
  write_signed_shift(a, code, r, [&](Xmm to, Xmm from) { a.avx_shift(o, to, from, whole); });
}

void write_variable_shift(Assembler& a, const VectorCode& code, const VectorRegisters& r) {
  const Avx o = shift_of(kShiftsByRegister, code);
  if (code.shift == VectorCode::Shift::kRightSigned)
    return write_signed_shift(a, code, r, [&](Xmm to, Xmm from) { a.avx(o, to, from, r.y); });
  a.avx(o, r.to, r.x, r.y);
  if (code.bits != 8) return;
  write_ones(a, r.t);  // the low byte of a word of ones that is shifted likewise is what stays
  if (code.shift == VectorCode::Shift::kRight) a.avx_shift(kShiftVpsrlw, r.t, r.t, 8);
  a.avx(o, r.t, r.t, r.y);
  a.avx(kVpbroadcastb, r.t, 0, r.t);
  a.avx(kVpand, r.to, r.to, r.t);
}

// -- shuffles --------------------------------------------------------------------------------------------

namespace {

using Indices = uint8_t[16];

// Lanes of the low halves of both operands in turn, or of the high ones.
bool is_unpack(const Indices& indices, uint32_t lane_bytes, bool high, uint8_t first) {
  const uint32_t half = high ? 8 : 0;
  for (uint32_t i = 0; i < 16; ++i) {
    const uint32_t lane = i / lane_bytes;
    const uint32_t wanted = half + lane / 2 * lane_bytes + i % lane_bytes + (lane % 2 == 0 ? 0 : 16);
    if (indices[i] != (wanted ^ first)) return false;
  }
  return true;
}
bool find_unpack(const Indices& indices, ShuffleCode& found) {
  constexpr Avx kUnpacks[4][2] = {{kVpunpcklbw, kVpunpckhbw},
                                  {kVpunpcklwd, kVpunpckhwd},
                                  {kVpunpckldq, kVpunpckhdq},
                                  {kVpunpcklqdq, kVpunpckhqdq}};
  for (uint32_t log2 = 0; log2 < 4; ++log2)
    for (const bool high : {false, true})
      for (const bool swapped : {false, true})
        if (is_unpack(indices, 1u << log2, high, swapped ? 16 : 0)) {
          found = {.avx = kUnpacks[log2][high ? 1 : 0], .first_is_y = swapped, .second_is_y = !swapped};
          return true;
        }
  return false;
}

// The indices as lanes of this many bytes. False when they split lanes.
bool find_lanes(const Indices& indices, uint32_t bytes, uint8_t (&lanes)[8]) {
  for (uint32_t i = 0; i < 16; ++i)
    if (indices[i] % bytes != i % bytes || indices[i] / bytes != indices[i - i % bytes] / bytes) return false;
  for (uint32_t i = 0; i < 16 / bytes; ++i) lanes[i] = static_cast<uint8_t>(indices[i * bytes] / bytes);
  return true;
}
// Two lanes of 32 bits from one operand, then two of one.
bool find_shuffle_of_four(const Indices& indices, ShuffleCode& found) {
  uint8_t lanes[8];
  if (!find_lanes(indices, 4, lanes) || lanes[0] / 4 != lanes[1] / 4 || lanes[2] / 4 != lanes[3] / 4)
    return false;
  uint8_t order = 0;
  for (int i = 0; i < 4; ++i) order |= static_cast<uint8_t>(lanes[i] % 4 << (2 * i));
  const bool first = lanes[0] >= 4, second = lanes[2] >= 4;
  if (first == second)
    found = {
        .avx = kVpshufd, .has_constant = true, .constant = order, .takes_one = true, .first_is_y = first};
  else
    found = {
        .avx = kVshufps, .has_constant = true, .constant = order, .first_is_y = first, .second_is_y = second};
  return true;
}
bool find_blend(const Indices& indices, ShuffleCode& found) {
  uint8_t lanes[8], from_y = 0;
  if (!find_lanes(indices, 2, lanes)) return false;
  for (int i = 0; i < 8; ++i) {
    if (lanes[i] % 8 != i) return false;
    from_y |= static_cast<uint8_t>(lanes[i] / 8 << i);
  }
  found = {.avx = kVpblendw, .has_constant = true, .constant = from_y, .second_is_y = true};
  return true;
}
// Sixteen in a row of both operands, one after the other; or round in one.
bool find_rotation(const Indices& indices, ShuffleCode& found) {
  const uint8_t first = indices[0];
  bool of_both = true, of_one = true;
  for (uint8_t i = 1; i < 16; ++i) {
    of_both &= indices[i] == (first + i) % 32;
    of_one &= indices[i] == (first & 16) + (first + i) % 16;
  }
  if (!of_both && !of_one) return false;
  const bool low_is_y = first >= 16;  // vpalignr has the high half first
  found = {.avx = kVpalignr,
           .has_constant = true,
           .constant = static_cast<uint8_t>(first % 16),
           .first_is_y = of_one ? low_is_y : !low_is_y,
           .second_is_y = low_is_y};
  return true;
}

}  // namespace

bool find_shuffle(const uint8_t (&indices)[16], ShuffleCode& found) {
  return find_unpack(indices, found) || find_shuffle_of_four(indices, found) || find_blend(indices, found) ||
         find_rotation(indices, found);
}

}  // namespace membrane::engine::native
