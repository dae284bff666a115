// The vector instructions as functions, exactly as the specification defines them (WebAssembly 2.0,
// chapter 4.3), in the deterministic profile of numeric.h: an operation that makes a NaN makes the
// canonical one, in each lane.
//
// A vector has 128 bits and no shape; an instruction looks at it as lanes of one type. Lane 0 is
// in the lowest bytes. The compiler's vector types are used, so that a function is a few vector
// instructions where the CPU has them, and portable code elsewhere. Arithmetic that may wrap is done
// in unsigned lanes.
//
// Threads: pure functions.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "engine/code/numeric.h"
#include "engine/memory/access.h"

namespace membrane::engine::simd {

namespace detail {
template <typename T>
struct Vectors {
  typedef T whole __attribute__((vector_size(16)));
  typedef T half __attribute__((vector_size(8)));
};
}  // namespace detail

template <typename T> using Lanes = typename detail::Vectors<T>::whole;
template <typename T> using HalfLanes = typename detail::Vectors<T>::half;  // of eight bytes
// Integers twice as wide.
template <typename T>
using WiderSigned =
    std::conditional_t<sizeof(T) == 1, int16_t, std::conditional_t<sizeof(T) == 2, int32_t, int64_t>>;
template <typename T> using WiderUnsigned = std::make_unsigned_t<WiderSigned<T>>;
template <typename T>
using Wider = std::conditional_t<std::is_signed_v<T>, WiderSigned<T>, WiderUnsigned<T>>;

using V128 = Lanes<uint64_t>;

template <typename T> inline constexpr int kBits = 8 * sizeof(T);
template <typename T> inline constexpr int kLaneCount = 16 / sizeof(T);

template <typename T> MEMBRANE_INLINE Lanes<T> lanes(V128 v) { return std::bit_cast<Lanes<T>>(v); }
template <typename L> MEMBRANE_INLINE V128 whole(L lanes) { return std::bit_cast<V128>(lanes); }
template <typename U> MEMBRANE_INLINE Lanes<U> splat_lanes(U x) { return Lanes<U>{} + x; }  // unsigned
MEMBRANE_INLINE V128 choose(V128 mask, V128 yes, V128 no) { return (mask & yes) | (~mask & no); }

// -- bits -----------------------------------------------------------------------

MEMBRANE_INLINE V128 bit_not(V128 a) { return ~a; }
MEMBRANE_INLINE V128 bit_and(V128 a, V128 b) { return a & b; }
MEMBRANE_INLINE V128 bit_andnot(V128 a, V128 b) { return a & ~b; }
MEMBRANE_INLINE V128 bit_or(V128 a, V128 b) { return a | b; }
MEMBRANE_INLINE V128 bit_xor(V128 a, V128 b) { return a ^ b; }
MEMBRANE_INLINE V128 bitselect(V128 a, V128 b, V128 mask) { return choose(mask, a, b); }
MEMBRANE_INLINE uint32_t any_true(V128 a) { return (a[0] | a[1]) != 0; }

template <typename U> MEMBRANE_INLINE uint32_t all_true(V128 a) {
  return any_true(whole(lanes<U>(a) == Lanes<U>{})) == 0;
}

// The sign bits of the lanes of eight bytes, lane 0 lowest. Each is moved to its place by a multiplication:
// no two products of a sign and a power meet in one bit, so that none carries.
template <typename U> MEMBRANE_INLINE uint32_t half_bitmask(uint64_t half) {
  constexpr int kLanesOfHalf = 8 / sizeof(U);
  uint64_t signs = 0, powers = 0;
  for (int i = 0; i < kLanesOfHalf; ++i) {
    signs |= uint64_t{1} << (i * kBits<U>);
    powers |= uint64_t{1} << (64 - kBits<U> - i * (kBits<U> - 1));
  }
  return static_cast<uint32_t>((half >> (kBits<U> - 1) & signs) * powers >> (64 - kBits<U>)) &
         ((1u << kLanesOfHalf) - 1);
}
template <typename U> MEMBRANE_INLINE uint32_t bitmask(V128 a) {
  return half_bitmask<U>(a[0]) | half_bitmask<U>(a[1]) << (8 / sizeof(U));
}

// -- lanes that are moved ---------------------------------------------------------

template <typename U> MEMBRANE_INLINE V128 splat(U x) { return whole(splat_lanes(x)); }

template <typename U> MEMBRANE_INLINE V128 replace_lane(V128 a, U x, uint32_t lane) {
  Lanes<U> numbers{};
  for (int i = 0; i < kLaneCount<U>; ++i) numbers[i] = static_cast<U>(i);
  return choose(whole(numbers == splat_lanes(static_cast<U>(lane))), splat(x), a);
}

// Byte i of the result is byte `lanes[i]` of a and b together.
MEMBRANE_INLINE V128 shuffle(V128 a, V128 b, V128 chosen) {
  uint8_t bytes[32], indices[16], out[16];
  std::memcpy(bytes, &a, 16);
  std::memcpy(bytes + 16, &b, 16);
  std::memcpy(indices, &chosen, 16);
  for (int i = 0; i < 16; ++i) out[i] = bytes[indices[i] & 31];
  V128 result;
  std::memcpy(&result, out, 16);
  return result;
}

// An index beyond the last lane gives 0.
MEMBRANE_INLINE V128 swizzle(V128 a, V128 chosen) {
  const Lanes<uint8_t> indices = lanes<uint8_t>(chosen);
  const Lanes<uint8_t> most = splat_lanes(uint8_t{31});
  return shuffle(a, V128{}, whole(indices < most ? indices : most));
}

// pshufb, where the machine has it: an index takes its byte, or gives 0 where its highest bit is set. A
// shuffle is made of two, with indices into each operand.
inline bool has_pshufb() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("ssse3") != 0;
#else
  return false;
#endif
}
MEMBRANE_INLINE V128 pshufb(V128 a, V128 indices) {
#if defined(__x86_64__)
  asm("pshufb %1, %0" : "+x"(a) : "x"(indices));
  return a;
#else
  return swizzle(a, indices);
#endif
}

