#include "sandbox/interpreters/quickjs_places.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

namespace membrane::sandbox {
namespace {

// "    at f (/x.js:3:5)", or "    at /x.js:3:5".
std::optional<ReportPlace> place_in_line(std::string_view line) {
  constexpr std::string_view kAt = "at ";
  const size_t at = line.find_first_not_of(' ');
  if (at == std::string_view::npos || !line.substr(at).starts_with(kAt)) return std::nullopt;
  line.remove_prefix(at + kAt.size());
  ReportPlace place;
  if (const size_t open = line.rfind(" ("); line.ends_with(')') && open != std::string_view::npos) {
    place.function = line.substr(0, open);
    line = line.substr(open + 2, line.size() - open - 3);
  }
  for (uint32_t* const number : {&place.column, &place.line}) {
    const size_t colon = line.rfind(':');
    if (colon == std::string_view::npos) return std::nullopt;
    const std::string_view digits = line.substr(colon + 1);
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), *number);
    if (read.ec != std::errc() || read.ptr != digits.data() + digits.size()) return std::nullopt;
    line = line.substr(0, colon);
  }
  place.file = line;
  return place;
}

std::vector<ReportPlace> places_in(std::string_view text) {
  constexpr size_t kMostPlaces = 64, kMostBytes = 16u << 10;
  text = text.substr(0, kMostBytes);
  std::vector<ReportPlace> places;
  while (!text.empty() && places.size() < kMostPlaces) {
    const size_t end = std::min(text.find('\n'), text.size());
    if (auto place = place_in_line(text.substr(0, end))) places.push_back(*std::move(place));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return places;
}

bool is_later_in_the_same_function(const ReportPlace& a, const ReportPlace& b) {
  return a.file == b.file && a.function == b.function &&
         std::pair(a.line, a.column) > std::pair(b.line, b.column);
}

}  // namespace

std::vector<ReportPlace> quickjs_places(std::span<const std::string> stacks) {
  std::vector<ReportPlace> best;
  for (const std::string& stack : stacks) {
    std::vector<ReportPlace> places = places_in(stack);
    const bool has_more = places.size() > best.size();
    const bool is_later = !best.empty() && places.size() == best.size() &&
                          is_later_in_the_same_function(places.front(), best.front());
    if (has_more || is_later) best = std::move(places);
  }
  return best;
}

}  // namespace membrane::sandbox
