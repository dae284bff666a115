#include "computers/line_diff.h"

#include <algorithm>
#include <cstdint>

namespace membrane::computers {
namespace {

constexpr int kMostDifferent = 1500;      // lines; the trace takes 4 bytes for each two, squared
constexpr size_t kMostLines = 4'000'000;  // of both texts, from the first that differs to the last
constexpr size_t kBytesOfLine = sizeof(uint32_t);

// The lines of a text, by their start offsets.
class Lines {
 public:
  Lines(std::string_view text, size_t count) : text_(text) {
    begins_.reserve(count + 1);
    size_t at = 0;
    for (std::string_view left = text; !left.empty(); at += take_line(left).size())
      begins_.push_back(static_cast<uint32_t>(at));
    begins_.push_back(static_cast<uint32_t>(at));
  }
  [[nodiscard]] int count() const { return static_cast<int>(begins_.size()) - 1; }
  [[nodiscard]] std::string_view operator[](int line) const {
    const auto i = static_cast<size_t>(line);
    return text_.substr(begins_[i], begins_[i + 1] - begins_[i]);
  }

 private:
  std::string_view text_;
  std::vector<uint32_t> begins_;
};

// The best way to reach diagonal `k`: from the one on its left (a line fewer) or the one on its right (a line
// more). -1: none.
struct Step {
  int x = -1;
  bool is_insertion = false;
};
Step best_step(int left, int right, int k, int n, int m) {
  const bool can_insert = right >= 0 && right - k <= m, can_remove = left >= 0 && left < n;
  if (can_insert && (!can_remove || left < right)) return {right, true};
  return {can_remove ? left + 1 : -1, false};
}

// The steps of a shortest path; false if that is too long, or takes more work than is left.
bool find_changes(const Lines& a, const Lines& b, PatchBudget& budget, std::vector<LineChange>& changes) {
  const int n = a.count(), m = b.count();
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
      uint64_t steps = 1;
      for (; x >= 0 && x < n && x - k < m; ++x) {
        steps += work_of(a[x].size());
        if (a[x] != b[x - k]) break;
      }
      if (!budget.take_work(steps)) return false;
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

// Removes common whole lines at both ends of two texts; returns the number of common lines at the beginning.
size_t take_common_begin(std::string_view& a, std::string_view& b) {
  size_t count = 0;
  for (std::string_view line = first_line(a); !line.empty() && line == first_line(b); line = first_line(a)) {
    a.remove_prefix(line.size());
    b.remove_prefix(line.size());
    ++count;
  }
  return count;
}
void drop_common_end(std::string_view& a, std::string_view& b) {
  const size_t shorter = std::min(a.size(), b.size());
  size_t same = 0, lines = 0;  // bytes; those of whole lines
  while (same < shorter && a[a.size() - 1 - same] == b[b.size() - 1 - same]) {
    if (same > 0 && a[a.size() - 1 - same] == '\n') lines = same;
    ++same;
  }
  const auto begins = [&](std::string_view text) {
    return same == text.size() || text[text.size() - 1 - same] == '\n';
  };
  if (begins(a) && begins(b)) lines = same;
  a.remove_suffix(lines);
  b.remove_suffix(lines);
}

size_t count_lines(std::string_view text) {
  const auto ends = static_cast<size_t>(std::ranges::count(text, '\n'));
  return ends + (text.empty() || text.ends_with('\n') ? 0 : 1);
}

}  // namespace

std::string_view first_line(std::string_view text) {
  return text.substr(0, std::min(text.find('\n'), text.size() - 1) + 1);
}

std::string_view take_line(std::string_view& text) {
  const std::string_view line = first_line(text);
  text.remove_prefix(line.size());
  return line;
}

Result<std::vector<LineChange>> line_changes(std::string_view before, std::string_view after,
                                             PatchBudget& budget) {
  const size_t begin = take_common_begin(before, after);
  drop_common_end(before, after);
  const size_t old_count = count_lines(before), new_count = count_lines(after);
  std::vector<LineChange> changes;
  if (old_count == 0 && new_count == 0) return changes;
  bool is_found = false;
  const size_t count = old_count + new_count;
  const bool is_small = count <= kMostLines && std::max(before.size(), after.size()) <= UINT32_MAX;
  if (old_count > 0 && new_count > 0 && is_small && budget.take_work(count)) {
    const uint64_t bytes = count * kBytesOfLine;
    MEMBRANE_TRY(budget.take_memory(bytes));
    is_found = find_changes(Lines(before, old_count), Lines(after, new_count), budget, changes);
    budget.give_memory(bytes);
  }
  if (!is_found) changes = {{0, old_count, 0, new_count}};
  for (LineChange& each : changes) {
    each.old_begin += begin;
    each.old_end += begin;
    each.new_begin += begin;
    each.new_end += begin;
  }
  return changes;
}

}  // namespace membrane::computers