// -- integers -------------------------------------------------------------------

template <typename T> MEMBRANE_INLINE V128 eq(V128 a, V128 b) { return whole(lanes<T>(a) == lanes<T>(b)); }
template <typename T> MEMBRANE_INLINE V128 ne(V128 a, V128 b) { return whole(lanes<T>(a) != lanes<T>(b)); }
template <typename T> MEMBRANE_INLINE V128 lt(V128 a, V128 b) { return whole(lanes<T>(a) < lanes<T>(b)); }
template <typename T> MEMBRANE_INLINE V128 gt(V128 a, V128 b) { return whole(lanes<T>(a) > lanes<T>(b)); }
template <typename T> MEMBRANE_INLINE V128 le(V128 a, V128 b) { return whole(lanes<T>(a) <= lanes<T>(b)); }
template <typename T> MEMBRANE_INLINE V128 ge(V128 a, V128 b) { return whole(lanes<T>(a) >= lanes<T>(b)); }

template <typename U> MEMBRANE_INLINE V128 add(V128 a, V128 b) { return whole(lanes<U>(a) + lanes<U>(b)); }
template <typename U> MEMBRANE_INLINE V128 sub(V128 a, V128 b) { return whole(lanes<U>(a) - lanes<U>(b)); }
template <typename U> MEMBRANE_INLINE V128 mul(V128 a, V128 b) { return whole(lanes<U>(a) * lanes<U>(b)); }
template <typename U> MEMBRANE_INLINE V128 neg(V128 a) { return whole(-lanes<U>(a)); }
template <typename T> MEMBRANE_INLINE V128 min(V128 a, V128 b) { return choose(lt<T>(a, b), a, b); }
template <typename T> MEMBRANE_INLINE V128 max(V128 a, V128 b) { return choose(gt<T>(a, b), a, b); }

template <typename S> MEMBRANE_INLINE V128 signs(V128 a) { return whole(lanes<S>(a) >> (kBits<S> - 1)); }
template <typename S> MEMBRANE_INLINE V128 abs(V128 a) {
  return sub<std::make_unsigned_t<S>>(a ^ signs<S>(a), signs<S>(a));
}

