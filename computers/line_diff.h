// Which lines of two texts differ, by Myers' algorithm: the fewest lines, unless there are too many of them.
//
// Threads: pure.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace membrane::computers {

// Each with its end, which the last one may not have.
std::vector<std::string_view> lines_of(std::string_view text);

// Lines [old_begin, old_end) became lines [new_begin, new_end).
struct LineChange {
  size_t old_begin = 0, old_end = 0, new_begin = 0, new_end = 0;
  bool operator==(const LineChange&) const = default;
};
// In order, with equal lines between them. Texts that differ in too many lines have one change for all that is between their common
// beginning and end: time and memory have a bound.
std::vector<LineChange> line_changes(const std::vector<std::string_view>& before,
                                     const std::vector<std::string_view>& after);

}  // namespace membrane::computers
