// Hints at files of this machine that a program in a language did not find.
//
// Threads: any.
#pragma once

#include <cstdint>
#include <string>

#include "policy/policy.h"
#include "sandbox/report/report.h"

namespace membrane::cli {

// Who reads the report: a person, or a program, which may pass it on to the model that wrote the guest.
enum class HintsFor : uint8_t { kPerson, kProgram };

// Such a file may exist here, and be visible elsewhere or not granted: a file of a grant, or for a person a file
// below the working directory, or a file or module next to the program. Replaces the hint of the report's first error
// in that case. Nothing is said of other places: a program must not learn what exists on this machine.
// `program_file` is the program's own path; "" for none.
void hint_at_file_here(const std::string& program_file, const policy::Policy& policy, HintsFor reader,
                       sandbox::Report& report);

}  // namespace membrane::cli
