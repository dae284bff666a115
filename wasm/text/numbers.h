// Number literals of the text format (WebAssembly 2.0, chapter 6.3.1 and 6.3.2).
//
// Threads: pure functions, independent of the locale.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace membrane::wasm {

enum class NumberKind : uint8_t { kNone, kInteger, kFloat };

// What number grammar the whole of `word` matches; an integer is not reported as a float.
// The words "nan", "inf" and "nan:0x…" are floats with or without a sign.
NumberKind classify_number(std::string_view word);

enum class NumberError : uint8_t {
  kMalformed,   // not a literal of this type
  kOutOfRange,  // a literal of the type, whose value it cannot hold
};

// A value, or the reason why there is none; `ok` says which.
template <typename T>
struct Number {
  T value{};
  NumberError error = NumberError::kMalformed;
  bool ok = false;
};

// An integer literal of `bits` (8, 16, 32, 64) bits: -2^(bits-1) … 2^bits-1, as two's complement
// in the low bits.
Number<uint64_t> parse_integer(std::string_view word, unsigned bits);
// An unsigned literal without a sign, as indices, offsets and limits are.
Number<uint64_t> parse_unsigned(std::string_view word, unsigned bits);

// A float literal (or an integer literal, or nan, inf, nan:0x…) as IEEE 754 bits, rounded to
// nearest, ties to even. A value that rounds to infinity is out of range.
Number<uint32_t> parse_f32(std::string_view word);
Number<uint64_t> parse_f64(std::string_view word);

// The literal that gives exactly these bits: hex floats, "nan", "-nan:0x200001", "inf".
std::string print_f32(uint32_t bits);
std::string print_f64(uint64_t bits);

}  // namespace membrane::wasm
