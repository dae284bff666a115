// time: the run's clock, and instants as text (ISO 8601).
#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <optional>

#include "host/call.h"
#include "host/capabilities/all.h"
#include "host/numbers.h"

namespace membrane::host {
namespace {

namespace chrono = std::chrono;
using Millis = chrono::sys_time<chrono::milliseconds>;

constexpr Millis kFirst{chrono::sys_days{chrono::year{0} / 1 / 1}};
constexpr Millis kEnd{chrono::sys_days{chrono::year{10'000} / 1 / 1}};

HostResult<Value> now_ms(Call& call) { return call.broker.clock_ms(); }

HostResult<Value> format(Call& call) {
  const Millis instant{chrono::milliseconds(call.i64(0))};
  if (instant < kFirst || instant >= kEnd)
    return refuse(Errno::kInvalid, "the instant is not in the years 0 to 9999");
  const auto day = chrono::floor<chrono::days>(instant);
  const chrono::year_month_day date{day};
  const chrono::hh_mm_ss time{instant - day};
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%04d-%02u-%02uT%02d:%02d:%02d.%03dZ",
                static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                static_cast<unsigned>(date.day()), static_cast<int>(time.hours().count()),
                static_cast<int>(time.minutes().count()), static_cast<int>(time.seconds().count()),
                static_cast<int>(time.subseconds().count()));
  return std::string(text.data());
}

// Reads fixed-width fields from the start of a text.
class Fields {
 public:
  explicit Fields(std::string_view text) : rest_(text) {}

  [[nodiscard]] bool done() const { return rest_.empty(); }
  bool skip(std::string_view any_of) {
    if (rest_.empty() || any_of.find(rest_[0]) == std::string_view::npos) return false;
    rest_.remove_prefix(1);
    return true;
  }
  // Exactly `digits` digits of a number up to `max`.
  bool number(size_t digits, int max, int& value) {
    if (rest_.size() < digits) return false;
    const char* end = rest_.data() + digits;
    if (rest_[0] == '-' || std::from_chars(rest_.data(), end, value).ptr != end || value > max) return false;
    rest_.remove_prefix(digits);
    return true;
  }
  // The digits of a fraction of a second, in ms; digits after the third are dropped.
  bool fraction_ms(int& ms) {
    size_t count = 0;
    ms = 0;
    for (; !rest_.empty() && rest_[0] >= '0' && rest_[0] <= '9'; ++count, rest_.remove_prefix(1)) {
      if (count < 3) ms = ms * 10 + (rest_[0] - '0');
    }
    for (size_t i = count; i < 3; ++i) ms *= 10;
    return count > 0;
  }
  [[nodiscard]] char front() const { return rest_.empty() ? '\0' : rest_[0]; }

 private:
  std::string_view rest_;
};

bool read_time(Fields& fields, chrono::milliseconds& of_day) {
  int hour = 0, minute = 0, second = 0, ms = 0;
  if (!fields.number(2, 23, hour) || !fields.skip(":") || !fields.number(2, 59, minute)) return false;
  if (fields.skip(":") && !fields.number(2, 59, second)) return false;
  if (fields.skip(".,") && !fields.fraction_ms(ms)) return false;
  of_day = chrono::hours(hour) + chrono::minutes(minute) + chrono::seconds(second) + chrono::milliseconds(ms);
  return true;
}

bool read_offset(Fields& fields, chrono::minutes& offset) {
  if (fields.done() || fields.skip("Zz")) return true;
  const int sign = fields.front() == '-' ? -1 : 1;
  int hours = 0, minutes = 0;
  if (!fields.skip("+-") || !fields.number(2, 23, hours)) return false;
  fields.skip(":");
  if (!fields.done() && !fields.number(2, 59, minutes)) return false;
  offset = sign * (chrono::hours(hours) + chrono::minutes(minutes));
  return true;
}

std::optional<Millis> read_instant(std::string_view text) {
  Fields fields(trimmed(text));
  int year = 0, month = 0, day = 0;
  if (!fields.number(4, 9999, year) || !fields.skip("-") || !fields.number(2, 12, month) ||
      !fields.skip("-") || !fields.number(2, 31, day))
    return std::nullopt;
  const chrono::year_month_day date{chrono::year(year), chrono::month(static_cast<unsigned>(month)),
                                    chrono::day(static_cast<unsigned>(day))};
  if (!date.ok()) return std::nullopt;
  chrono::milliseconds of_day{0};
  chrono::minutes offset{0};
  if (fields.skip("Tt ") && (!read_time(fields, of_day) || !read_offset(fields, offset))) return std::nullopt;
  if (!fields.done()) return std::nullopt;
  return Millis(chrono::sys_days{date}) + of_day - offset;
}

HostResult<Value> parse(Call& call) {
  const auto instant = read_instant(call.text(0));
  if (!instant)
    return refuse(Errno::kInvalid,
                  "'" + std::string(call.text(0).substr(0, 40)) + "' is not an ISO 8601 date or time");
  return static_cast<int64_t>(instant->time_since_epoch().count());
}

constexpr FunctionSpec kFunctions[] = {
    {.module = "time",
     .name = "now_ms",
     .result = Type::kI64,
     .result_name = "ms",
     .can_fail = true,
     .effect = Effect::kWorld,
     .cost = {.base = 50, .per_byte = 1},
     .summary = "Milliseconds since 1970-01-01T00:00:00Z.",
     .details = "The clock is virtual unless the policy grants the real one: it starts at the policy's "
                "instant (2000-01-01T00:00:00Z) "
                "and moves on by 1 ms at each call.",
     .example = "(call $io.print (call $time.format! (call $time.now_ms!)))",
     .prints = "2000-01-01T00:00:00.000Z",
     .handler = now_ms},
    {.module = "time",
     .name = "format",
     .params = {{"ms", Type::kI64}},
     .result = Type::kText,
     .result_name = "text",
     .can_fail = true,
     .summary = "An instant as text in UTC: 2000-01-01T00:00:00.000Z. Years 0 to 9999, else EINVAL.",
     .failures = {{Errno::kInvalid, "the instant is not in the years 0 to 9999"}},
     .example = "(call $io.print (call $time.format! (i64.const 86400000)))",
     .prints = "1970-01-02T00:00:00.000Z",
     .handler = format},
    {.module = "time",
     .name = "parse",
     .params = {{"text", Type::kText}},
     .result = Type::kI64,
     .result_name = "ms",
     .can_fail = true,
     .summary = "The instant of a date (2024-02-29) or a time (2024-02-29T12:30:00Z, +02:00, fractions, a "
                "space for T); UTC without an offset; EINVAL for anything else.",
     .details = "Seconds may be left out. Digits of the fraction past the third are dropped.",
     .failures = {{Errno::kInvalid, "the text is no such date or time, or the day does not exist"}},
     .example = R"((call $io.print_i64 (call $time.parse! (string "1970-01-02"))))",
     .prints = "86400000",
     .handler = parse},
};

}  // namespace

std::span<const FunctionSpec> time_functions() { return kFunctions; }

}  // namespace membrane::host
