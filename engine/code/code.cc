#include "engine/code/code.h"

#include <algorithm>
#include <iterator>

namespace membrane::engine {

uint32_t CatchTable::region_at(uint32_t word) const {
  const auto after = std::ranges::upper_bound(boundaries, word, {}, &Boundary::from);
  return after == boundaries.begin() ? kNone : std::prev(after)->region;
}

}  // namespace membrane::engine
