// What became of a command in a Linux sandbox, in the words of the other kind's reports.
//
// Threads: pure.
#pragma once

#include <cstdint>
#include <string>

#include "linux/sandbox/computer.h"
#include "policy/policy.h"
#include "sandbox/report.h"

namespace membrane::computers {

// `status`: the exit code of kExited, the signal of kSignalled. `reason`: of kFailed.
void set_outcome(linux::ComputerEnd end, int status, const std::string& reason, const policy::Limits& limits,
                 sandbox::Report& report);

}  // namespace membrane::computers