// Counts modulo the width. Shifts of bytes are those of 16 bits, without what crosses a byte's border.
template <typename U> MEMBRANE_INLINE V128 shl(V128 a, uint32_t count) {
  const uint32_t n = count % kBits<U>;
  if constexpr (sizeof(U) > 1) return whole(lanes<U>(a) << static_cast<U>(n));
  else return shl<uint16_t>(a, n) & splat(static_cast<uint8_t>(0xFF << n));
}
template <typename U> MEMBRANE_INLINE V128 shr_u(V128 a, uint32_t count) {
  const uint32_t n = count % kBits<U>;
  if constexpr (sizeof(U) > 1) return whole(lanes<U>(a) >> static_cast<U>(n));
  else return shr_u<uint16_t>(a, n) & splat(static_cast<uint8_t>(0xFF >> n));
}
template <typename S> MEMBRANE_INLINE V128 shr_s(V128 a, uint32_t count) {
  const uint32_t n = count % kBits<S>;
  if constexpr (sizeof(S) > 1) {
    return whole(lanes<S>(a) >> static_cast<S>(n));
  } else {
    const V128 sign = splat(static_cast<uint8_t>(0x80 >> n));
    return sub<uint8_t>(shr_u<uint8_t>(a, n) ^ sign, sign);
  }
}

// A sum overflows when its sign is neither operand's; the result is then the bound in the direction
// of the first one's sign.
template <typename S> MEMBRANE_INLINE V128 largest_of_sign(V128 a) {
  using U = std::make_unsigned_t<S>;
  return signs<S>(a) ^ splat(static_cast<U>(std::numeric_limits<S>::max()));
}
template <typename S> MEMBRANE_INLINE V128 add_sat_s(V128 a, V128 b) {
  const V128 sum = add<std::make_unsigned_t<S>>(a, b);
  return choose(signs<S>((a ^ sum) & (b ^ sum)), largest_of_sign<S>(a), sum);
}
template <typename S> MEMBRANE_INLINE V128 sub_sat_s(V128 a, V128 b) {
  const V128 difference = sub<std::make_unsigned_t<S>>(a, b);
  return choose(signs<S>((a ^ b) & (a ^ difference)), largest_of_sign<S>(a), difference);
}
template <typename U> MEMBRANE_INLINE V128 add_sat_u(V128 a, V128 b) {
  const V128 sum = add<U>(a, b);
  return sum | lt<U>(sum, a);
}
MEMBRANE_INLINE V128 swizzle_by_pshufb(V128 a, V128 chosen) {
  return pshufb(a, add_sat_u<uint8_t>(chosen, splat(uint8_t{0x70})));  // from 16 on to the highest bit
}
template <typename U> MEMBRANE_INLINE V128 sub_sat_u(V128 a, V128 b) { return sub<U>(a, b) & ge<U>(a, b); }

// (a + b + 1) / 2, without the bit that the sum would need.
template <typename U> MEMBRANE_INLINE V128 avgr_u(V128 a, V128 b) {
  return sub<U>(a | b, shr_u<U>(a ^ b, 1));
}

MEMBRANE_INLINE V128 popcnt(V128 a) {
  constexpr uint64_t kPairs = 0x5555555555555555, kQuads = 0x3333333333333333, kBytes = 0x0F0F0F0F0F0F0F0F;
  a = a - (a >> 1 & kPairs);
  a = (a & kQuads) + (a >> 2 & kQuads);
  return (a + (a >> 4)) & kBytes;
}

// -- integers of two widths ----------------------------------------------------------

template <typename T> MEMBRANE_INLINE Lanes<Wider<T>> widened(uint64_t half) {
  return __builtin_convertvector(std::bit_cast<HalfLanes<T>>(half), Lanes<Wider<T>>);
}
template <typename T> MEMBRANE_INLINE V128 extend_low(V128 a) { return whole(widened<T>(a[0])); }
template <typename T> MEMBRANE_INLINE V128 extend_high(V128 a) { return whole(widened<T>(a[1])); }
template <typename T> MEMBRANE_INLINE V128 extmul_low(V128 a, V128 b) {
  return whole(widened<T>(a[0]) * widened<T>(b[0]));
}
template <typename T> MEMBRANE_INLINE V128 extmul_high(V128 a, V128 b) {
  return whole(widened<T>(a[1]) * widened<T>(b[1]));
}

// Signed lanes twice as wide as T, to the nearest values of T.
template <typename T> MEMBRANE_INLINE uint64_t narrow_half(V128 a) {
  using S = WiderSigned<T>;
  const V128 least = splat(static_cast<WiderUnsigned<T>>(std::numeric_limits<T>::min()));
  const V128 most = splat(static_cast<WiderUnsigned<T>>(std::numeric_limits<T>::max()));
  return std::bit_cast<uint64_t>(
      __builtin_convertvector(lanes<S>(min<S>(max<S>(a, least), most)), HalfLanes<T>));
}
template <typename T> MEMBRANE_INLINE V128 narrow(V128 a, V128 b) {
  return V128{narrow_half<T>(a), narrow_half<T>(b)};
}

