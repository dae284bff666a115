// The numeric instructions as functions, exactly as the specification defines them
// (WebAssembly 2.0, chapter 4.3), in its deterministic profile: every operation that
// makes a NaN makes the one canonical NaN, so that results do not depend on the CPU.
//
// Threads: pure functions.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace membrane::engine::numeric {

inline constexpr uint32_t kCanonicalNan32 = 0x7FC00000u;
inline constexpr uint64_t kCanonicalNan64 = 0x7FF8000000000000ull;

template <typename F>
constexpr F canonical_nan() {
  if constexpr (sizeof(F) == 4) return std::bit_cast<float>(kCanonicalNan32);
  else return std::bit_cast<double>(kCanonicalNan64);
}

template <typename F>
inline F canonical(F x) {
  return x == x ? x : canonical_nan<F>();
}

// -- integers -------------------------------------------------------------------

template <typename U> inline U add(U a, U b) { return static_cast<U>(a + b); }
template <typename U> inline U sub(U a, U b) { return static_cast<U>(a - b); }
template <typename U> inline U mul(U a, U b) { return static_cast<U>(a * b); }
template <typename U> inline U bit_and(U a, U b) { return a & b; }
template <typename U> inline U bit_or(U a, U b) { return a | b; }
template <typename U> inline U bit_xor(U a, U b) { return a ^ b; }
template <typename U> inline U shl(U a, U b) { return a << (b % (sizeof(U) * 8)); }
template <typename U> inline U shr_u(U a, U b) { return a >> (b % (sizeof(U) * 8)); }
template <typename U> inline U shr_s(U a, U b) {
  return static_cast<U>(static_cast<std::make_signed_t<U>>(a) >> (b % (sizeof(U) * 8)));
}
template <typename U> inline U rotl(U a, U b) { return std::rotl(a, static_cast<int>(b % (sizeof(U) * 8))); }
template <typename U> inline U rotr(U a, U b) { return std::rotr(a, static_cast<int>(b % (sizeof(U) * 8))); }
template <typename U> inline U clz(U a) { return static_cast<U>(std::countl_zero(a)); }
template <typename U> inline U ctz(U a) { return static_cast<U>(std::countr_zero(a)); }
template <typename U> inline U popcnt(U a) { return static_cast<U>(std::popcount(a)); }

// Division: the caller has refused a zero divisor and the overflowing quotient.
template <typename U> inline U div_s(U a, U b) {
  using S = std::make_signed_t<U>;
  return static_cast<U>(static_cast<S>(a) / static_cast<S>(b));
}
template <typename U> inline U div_u(U a, U b) { return a / b; }
template <typename U> inline U rem_s(U a, U b) {
  using S = std::make_signed_t<U>;
  return b == static_cast<U>(-1) ? 0 : static_cast<U>(static_cast<S>(a) % static_cast<S>(b));
}
template <typename U> inline U rem_u(U a, U b) { return a % b; }
template <typename U> inline bool quotient_overflows(U a, U b) {
  return a == static_cast<U>(std::numeric_limits<std::make_signed_t<U>>::min()) && b == static_cast<U>(-1);
}

template <typename U> inline bool eq(U a, U b) { return a == b; }
template <typename U> inline bool ne(U a, U b) { return a != b; }
template <typename U> inline bool lt_u(U a, U b) { return a < b; }
template <typename U> inline bool gt_u(U a, U b) { return a > b; }
template <typename U> inline bool le_u(U a, U b) { return a <= b; }
template <typename U> inline bool ge_u(U a, U b) { return a >= b; }
template <typename U> inline bool lt_s(U a, U b) {
  return static_cast<std::make_signed_t<U>>(a) < static_cast<std::make_signed_t<U>>(b);
}
template <typename U> inline bool gt_s(U a, U b) { return lt_s(b, a); }
template <typename U> inline bool le_s(U a, U b) { return !lt_s(b, a); }
template <typename U> inline bool ge_s(U a, U b) { return !lt_s(a, b); }

// -- floats -----------------------------------------------------------------------

