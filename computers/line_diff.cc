#include "computers/line_diff.h"

#include <algorithm>
#include <cstdint>
#include <unordered_map>

namespace membrane::computers {
namespace {

constexpr int kMostDifferent = 1500;  // lines; the trace takes 4 bytes for each two, squared

// Lines as numbers, the same for the same bytes.
class Numbers {
 public:
  std::vector<int> of(const std::vector<std::string_view>& lines) {
    std::vector<int> all;
    all.reserve(lines.size());
    for (const std::string_view line : lines)
      all.push_back(known_.try_emplace(line, static_cast<int>(known_.size())).first->second);
    return all;
  }

 private:
  std::unordered_map<std::string_view, int> known_;
};

// How a diagonal `k` is reached best, from the one on its left (by a line less) or from the one on its right (by a line more). -1: not at all.
struct Step {
  int x = -1;
  bool is_insertion = false;
};
Step best_step(int left, int right, int k, int n, int m) {
  const bool can_insert = right >= 0 && right - k <= m, can_remove = left >= 0 && left < n;
  if (can_insert && (!can_remove || left < right)) return {right, true};
  return {can_remove ? left + 1 : -1, false};
}

// The steps of a shortest way through the two; false where it is too long.
bool find_changes(const std::vector<int>& a, const std::vector<int>& b, std::vector<LineChange>& changes) {
  const auto n = static_cast<int>(a.size()), m = static_cast<int>(b.size());
  const int most = std::min(n + m, kMostDifferent);
  std::vector<std::vector<int>>
      trace;  // of each number of differences d: how far the diagonals -d, -d + 2, … d are
  const auto at = [&trace](int d, int k) {
    return d < 0 || k < -d || k > d ? -1 : trace[static_cast<size_t>(d)][static_cast<size_t>((k + d) / 2)];
  };
  bool is_found = false;
  for (int d = 0; d <= most && !is_found; ++d) {
    std::vector<int> row;
    for (int k = -d; k <= d; k += 2) {
      int x = d == 0 ? 0 : best_step(at(d - 1, k - 1), at(d - 1, k + 1), k, n, m).x;
      if (x >= 0)
        while (x < n && x - k < m && a[static_cast<size_t>(x)] == b[static_cast<size_t>(x - k)]) ++x;
      row.push_back(x);
      is_found = is_found || (x == n && x - k == m);
    }
    trace.push_back(std::move(row));
  }
  if (!is_found) return false;
  int x = n, y = m;
  for (int d = static_cast<int>(trace.size()) - 1; d > 0; --d) {
    const int k = x - y;
    const bool is_insertion = best_step(at(d - 1, k - 1), at(d - 1, k + 1), k, n, m).is_insertion;
    const int from_k = is_insertion ? k + 1 : k - 1;
    const int from_x = at(d - 1, from_k), from_y = from_x - from_k;
    const LineChange step = {
        static_cast<size_t>(from_x), static_cast<size_t>(is_insertion ? from_x : from_x + 1),
        static_cast<size_t>(from_y), static_cast<size_t>(is_insertion ? from_y + 1 : from_y)};
    if (!changes.empty() && changes.back().old_begin == step.old_end &&
        changes.back().new_begin == step.new_end) {
      changes.back().old_begin = step.old_begin;
      changes.back().new_begin = step.new_begin;
    } else {
      changes.push_back(step);
    }
    x = from_x;
    y = from_y;
  }
  std::ranges::reverse(changes);
  return true;
}

}  // namespace

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return lines;
}

std::vector<LineChange> line_changes(const std::vector<std::string_view>& before,
                                     const std::vector<std::string_view>& after) {
  const size_t shorter = std::min(before.size(), after.size());
  size_t begin = 0, end = 0;
  while (begin < shorter && before[begin] == after[begin]) ++begin;
  while (end < shorter - begin && before[before.size() - 1 - end] == after[after.size() - 1 - end]) ++end;
  const std::vector<std::string_view> a(before.begin() + static_cast<ptrdiff_t>(begin),
                                        before.end() - static_cast<ptrdiff_t>(end));
  const std::vector<std::string_view> b(after.begin() + static_cast<ptrdiff_t>(begin),
                                        after.end() - static_cast<ptrdiff_t>(end));
  std::vector<LineChange> changes;
  if (a.empty() && b.empty()) return changes;
  const bool is_one = a.empty() || b.empty() || a.size() > INT32_MAX / 4 || b.size() > INT32_MAX / 4;
  Numbers numbers;
  if (is_one || !find_changes(numbers.of(a), numbers.of(b), changes)) changes = {{0, a.size(), 0, b.size()}};
  for (LineChange& each : changes) {
    each.old_begin += begin;
    each.old_end += begin;
    each.new_begin += begin;
    each.new_end += begin;
  }
  return changes;
}

}  // namespace membrane::computers