// The lanes of even and of odd numbers, extended in their places.
template <typename T> MEMBRANE_INLINE Lanes<Wider<T>> even_lanes(V128 a) {
  return lanes<Wider<T>>(shl<WiderUnsigned<T>>(a, kBits<T>)) >> kBits<T>;
}
template <typename T> MEMBRANE_INLINE Lanes<Wider<T>> odd_lanes(V128 a) {
  return lanes<Wider<T>>(a) >> kBits<T>;
}
template <typename T> MEMBRANE_INLINE V128 extadd_pairwise(V128 a) {
  return whole(even_lanes<T>(a) + odd_lanes<T>(a));
}
MEMBRANE_INLINE V128 dot(V128 a, V128 b) {
  return add<uint32_t>(whole(even_lanes<int16_t>(a) * even_lanes<int16_t>(b)),
                       whole(odd_lanes<int16_t>(a) * odd_lanes<int16_t>(b)));
}
MEMBRANE_INLINE V128 dot_of_bytes(V128 a, V128 b) {
  return add<uint16_t>(whole(even_lanes<int8_t>(a) * even_lanes<int8_t>(b)),
                       whole(odd_lanes<int8_t>(a) * odd_lanes<int8_t>(b)));
}
MEMBRANE_INLINE V128 dot_of_bytes_add(V128 a, V128 b, V128 c) {
  return add<uint32_t>(extadd_pairwise<int16_t>(dot_of_bytes(a, b)), c);
}
// Products of fractions of 15 bits, rounded; only -1 times -1 has to be saturated.
MEMBRANE_INLINE V128 q15mulr_sat(V128 a, V128 b) {
  const Lanes<int32_t> low = widened<int16_t>(a[0]) * widened<int16_t>(b[0]);
  const Lanes<int32_t> high = widened<int16_t>(a[1]) * widened<int16_t>(b[1]);
  return narrow<int16_t>(whole((low + 0x4000) >> 15), whole((high + 0x4000) >> 15));
}

// -- floats -----------------------------------------------------------------------

template <typename F> using BitsOf = std::conditional_t<sizeof(F) == 4, uint32_t, uint64_t>;
template <typename F> MEMBRANE_INLINE V128 canonical_nans() {
  constexpr uint64_t kTwo = uint64_t{numeric::kCanonicalNan32} << 32 | numeric::kCanonicalNan32;
  constexpr uint64_t kBoth = sizeof(F) == 4 ? kTwo : numeric::kCanonicalNan64;
  return V128{kBoth, kBoth};
}
template <typename F> MEMBRANE_INLINE V128 canonical(Lanes<F> x) {
  return choose(whole(x == x), whole(x), canonical_nans<F>());
}
// Lane by lane, for operations without vector instructions.
template <typename F, typename Function> MEMBRANE_INLINE V128 lane_by_lane(V128 a, Function function) {
  Lanes<F> x = lanes<F>(a);
#pragma GCC unroll 4
  for (int i = 0; i < kLaneCount<F>; ++i) x[i] = function(x[i]);
  return whole(x);
}

template <typename F> MEMBRANE_INLINE V128 fadd(V128 a, V128 b) {
  return canonical<F>(lanes<F>(a) + lanes<F>(b));
}
template <typename F> MEMBRANE_INLINE V128 fsub(V128 a, V128 b) {
  return canonical<F>(lanes<F>(a) - lanes<F>(b));
}
template <typename F> MEMBRANE_INLINE V128 fmul(V128 a, V128 b) {
  return canonical<F>(lanes<F>(a) * lanes<F>(b));
}
template <typename F> MEMBRANE_INLINE V128 fdiv(V128 a, V128 b) {
  return canonical<F>(lanes<F>(a) / lanes<F>(b));
}
template <typename F> MEMBRANE_INLINE V128 fsqrt(V128 a) { return lane_by_lane<F>(a, numeric::fsqrt<F>); }
template <typename F> MEMBRANE_INLINE V128 fceil(V128 a) { return lane_by_lane<F>(a, numeric::fceil<F>); }
template <typename F> MEMBRANE_INLINE V128 ffloor(V128 a) { return lane_by_lane<F>(a, numeric::ffloor<F>); }
template <typename F> MEMBRANE_INLINE V128 ftrunc(V128 a) { return lane_by_lane<F>(a, numeric::ftrunc<F>); }
template <typename F> MEMBRANE_INLINE V128 fnearest(V128 a) {
  return lane_by_lane<F>(a, numeric::fnearest<F>);
}

