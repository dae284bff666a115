// Queries about places in a function's code, answered while the code is made again. A lookup does not go through all
// queries, so that a backtrace of a deep recursion through thousands of calls takes little time.
//
// Threads: belongs to one thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace membrane::engine {

template <typename Item>
class CodeQuery {
 public:
  static constexpr uint32_t kNowhere = UINT32_MAX;

  // The items that ask about a place, which is their member `place`. They must stay where they are.
  void look_for(std::span<Item> items, uint32_t Item::* place) {
    items_.clear();
    for (Item& item : items)
      if (item.*place != kNowhere) items_.emplace_back(item.*place, &item);
    std::ranges::sort(items_, {}, &Entry::first);
  }
  [[nodiscard]] bool empty() const { return items_.empty(); }
  // Calls take(item) for each item whose place is in [first, end).
  void each_between(uint32_t first, uint32_t end, auto take) const {
    for (auto at = std::ranges::lower_bound(items_, first, {}, &Entry::first);
         at != items_.end() && at->first < end; ++at)
      take(*at->second);
  }
  void each_at(uint32_t place, auto take) const {
    if (!items_.empty()) each_between(place, place + 1, take);
  }

 private:
  using Entry = std::pair<uint32_t, Item*>;
  std::vector<Entry> items_;
};

}  // namespace membrane::engine
