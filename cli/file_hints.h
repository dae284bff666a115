// Hints at files of this machine that a program in a language did not find.
//
// Threads: any.
#pragma once

#include <string>

#include "policy/policy.h"
#include "sandbox/report/report.h"

namespace membrane::cli {

// Such a file may exist here, and be visible elsewhere or not granted: a file of a grant, a file below the
// working directory, or a file or module next to the program. Replaces the hint of the report's first error in that
// case. Nothing is said of other places: a program must not learn what exists on this machine.
// `program_file` is the program's own path; "" for none.
void hint_at_file_here(const std::string& program_file, const policy::Policy& policy,
                       sandbox::Report& report);

}  // namespace membrane::cli
