// The lines in which two texts differ, by Myers' algorithm: the fewest lines, unless there are too many of
// them.
//
// Threads: pure.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "computers/patch_budget.h"

namespace membrane::computers {

// Includes the line's end, which the last line of a text may lack. Empty if there is none.
std::string_view first_line(std::string_view text);
std::string_view take_line(std::string_view& text);

// Lines [old_begin, old_end) became lines [new_begin, new_end).
struct LineChange {
  size_t old_begin = 0, old_end = 0, new_begin = 0, new_end = 0;
  bool operator==(const LineChange&) const = default;
};
// The changes in order, with equal lines between them. Texts that differ in too many lines, or over too long
// a stretch, have one change for everything between their common beginning and end; so have all texts once
// the budget has no work left. Errors: those of PatchMemory.
Result<std::vector<LineChange>> line_changes(std::string_view before, std::string_view after,
                                             PatchBudget& budget);

}  // namespace membrane::computers
