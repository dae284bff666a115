#include "engine/code/code.h"

#include <algorithm>
#include <iterator>

namespace membrane::engine {

uint32_t CatchTable::region_at(uint32_t word) const {
  const auto behind = std::ranges::upper_bound(boundaries, word, {}, &Boundary::from);
  return behind == boundaries.begin() ? kNone : std::prev(behind)->region;
}

}  // namespace membrane::engine