// Sign operations work on bits and keep a NaN's payload.
template <typename F> MEMBRANE_INLINE V128 sign_bits() {
  return splat(static_cast<BitsOf<F>>(BitsOf<F>{1} << (kBits<F> - 1)));
}
template <typename F> MEMBRANE_INLINE V128 fabs(V128 a) { return a & ~sign_bits<F>(); }
template <typename F> MEMBRANE_INLINE V128 fneg(V128 a) { return a ^ sign_bits<F>(); }

// Of two equal operands only zeros can have different bits: the lesser is that with the sign. Where none is
// less and they are not equal, one is a NaN.
template <typename F> MEMBRANE_INLINE V128 fmin(V128 a, V128 b) {
  const V128 nan_or_equal = choose(eq<F>(a, b), a | b, canonical_nans<F>());
  return choose(lt<F>(a, b), a, choose(lt<F>(b, a), b, nan_or_equal));
}
template <typename F> MEMBRANE_INLINE V128 fmax(V128 a, V128 b) {
  const V128 nan_or_equal = choose(eq<F>(a, b), a & b, canonical_nans<F>());
  return choose(lt<F>(a, b), b, choose(lt<F>(b, a), a, nan_or_equal));
}
// Rounded once, on every machine: fma() is exact also where no instruction does it.
template <typename F> MEMBRANE_INLINE V128 madd(V128 a, V128 b, V128 c) {
  const Lanes<F> x = lanes<F>(a), y = lanes<F>(b), z = lanes<F>(c);
  Lanes<F> out{};
  for (size_t i = 0; i < 16 / sizeof(F); ++i) out[i] = std::fma(x[i], y[i], z[i]);
  return canonical<F>(out);
}
template <typename F> MEMBRANE_INLINE V128 nmadd(V128 a, V128 b, V128 c) { return madd<F>(fneg<F>(a), b, c); }
// The pseudo-minimum and -maximum give one of their operands, bit by bit.
template <typename F> MEMBRANE_INLINE V128 pmin(V128 a, V128 b) { return choose(lt<F>(b, a), b, a); }
template <typename F> MEMBRANE_INLINE V128 pmax(V128 a, V128 b) { return choose(lt<F>(a, b), b, a); }

// -- between floats and integers ----------------------------------------------------

template <typename I> MEMBRANE_INLINE V128 convert_to_f32(V128 a) {
  return whole(__builtin_convertvector(lanes<I>(a), Lanes<float>));
}
template <typename I> MEMBRANE_INLINE V128 convert_low_to_f64(V128 a) {
  return whole(__builtin_convertvector(std::bit_cast<HalfLanes<I>>(uint64_t{a[0]}), Lanes<double>));
}
template <typename I> MEMBRANE_INLINE V128 trunc_sat_f32(V128 a) {
  const Lanes<float> x = lanes<float>(a);
  Lanes<I> out{};
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) out[i] = numeric::trunc_sat<I>(x[i]);
  return whole(out);
}
template <typename I> MEMBRANE_INLINE V128 trunc_sat_f64_zero(V128 a) {
  const Lanes<double> x = lanes<double>(a);
  return whole(Lanes<I>{numeric::trunc_sat<I>(x[0]), numeric::trunc_sat<I>(x[1]), 0, 0});
}
MEMBRANE_INLINE V128 demote_zero(V128 a) {
  const Lanes<double> x = lanes<double>(a);
  return whole(Lanes<float>{numeric::demote(x[0]), numeric::demote(x[1]), 0, 0});
}
MEMBRANE_INLINE V128 promote_low(V128 a) {
  const Lanes<float> x = lanes<float>(a);
  return whole(Lanes<double>{numeric::promote(x[0]), numeric::promote(x[1])});
}

// -- what a load makes of the bytes that it read -------------------------------------

MEMBRANE_INLINE V128 load_whole(V128 bytes) { return bytes; }
template <typename T> MEMBRANE_INLINE V128 load_extend(uint64_t bytes) { return whole(widened<T>(bytes)); }
template <typename U> MEMBRANE_INLINE V128 load_zero(U bytes) { return V128{bytes, 0}; }

}  // namespace membrane::engine::simd
