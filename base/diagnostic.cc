#include "base/diagnostic.h"

#include <algorithm>
#include <array>

namespace membrane {
namespace {

struct CodeInfo {
  std::string_view name, title, hint;
};

constexpr std::array<CodeInfo, static_cast<size_t>(DiagnosticCode::kCount)> kCodes{{
#define DIAGNOSTIC(id, name, title, hint) CodeInfo{name, title, hint},
#include "base/diagnostics.def"
#undef DIAGNOSTIC
}};

const CodeInfo& info(DiagnosticCode code) { return kCodes[static_cast<size_t>(code)]; }

std::string_view line_at(std::string_view text, uint32_t offset) {
  offset = std::min<uint32_t>(offset, static_cast<uint32_t>(text.size()));
  const size_t begin = offset == 0 ? 0 : text.rfind('\n', offset - 1) + 1;  // npos + 1 == 0
  const size_t end = std::min(text.find('\n', offset), text.size());
  return text.substr(begin, end - begin);
}

// Appends the line and a caret under the place. Of a long line, only the part around the place is shown.
void append_excerpt(std::string& out, const Place& place, std::string_view text) {
  constexpr size_t kMaxColumns = 160;
  std::string_view line = line_at(text, place.offset);
  size_t column = place.column - 1;
  if (line.size() > kMaxColumns) {
    const size_t from = column > kMaxColumns / 2 ? column - kMaxColumns / 2 : 0;
    line = line.substr(from, kMaxColumns);
    column -= from;
  }
  const std::string number = std::to_string(place.line);
  out += "\n  " + number + " | " + std::string(line);
  out += "\n  " + std::string(number.size(), ' ') + " | ";
  for (size_t i = 0; i < column && i < line.size(); ++i) out += line[i] == '\t' ? '\t' : ' ';
  const size_t length = place.end_offset > place.offset ? place.end_offset - place.offset : 1;
  out.append(std::clamp<size_t>(length, 1, line.size() > column ? line.size() - column : 1), '^');
}

// Longer names are not worth comparing: the cost is the product of the lengths.
constexpr size_t kLongestSuggested = 64;

// Bound on the sum of these products for one word: about 500 names of the longest, 20,000 of ten letters.
constexpr size_t kMostCompared = 2u << 20;

// Optimal string alignment distance of words of at most kLongestSuggested bytes, given up
// (limit + 1) as soon as it exceeds the limit.
size_t edit_distance(std::string_view a, std::string_view b, size_t limit) {
  if (a.size() > b.size() + limit || b.size() > a.size() + limit) return limit + 1;
  using Row = std::array<uint8_t, kLongestSuggested + 1>;
  Row rows[3];  // the last three rows, for prefixes of a
  for (size_t j = 0; j <= b.size(); ++j) rows[0][j] = static_cast<uint8_t>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    Row& row = rows[i % 3];
    const Row& last = rows[(i - 1) % 3];
    const Row& before = rows[(i + 1) % 3];
    row[0] = static_cast<uint8_t>(i);
    size_t least = row[0];
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t cost = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        cost = std::min<size_t>(cost, before[j - 2] + 1);
      row[j] = static_cast<uint8_t>(cost);
      least = std::min(least, cost);
    }
    if (least > limit + 1) return limit + 1;  // a transposition may still save one
  }
  return rows[a.size() % 3][b.size()];
}

}  // namespace

std::string_view name_of(DiagnosticCode code) { return info(code).name; }
std::string_view title_of(DiagnosticCode code) { return info(code).title; }
std::string_view default_hint_of(DiagnosticCode code) { return info(code).hint; }

Place locate(std::string_view text, uint32_t offset, uint32_t end_offset) {
  const auto size = static_cast<uint32_t>(text.size());
  Place place{std::min(offset, size), std::min(end_offset, size), 1, 1};
  const std::string_view before = text.substr(0, place.offset);
  place.line = 1 + static_cast<uint32_t>(std::count(before.begin(), before.end(), '\n'));
  const size_t newline = before.rfind('\n');
  place.column =
      1 + place.offset - static_cast<uint32_t>(newline == std::string_view::npos ? 0 : newline + 1);
  return place;
}

std::string render(const Diagnostic& d, std::string_view text, std::string_view file_name) {
  std::string out(file_name);
  if (d.place.in_text()) out += ":" + std::to_string(d.place.line) + ":" + std::to_string(d.place.column);
  else out += ": offset " + std::to_string(d.place.offset);
  out += ": error[" + std::string(name_of(d.code)) + "]: " + d.message;
  if (!d.function.empty()) out += " (in function " + d.function + ")";
  if (d.place.in_text() && !text.empty()) append_excerpt(out, d.place, text);
  if (!d.expected.empty()) out += "\n  expected: " + d.expected;
  if (!d.found.empty()) out += "\n  found: " + d.found;
  if (const auto hint = hint_of(d); !hint.empty()) out += "\n  hint: " + std::string(hint);
  return out + "\n";
}

std::string_view nearest(std::string_view word, const std::vector<std::string_view>& candidates) {
  const size_t limit = std::max<size_t>(1, word.size() / 3);
  std::string_view best;
  size_t best_distance = limit + 1;
  if (word.size() > kLongestSuggested) return best;
  size_t work_left = kMostCompared;
  for (const std::string_view candidate : candidates) {
    if (candidate.size() > kLongestSuggested) continue;
    const size_t size_difference =
        std::max(word.size(), candidate.size()) - std::min(word.size(), candidate.size());
    if (size_difference > limit) continue;
    const size_t work = (word.size() + 1) * (candidate.size() + 1);
    if (work > work_left) break;
    work_left -= work;
    const size_t distance = edit_distance(word, candidate, limit);
    if (distance < best_distance) best = candidate, best_distance = distance;
  }
  return best;
}

}  // namespace membrane
