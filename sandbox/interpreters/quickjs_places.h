// Where a JavaScript program stood when it was stopped, read from the texts of stacks that the prelude writes.
//
// QuickJS knows the place of a call or of a read, but not of every operation: a loop may run between places. One stack
// says where the program last called or read something, the one of its interruption which place is before the
// jump of the loop. Of the two the later one is nearer, and either may be missing.
//
// The text is the program's, so nothing in it is believed: places may be wrong, and their number and size are bounded.
//
// Threads: any.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "sandbox/report/report.h"

namespace membrane::sandbox {

// Innermost first. Lines without a place are left out.
std::vector<ReportPlace> quickjs_places(std::span<const std::string> stacks);

}  // namespace membrane::sandbox
