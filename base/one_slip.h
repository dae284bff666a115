// Threads: pure function.
#pragma once

#include <algorithm>
#include <string_view>

namespace membrane {

// Whether one inserted, removed or other character makes one text of the other, or a swap of neighbours does.
inline bool is_one_slip(std::string_view a, std::string_view b) {
  while (!a.empty() && !b.empty() && a.front() == b.front()) a.remove_prefix(1), b.remove_prefix(1);
  while (!a.empty() && !b.empty() && a.back() == b.back()) a.remove_suffix(1), b.remove_suffix(1);
  if (a.size() == 2 && b.size() == 2) return a[0] == b[1] && a[1] == b[0];
  return std::max(a.size(), b.size()) == 1;
}

}  // namespace membrane
