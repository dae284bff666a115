// Where a JavaScript program stood when it was stopped, read from the texts of stacks that the prelude writes.
//
// QuickJS knows the places of some operations only. One stack has the place of the last call, the stack of the
// interruption the one before the jump at which QuickJS asked: that may be before the loop. Of the two the later one is
// nearer, and either may be missing.
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
