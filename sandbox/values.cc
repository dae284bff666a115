#include "sandbox/values.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <optional>

namespace membrane::sandbox {
namespace {

using wasm::ValType;

// An integer of 32 or 64 bits, written as signed or as unsigned.
std::optional<uint64_t> parse_integer(std::string_view text, unsigned bits) {
  std::string digits;
  std::remove_copy(text.begin(), text.end(), std::back_inserter(digits), '_');
  std::string_view rest = digits;
  const bool negative = rest.starts_with('-');
  if (negative || rest.starts_with('+')) rest.remove_prefix(1);
  const int base = rest.starts_with("0x") || rest.starts_with("0X") ? 16 : 10;
  if (base == 16) rest.remove_prefix(2);
  uint64_t magnitude = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), magnitude, base);
  if (rest.empty() || error != std::errc() || end != rest.data() + rest.size()) return std::nullopt;
  const uint64_t largest = bits == 64 ? UINT64_MAX : UINT32_MAX;
  if (magnitude > (negative ? largest / 2 + 1 : largest)) return std::nullopt;
  return (negative ? uint64_t{0} - magnitude : magnitude) & largest;
}

template <typename F>
std::optional<F> parse_float(std::string_view text) {
  F value{};
  const bool negative = text.starts_with('-');
  if (text.starts_with('+')) text.remove_prefix(1);
  const std::string_view magnitude = negative ? text.substr(1) : text;
  const bool hex = magnitude.starts_with("0x") || magnitude.starts_with("0X");
  const std::string_view digits = hex ? magnitude.substr(2) : magnitude;
  if (digits.starts_with('-') || digits.starts_with('+')) return std::nullopt;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value,
                                            hex ? std::chars_format::hex : std::chars_format::general);
  if (digits.empty() || error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return negative ? -value : value;
}

template <typename F>
std::string show_float(F value, uint64_t bits, uint64_t canonical_nan, uint64_t payload_mask) {
  const bool negative = std::signbit(value);
  if (std::isnan(value)) {
    if (bits == canonical_nan) return "nan";
    char payload[24];
    const auto end = std::to_chars(payload, payload + sizeof payload, bits & payload_mask, 16).ptr;
    return std::string(negative ? "-" : "") + "nan:0x" + std::string(payload, end);
  }
  if (std::isinf(value)) return negative ? "-inf" : "inf";
  char text[64];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

}  // namespace

Result<engine::Value> parse_value(ValType type, std::string_view text) {
  std::optional<uint64_t> bits;
  switch (type) {
    case ValType::kI32: bits = parse_integer(text, 32); break;
    case ValType::kI64: bits = parse_integer(text, 64); break;
    case ValType::kF32:
      if (const auto f = parse_float<float>(text)) bits = engine::Value::f32(*f).bits;
      break;
    case ValType::kF64:
      if (const auto f = parse_float<double>(text)) bits = engine::Value::f64(*f).bits;
      break;
    default:
      if (text == "null" && wasm::is_ref(type) && wasm::is_nullable(type)) bits = 0;
      break;
  }
  if (!bits)
    return fail(
        ErrorCode::kInvalidArgument,
        "\"" + std::string(text) + "\" is not a value of type " + std::string(wasm::name_of(type)),
        "Write integers like 42, -1 or 0xff, and floats like 1.5, -2e10 or inf, within the type's range.");
  return engine::Value{type, *bits, 0};
}

ReportValue show_value(const engine::Value& value) {
  ReportValue shown{std::string(wasm::name_of(value.type)), {}, value.bits};
  switch (value.type) {
    case ValType::kI32: shown.value = std::to_string(static_cast<int32_t>(value.bits)); break;
    case ValType::kI64: shown.value = std::to_string(static_cast<int64_t>(value.bits)); break;
    case ValType::kF32:
      shown.value = show_float(std::bit_cast<float>(static_cast<uint32_t>(value.bits)), value.bits,
                               0x7FC00000, 0x7FFFFF);
      break;
    case ValType::kF64:
      shown.value =
          show_float(std::bit_cast<double>(value.bits), value.bits, 0x7FF8000000000000, 0xFFFFFFFFFFFFF);
      break;
    case ValType::kV128: {
      char text[40] = "0x";
      char* at = text + 2;
      for (const uint64_t half : {value.high_bits, value.bits})
        for (int shift = 60; shift >= 0; shift -= 4) *at++ = "0123456789abcdef"[half >> shift & 15];
      shown.value.assign(text, at);
      break;
    }
    default: shown.value = value.bits == 0 ? "null" : "ref"; break;
  }
  return shown;
}

}  // namespace membrane::sandbox
