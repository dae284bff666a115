#include "wasm/text/numbers.h"

#include <bit>
#include <charconv>
#include <system_error>

namespace membrane::wasm {
namespace {

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return 16;
}

// Skips digits with single underscores between them; false when there are none.
bool skip_digits(std::string_view& word, int base) {
  size_t i = 0;
  bool wants_digit = true;
  while (i < word.size()) {
    if (digit_of(word[i]) < base) {
      wants_digit = false;
    } else if (word[i] == '_' && !wants_digit) {
      wants_digit = true;
    } else {
      break;
    }
    ++i;
  }
  word.remove_prefix(i);
  return !wants_digit;
}

bool skip_sign(std::string_view& word) {
  if (word.empty() || (word[0] != '+' && word[0] != '-')) return false;
  const bool negative = word[0] == '-';
  word.remove_prefix(1);
  return negative;
}

bool skip_prefix(std::string_view& word, std::string_view prefix) {
  if (!word.starts_with(prefix)) return false;
  word.remove_prefix(prefix.size());
  return true;
}

// Adds digits (and underscores) to `value`; false when they pass `limit`.
bool accumulate(std::string_view digits, unsigned base, uint64_t limit, uint64_t& value) {
  for (const char c : digits) {
    if (c == '_') continue;
    const auto digit = static_cast<uint64_t>(digit_of(c));
    if (value > (limit - digit) / base) return false;
    value = value * base + digit;
  }
  return true;
}

uint64_t mask_of(unsigned bits) { return bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1; }

Number<uint64_t> malformed() { return {0, NumberError::kMalformed, false}; }
Number<uint64_t> out_of_range() { return {0, NumberError::kOutOfRange, false}; }
Number<uint64_t> number(uint64_t value) { return {value, NumberError::kMalformed, true}; }

Number<uint64_t> parse_magnitude(std::string_view word, uint64_t limit) {
  const unsigned base = skip_prefix(word, "0x") ? 16 : 10;
  std::string_view rest = word;
  if (!skip_digits(rest, static_cast<int>(base)) || !rest.empty()) return malformed();
  uint64_t value = 0;
  return accumulate(word, base, limit, value) ? number(value) : out_of_range();
}

// Of a binary floating-point format.
struct Format {
  unsigned mantissa_bits;  // stored
  int bias;
  [[nodiscard]] unsigned exponent_bits() const { return mantissa_bits == 23 ? 8 : 11; }
  [[nodiscard]] uint64_t infinity() const { return mask_of(exponent_bits()) << mantissa_bits; }
  [[nodiscard]] uint64_t sign() const { return uint64_t{1} << (mantissa_bits + exponent_bits()); }
};
constexpr Format kF32{23, 127};
constexpr Format kF64{52, 1023};

// significand * 2^exponent (plus a little when `sticky`), rounded to nearest, ties to even.
Number<uint64_t> round_binary(uint64_t significand, int64_t exponent, bool sticky, const Format& format) {
  if (significand == 0) return number(0);
  const int shift_up = std::countl_zero(significand);
  significand <<= shift_up;
  exponent -= shift_up;
  // The value is 1.xxx * 2^(exponent + 63).
  int64_t biased = exponent + 63 + format.bias;
  if (biased >= static_cast<int64_t>(mask_of(format.exponent_bits()))) return out_of_range();
  unsigned drop = 63 - format.mantissa_bits;  // bits below the mantissa
  if (biased < 1) {                           // subnormal: the leading one moves into the mantissa
    if (biased < -static_cast<int64_t>(format.mantissa_bits)) return number(0);  // below half of the least
    drop += static_cast<unsigned>(1 - biased);
    biased = 0;
  }
  uint64_t kept = drop >= 64 ? 0 : significand >> drop;
  const uint64_t half = uint64_t{1} << (drop - 1);
  const uint64_t below = drop >= 64 ? significand : significand & mask_of(drop);
  const bool up = below > half || (below == half && (sticky || (kept & 1)));
  kept += up ? 1 : 0;  // a carry runs into the exponent, as it should
  const uint64_t bits =
      biased == 0 ? kept : ((static_cast<uint64_t>(biased) - 1) << format.mantissa_bits) + kept;
  return bits >= format.infinity() ? out_of_range() : number(bits);
}

// `digits` is everything after "0x"; the grammar has been checked.
Number<uint64_t> parse_hex_float(std::string_view digits, const Format& format) {
  uint64_t significand = 0;
  int64_t exponent = 0;
  bool sticky = false;
  bool in_fraction = false;
  size_t i = 0;
  for (; i < digits.size() && digits[i] != 'p' && digits[i] != 'P'; ++i) {
    if (digits[i] == '_') continue;
    if (digits[i] == '.') {
      in_fraction = true;
    } else if (significand >> 60 == 0) {
      significand = significand * 16 + static_cast<uint64_t>(digit_of(digits[i]));
      exponent -= in_fraction ? 4 : 0;
    } else {
      sticky |= digits[i] != '0';
      exponent += in_fraction ? 0 : 4;
    }
  }
  if (i < digits.size()) {
    std::string_view word = digits.substr(i + 1);
    const bool negative = skip_sign(word);
    constexpr uint64_t kHuge = uint64_t{1} << 40;  // beyond any text's digits
    uint64_t magnitude = 0;
    if (!accumulate(word, 10, kHuge, magnitude)) magnitude = kHuge;
    exponent += negative ? -static_cast<int64_t>(magnitude) : static_cast<int64_t>(magnitude);
  }
  return round_binary(significand, exponent, sticky, format);
}

// Whether the value of a decimal literal is below one: tells underflow from overflow.
bool is_below_one(std::string_view digits) {
  int64_t exponent = 0;  // of ten, of the first digit that is not zero
  bool seen = false, in_fraction = false;
  size_t i = 0;
  for (; i < digits.size() && digits[i] != 'e' && digits[i] != 'E'; ++i) {
    if (digits[i] == '.') {
      in_fraction = true;
      continue;
    }
    if (digits[i] != '0' && !seen) {
      seen = true;
      exponent = in_fraction ? exponent - 1 : 0;
    } else if (!seen) {
      exponent -= in_fraction ? 1 : 0;
    } else if (!in_fraction) {
      ++exponent;
    }
  }
  if (i < digits.size()) {
    std::string_view word = digits.substr(i + 1);
    const bool negative = skip_sign(word);
    uint64_t magnitude = 0;
    constexpr uint64_t kHuge = uint64_t{1} << 40;
    if (!accumulate(word, 10, kHuge, magnitude)) magnitude = kHuge;
    exponent += negative ? -static_cast<int64_t>(magnitude) : static_cast<int64_t>(magnitude);
  }
  return exponent < 0;
}

template <typename Float>
Number<uint64_t> parse_decimal_float(std::string_view word) {
  std::string clean;
  if (word.find('_') != std::string_view::npos) {
    for (const char c : word)
      if (c != '_') clean.push_back(c);
    word = clean;
  }
  Float value = 0;
  const auto result = std::from_chars(word.data(), word.data() + word.size(), value);
  if (result.ec == std::errc::result_out_of_range) return is_below_one(word) ? number(0) : out_of_range();
  using Bits = std::conditional_t<sizeof(Float) == 4, uint32_t, uint64_t>;
  const uint64_t bits = std::bit_cast<Bits>(value);
  const Format& format = sizeof(Float) == 4 ? kF32 : kF64;
  return bits >= format.infinity() ? out_of_range() : number(bits);
}

template <typename Float>
Number<uint64_t> parse_float(std::string_view word, const Format& format) {
  if (classify_number(word) == NumberKind::kNone) return malformed();
  const bool negative = skip_sign(word);
  Number<uint64_t> result;
  if (word == "inf") {
    result = number(format.infinity());
  } else if (skip_prefix(word, "nan:0x")) {
    uint64_t payload = 0;
    const bool fits = accumulate(word, 16, mask_of(format.mantissa_bits), payload);
    result = fits && payload != 0 ? number(format.infinity() | payload) : out_of_range();
  } else if (word == "nan") {
    result = number(format.infinity() | uint64_t{1} << (format.mantissa_bits - 1));
  } else if (skip_prefix(word, "0x")) {
    result = parse_hex_float(word, format);
  } else {
    result = parse_decimal_float<Float>(word);
  }
  if (result.ok && negative) result.value |= format.sign();
  return result;
}

std::string print_float(uint64_t bits, const Format& format) {
  std::string out = bits & format.sign() ? "-" : "";
  const uint64_t mantissa = bits & mask_of(format.mantissa_bits);
  const auto biased = static_cast<int>((bits & ~format.sign()) >> format.mantissa_bits);
  const auto hex = [](uint64_t value) {
    char digits[16];
    const auto end = std::to_chars(digits, digits + sizeof digits, value, 16).ptr;
    return std::string(digits, end);
  };
  if ((bits & format.infinity()) == format.infinity()) {
    if (mantissa == 0) return out + "inf";
    if (mantissa == uint64_t{1} << (format.mantissa_bits - 1)) return out + "nan";
    return out + "nan:0x" + hex(mantissa);
  }
  if (biased == 0 && mantissa == 0) return out + "0x0p+0";
  const unsigned pad = (4 - format.mantissa_bits % 4) % 4;  // fraction digits end on a nibble
  const size_t digits = (format.mantissa_bits + pad) / 4;
  std::string fraction = hex(mantissa << pad);
  fraction.insert(0, digits - fraction.size(), '0');
  while (!fraction.empty() && fraction.back() == '0') fraction.pop_back();
  const int exponent = biased == 0 ? 1 - format.bias : biased - format.bias;
  out += biased == 0 ? "0x0" : "0x1";
  if (!fraction.empty()) out += "." + fraction;
  return out + "p" + (exponent < 0 ? "" : "+") + std::to_string(exponent);
}

}  // namespace

