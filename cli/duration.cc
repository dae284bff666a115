#include "cli/duration.h"

#include <algorithm>
#include <string>
#include <utility>

#include "policy/quantity.h"

namespace membrane::cli {
namespace {

bool is_of_number(char c) { return (c >= '0' && c <= '9') || c == '.'; }
bool is_of_unit(char c) { return c >= 'a' && c <= 'z'; }

std::unexpected<Error> no_duration(std::string_view text, const char* why) {
  return fail(ErrorCode::kInvalidArgument, "\"" + std::string(text) + "\" " + why,
              "Write it with its unit, as 500ms, 30s, 10m, 1h, 2d, or several together, as 1h30m.");
}

// Parses "10m" as the policy's durations do: "10min". Those have no days.
Result<uint64_t> piece_ms(std::string_view number, std::string_view unit) {
  const bool is_days = unit == "d";
  const std::string_view as = is_days ? "h" : unit == "m" ? "min" : unit;
  MEMBRANE_ASSIGN(const uint64_t ms, policy::parse_duration_ms(std::string(number) + std::string(as)));
  constexpr uint64_t kHours = 24;
  if (is_days && ms > UINT64_MAX / kHours) return fail(ErrorCode::kInvalidArgument, "it is too long");
  return is_days ? ms * kHours : ms;
}

}  // namespace

Result<uint64_t> duration_ms(std::string_view text) {
  uint64_t whole = 0;
  std::string_view rest = text;
  do {
    const auto number = static_cast<size_t>(std::ranges::find_if_not(rest, is_of_number) - rest.begin());
    const std::string_view behind = rest.substr(number);
    const auto unit = static_cast<size_t>(std::ranges::find_if_not(behind, is_of_unit) - behind.begin());
    if (number == 0 || (unit == 0 && number != rest.size())) return no_duration(text, "is not a duration");
    if (unit == 0) return no_duration(text, "has no unit");
    const auto ms = piece_ms(rest.substr(0, number), behind.substr(0, unit));
    if (!ms) return no_duration(text, "is not a duration");
    if (whole > UINT64_MAX - *ms) return no_duration(text, "is too long");
    whole += *ms;
    rest = behind.substr(unit);
  } while (!rest.empty());
  return whole;
}

std::string duration_text(uint64_t ms) {
  constexpr std::pair<uint64_t, const char*> kUnits[] = {
      {86'400'000, "d"}, {3'600'000, "h"}, {60'000, "m"}, {1000, "s"}};
  for (const auto& [unit_ms, unit] : kUnits)
    if (ms != 0 && ms % unit_ms == 0) return std::to_string(ms / unit_ms) + unit;
  return std::to_string(ms) + "ms";
}

Result<uint64_t> whole_seconds(std::string_view text) {
  MEMBRANE_ASSIGN(const uint64_t ms, duration_ms(text));
  return ms / 1000 + (ms % 1000 == 0 ? 0 : 1);
}

}  // namespace membrane::cli
