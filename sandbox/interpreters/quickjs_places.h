// Where a JavaScript program stood when it was stopped, read from the text of a stack that the prelude writes.
//
// The text is the program's, so nothing in it is believed: places may be wrong, and their number and size are bounded.
//
// Threads: any.
#pragma once

#include <string_view>
#include <vector>

#include "sandbox/report/report.h"

namespace membrane::sandbox {

// Innermost first. Lines without a place are left out.
std::vector<ReportPlace> quickjs_places(std::string_view stack);

}  // namespace membrane::sandbox