NumberKind classify_number(std::string_view word) {
  skip_sign(word);
  if (word == "nan" || word == "inf") return NumberKind::kFloat;
  if (skip_prefix(word, "nan:0x"))
    return skip_digits(word, 16) && word.empty() ? NumberKind::kFloat : NumberKind::kNone;
  const int base = skip_prefix(word, "0x") ? 16 : 10;
  if (!skip_digits(word, base)) return NumberKind::kNone;
  if (word.empty()) return NumberKind::kInteger;
  if (skip_prefix(word, ".") && !word.empty() && digit_of(word[0]) < base && !skip_digits(word, base))
    return NumberKind::kNone;
  if (word.empty()) return NumberKind::kFloat;
  const char exponent = base == 16 ? 'p' : 'e';
  if ((word[0] | 0x20) != exponent) return NumberKind::kNone;
  word.remove_prefix(1);
  skip_sign(word);
  return skip_digits(word, 10) && word.empty() ? NumberKind::kFloat : NumberKind::kNone;
}

Number<uint64_t> parse_integer(std::string_view word, unsigned bits) {
  const bool negative = skip_sign(word);
  const uint64_t half = uint64_t{1} << (bits - 1);
  Number<uint64_t> result = parse_magnitude(word, negative ? half : mask_of(bits));
  if (result.ok && negative) result.value = (~result.value + 1) & mask_of(bits);
  return result;
}

Number<uint64_t> parse_unsigned(std::string_view word, unsigned bits) {
  return parse_magnitude(word, mask_of(bits));
}

Number<uint32_t> parse_f32(std::string_view word) {
  const auto wide = parse_float<float>(word, kF32);
  return {static_cast<uint32_t>(wide.value), wide.error, wide.ok};
}
Number<uint64_t> parse_f64(std::string_view word) { return parse_float<double>(word, kF64); }

std::string print_f32(uint32_t bits) { return print_float(bits, kF32); }
std::string print_f64(uint64_t bits) { return print_float(bits, kF64); }

}  // namespace membrane::wasm
