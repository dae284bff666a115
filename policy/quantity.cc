#include "policy/quantity.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <span>

#include "base/text.h"

namespace membrane::policy {
namespace {

__extension__ using Uint128 = unsigned __int128;

struct Unit {
  std::string_view name;
  uint64_t factor;
};

// K, M, G and T are powers of 1024, as in other tools that limit programs.
constexpr std::array<Unit, 14> kSizes{{{"B", 1},
                                       {"KiB", 1ull << 10},
                                       {"MiB", 1ull << 20},
                                       {"GiB", 1ull << 30},
                                       {"TiB", 1ull << 40},
                                       {"kB", 1'000},
                                       {"KB", 1'000},
                                       {"MB", 1'000'000},
                                       {"GB", 1'000'000'000},
                                       {"TB", 1'000'000'000'000},
                                       {"K", 1ull << 10},
                                       {"M", 1ull << 20},
                                       {"G", 1ull << 30},
                                       {"T", 1ull << 40}}};
// The last two are parsed but never written: policies identified by their hash do not have them.
constexpr std::array<Unit, 6> kDurations{
    {{"ms", 1}, {"s", 1'000}, {"min", 60'000}, {"h", 3'600'000}, {"m", 60'000}, {"d", 86'400'000}}};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::unexpected<Error> malformed(std::string_view text, std::string_view why, std::string_view forms) {
  return fail(ErrorCode::kInvalidArgument, "\"" + std::string(text) + "\" " + std::string(why),
              "write " + std::string(forms));
}

// A decimal number, exactly: digits × 10^exponent.
struct Decimal {
  uint64_t digits = 0;
  int exponent = 0;
  std::string_view rest;  // the text after the number
};

// Reads digits, optionally separated by "_"; false when there are none or they overflow.
bool read_digits(std::string_view& text, uint64_t& value, int* count) {
  size_t i = 0;
  bool any = false;
  for (; i < text.size(); ++i) {
    const bool separator = text[i] == '_' && any && i + 1 < text.size() && is_digit(text[i + 1]);
    if (separator) continue;
    if (!is_digit(text[i])) break;
    if (__builtin_mul_overflow(value, 10u, &value)) return false;
    if (__builtin_add_overflow(value, static_cast<uint64_t>(text[i] - '0'), &value)) return false;
    any = true;
    if (count != nullptr) ++*count;
  }
  text.remove_prefix(i);
  return any;
}

bool read_decimal(std::string_view text, Decimal& out) {
  if (!read_digits(text, out.digits, nullptr)) return false;
  if (text.size() > 1 && text[0] == '.' && is_digit(text[1])) {
    text.remove_prefix(1);
    int places = 0;
    if (!read_digits(text, out.digits, &places)) return false;
    out.exponent = -places;
  }
  const bool exponent = !text.empty() && (text[0] == 'e' || text[0] == 'E');
  if (exponent) {
    text.remove_prefix(1);
    const bool negative = !text.empty() && text[0] == '-';
    if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
    uint64_t power = 0;
    if (!read_digits(text, power, nullptr) || power > 40) return false;
    out.exponent += negative ? -static_cast<int>(power) : static_cast<int>(power);
  }
  out.rest = text;
  return true;
}

// digits × 10^exponent × factor as a whole 64-bit number, or false.
bool scale(const Decimal& number, uint64_t factor, uint64_t& out) {
  Uint128 value = static_cast<Uint128>(number.digits) * factor;
  for (int i = number.exponent; i > 0 && value != 0; --i) {
    value *= 10;
    if (value > UINT64_MAX) return false;
  }
  for (int i = number.exponent; i < 0 && value != 0; ++i) {
    if (value % 10 != 0) return false;
    value /= 10;
  }
  out = static_cast<uint64_t>(value);
  return value <= UINT64_MAX;
}

// "mib" is "MiB".
bool is_same_word(std::string_view one, std::string_view other) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return std::ranges::equal(one, other, {}, lower, lower);
}

Result<uint64_t> parse_with_units(std::string_view text, std::span<const Unit> units, bool bare_allowed,
                                  std::string_view forms) {
  Decimal number;
  if (!read_decimal(text, number)) return malformed(text, "is not an amount.", forms);
  std::string_view unit = number.rest;
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  uint64_t factor = 1;
  if (unit.empty()) {
    if (!bare_allowed) return malformed(text, "has no unit.", forms);
  } else {
    const auto find = [&](auto is_it) {
      return std::find_if(units.data(), units.data() + units.size(), is_it);
    };
    const auto* found = find([unit](const Unit& u) { return u.name == unit; });
    if (found == units.data() + units.size())
      found = find([unit](const Unit& u) { return is_same_word(u.name, unit); });
    if (found == units.data() + units.size()) return malformed(text, "has an unknown unit.", forms);
    factor = found->factor;
  }
  uint64_t value = 0;
  if (!scale(number, factor, value))
    return malformed(text, "is not a whole number that fits in 64 bits.", forms);
  return value;
}

std::string format_with(uint64_t value, std::span<const Unit> units) {
  const Unit* best = units.data();
  for (const Unit& unit : units)
    if (value != 0 && value % unit.factor == 0 && unit.factor > best->factor) best = &unit;
  return std::to_string(value / best->factor) + " " + std::string(best->name);
}

}  // namespace

Result<uint64_t> parse_count(std::string_view text) {
  return parse_with_units(text, {}, true, "a whole number, such as 1000, 50_000_000 or 2e9");
}

Result<uint64_t> parse_size_bytes(std::string_view text) {
  return parse_with_units(text, kSizes, true,
                          "a size, such as \"64 MiB\", \"512 KiB\", \"10 MB\" or a number of bytes");
}

Result<uint64_t> parse_duration_ms(std::string_view text) {
  auto whole = parse_with_units(text, kDurations, false,
                                "a duration, such as \"10 s\", \"500 ms\", \"2 min\", \"1 h\" or \"1h30m\"");
  if (whole) return whole;
  // Several, such as 1h30m: each is a number followed by letters.
  uint64_t sum = 0;
  for (std::string_view rest = text; !rest.empty();) {
    const size_t letters = rest.find_first_not_of("0123456789");
    const size_t end = letters == rest.npos ? rest.npos : rest.find_first_of("0123456789", letters);
    const auto part = parse_with_units(rest.substr(0, end), kDurations, false, "");
    if (!part || __builtin_add_overflow(sum, *part, &sum)) return whole;
    rest.remove_prefix(std::min(end, rest.size()));
  }
  return text.empty() ? whole : sum;
}

Result<uint64_t> parse_quantity(Quantity kind, std::string_view text) {
  if (kind == Quantity::kSize) return parse_size_bytes(text);
  return kind == Quantity::kDuration ? parse_duration_ms(text) : parse_count(text);
}

std::string format_size(uint64_t bytes) { return format_with(bytes, std::span(kSizes).first(5)); }
std::string format_duration(uint64_t ms) { return format_with(ms, std::span(kDurations).first(4)); }

std::string format_count(uint64_t count) {
  std::string out = std::to_string(count);
  for (size_t i = out.size(); i > 3; i -= 3) out.insert(i - 3, ",");
  return out;
}

std::string format_count(uint64_t count, std::string_view noun) {
  const std::string plain = count_of(count, noun);
  return format_count(count) + plain.substr(plain.find(' '));
}

std::string format_quantity(Quantity kind, uint64_t value) {
  if (kind == Quantity::kSize) return format_size(value);
  return kind == Quantity::kDuration ? format_duration(value) : format_count(value);
}

Result<int64_t> parse_time_ms(std::string_view text) {
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0, ms = 0;
  const auto number = [text](size_t at, size_t length, int& out) {
    for (const char c : text.substr(at, length)) {
      if (!is_digit(c)) return false;
      out = out * 10 + (c - '0');
    }
    return true;
  };
  const bool with_ms = text.size() == 24;
  const std::string_view shape = with_ms ? "    -  -  T  :  :  .   Z" : "    -  -  T  :  :  Z";
  bool good = text.size() == shape.size();
  for (size_t i = 0; good && i < shape.size(); ++i) good = shape[i] == ' ' || shape[i] == text[i];
  good = good && number(0, 4, year) && number(5, 2, month) && number(8, 2, day) && number(11, 2, hour) &&
         number(14, 2, minute) && number(17, 2, second) && (!with_ms || number(20, 3, ms));
  using namespace std::chrono;
  const year_month_day date{std::chrono::year(year), std::chrono::month(static_cast<unsigned>(month)),
                            std::chrono::day(static_cast<unsigned>(day))};
  if (!good || !date.ok() || hour > 23 || minute > 59 || second > 59)
    return malformed(text, "is not a time.", "it in UTC, as \"2000-01-01T00:00:00Z\"");
  const int64_t days = sys_days(date).time_since_epoch().count();
  return ((days * 24 + hour) * 60 + minute) * 60'000 + second * int64_t{1'000} + ms;
}

std::string format_time(int64_t ms) {
  using namespace std::chrono;
  const sys_time<milliseconds> time{milliseconds(ms)};
  const auto day = floor<days>(time);
  const year_month_day date{day};
  const hh_mm_ss clock{time - day};
  char text[64];
  const auto part = [](auto value) { return static_cast<int>(value.count()); };
  int length =
      std::snprintf(text, sizeof text, "%04d-%02u-%02uT%02d:%02d:%02d", static_cast<int>(date.year()),
                    static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                    part(clock.hours()), part(clock.minutes()), part(clock.seconds()));
  std::string out(text, static_cast<size_t>(length));
  if (clock.subseconds().count() != 0) {
    length = std::snprintf(text, sizeof text, ".%03d", part(clock.subseconds()));
    out.append(text, static_cast<size_t>(length));
  }
  return out + "Z";
}

}  // namespace membrane::policy