template <typename F> inline F fadd(F a, F b) { return canonical(a + b); }
template <typename F> inline F fsub(F a, F b) { return canonical(a - b); }
template <typename F> inline F fmul(F a, F b) { return canonical(a * b); }
template <typename F> inline F fdiv(F a, F b) { return canonical(a / b); }
template <typename F> inline F fsqrt(F a) { return canonical(std::sqrt(a)); }
template <typename F> inline F fceil(F a) { return canonical(std::ceil(a)); }
template <typename F> inline F ffloor(F a) { return canonical(std::floor(a)); }
template <typename F> inline F ftrunc(F a) { return canonical(std::trunc(a)); }
// Round half to even: the rounding mode is never changed from the default.
template <typename F> inline F fnearest(F a) { return canonical(std::nearbyint(a)); }
template <typename F> inline F fmin(F a, F b) {
  if (a != a || b != b) return canonical_nan<F>();
  if (a == b) return std::signbit(a) ? a : b;  // -0 is less than +0
  return a < b ? a : b;
}
template <typename F> inline F fmax(F a, F b) {
  if (a != a || b != b) return canonical_nan<F>();
  if (a == b) return std::signbit(a) ? b : a;
  return a > b ? a : b;
}
// Sign operations work on bits and keep a NaN's payload.
template <typename F> inline F fabs(F a) {
  if constexpr (sizeof(F) == 4) return std::bit_cast<F>(std::bit_cast<uint32_t>(a) & 0x7FFFFFFFu);
  else return std::bit_cast<F>(std::bit_cast<uint64_t>(a) & 0x7FFFFFFFFFFFFFFFull);
}
template <typename F> inline F fneg(F a) {
  if constexpr (sizeof(F) == 4) return std::bit_cast<F>(std::bit_cast<uint32_t>(a) ^ 0x80000000u);
  else return std::bit_cast<F>(std::bit_cast<uint64_t>(a) ^ 0x8000000000000000ull);
}
template <typename F> inline F fcopysign(F a, F b) {
  if constexpr (sizeof(F) == 4)
    return std::bit_cast<F>((std::bit_cast<uint32_t>(a) & 0x7FFFFFFFu) |
                            (std::bit_cast<uint32_t>(b) & 0x80000000u));
  else
    return std::bit_cast<F>((std::bit_cast<uint64_t>(a) & 0x7FFFFFFFFFFFFFFFull) |
                            (std::bit_cast<uint64_t>(b) & 0x8000000000000000ull));
}

template <typename F> inline bool feq(F a, F b) { return a == b; }
template <typename F> inline bool fne(F a, F b) { return a != b; }
template <typename F> inline bool flt(F a, F b) { return a < b; }
template <typename F> inline bool fgt(F a, F b) { return a > b; }
template <typename F> inline bool fle(F a, F b) { return a <= b; }
template <typename F> inline bool fge(F a, F b) { return a >= b; }

inline double promote(float a) { return canonical(static_cast<double>(a)); }
inline float demote(double a) { return canonical(static_cast<float>(a)); }

// -- float to integer ---------------------------------------------------------------

// The open interval of floats whose truncation fits I. All four bounds are exact.
template <typename I, typename F>
constexpr F above_min() {  // truncates to min() or more when a > above_min, or a >= when exact
  return static_cast<F>(std::numeric_limits<I>::min());
}
template <typename I, typename F>
constexpr F beyond_max() {  // 2^n: the first value too large
  return static_cast<F>((std::numeric_limits<I>::max() >> 1) + 1) * F{2};
}

template <typename I, typename F>
inline bool truncation_fits(F a) {  // false for NaN
  if constexpr (std::is_unsigned_v<I>) return a > F{-1} && a < beyond_max<I, F>();
  // min - 1 is a value of F only when F has more bits than I: i32 from f64.
  else if constexpr (sizeof(I) == 4 && sizeof(F) == 8)
    return a > above_min<I, F>() - F{1} && a < beyond_max<I, F>();
  else return a >= above_min<I, F>() && a < beyond_max<I, F>();
}

template <typename I, typename F>
inline I trunc_sat(F a) {
  if (truncation_fits<I>(a)) return static_cast<I>(a);
  if (a != a) return 0;
  return a < F{0} ? std::numeric_limits<I>::min() : std::numeric_limits<I>::max();
}

}  // namespace membrane::engine::numeric
