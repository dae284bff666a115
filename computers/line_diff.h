// Which lines of two texts differ, by Myers' algorithm: the fewest lines, unless there are too many of them.
//
// Threads: pure.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "computers/patch_budget.h"

namespace membrane::computers {

// With its end, which the last one of a text may not have. Empty where there is none.
std::string_view first_line(std::string_view text);
std::string_view take_line(std::string_view& text);

// Lines [old_begin, old_end) became lines [new_begin, new_end).
struct LineChange {
  size_t old_begin = 0, old_end = 0, new_begin = 0, new_end = 0;
  bool operator==(const LineChange&) const = default;
};
// In order, with equal lines between them. Texts that differ in too many lines, or in a stretch of too many, have one change for all that
// is between their common beginning and end, and so have all once the budget has no work left. Errors: those of PatchMemory.
Result<std::vector<LineChange>> line_changes(std::string_view before, std::string_view after,
                                             PatchBudget& budget);

}  // namespace membrane::computers
