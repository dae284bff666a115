#include "host/numbers.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace membrane::host {
namespace {

constexpr std::string_view kWhiteSpace = " \t\n\r\f\v";

template <typename Number>
HostResult<Number> parse(std::string_view text, std::string_view kind) {
  std::string_view digits = trimmed(text);
  if (digits.starts_with('+')) {
    digits.remove_prefix(1);
    if (digits.starts_with('-')) digits = "";  // from_chars would accept the second sign
  }
  Number value{};
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const std::string shown = '\'' + std::string(text.substr(0, 40)) + '\'';
  if (error == std::errc::result_out_of_range)
    return refuse(Errno::kInvalid, shown + " is out of the range of " + std::string(kind));
  if (error != std::errc() || end != digits.data() + digits.size() || digits.empty())
    return refuse(Errno::kInvalid, shown + " is not a number of type " + std::string(kind));
  return value;
}

}  // namespace

std::string decimal_of(double value) {
  if (std::isnan(value)) return "nan";
  std::array<char, 32> buffer;
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return {buffer.data(), end};
}

std::string decimal_of(double value, int decimals) {
  if (std::isnan(value)) return "nan";
  std::array<char, 400> buffer;  // the largest double has 309 digits
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                          std::chars_format::fixed, std::clamp(decimals, 0, 20));
  return {buffer.data(), end};
}

HostResult<int32_t> parse_i32(std::string_view text) { return parse<int32_t>(text, "i32"); }
HostResult<int64_t> parse_i64(std::string_view text) { return parse<int64_t>(text, "i64"); }
HostResult<double> parse_f64(std::string_view text) { return parse<double>(text, "f64"); }

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(kWhiteSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kWhiteSpace) - first + 1);
}

}  // namespace membrane::host
