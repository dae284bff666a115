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

// `status`: the exit code of kExited and kNotStarted, the signal of kSignalled. `reason`: of kFailed and kNotStarted. The report has the
// exit code that shells would tell.
// Where it came to a limit without being ended for it, the report's errors are not about that: reached says so.
void set_reached(const linux::LimitsReached& reached, sandbox::Report& report);
void set_outcome(linux::ComputerEnd end, int status, const std::string& reason, const policy::Limits& limits,
                 sandbox::Report& report);

}  // namespace membrane::computers
