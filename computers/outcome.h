// The result of a command in a Linux sandbox, in the terms of the other kind's reports.
//
// Threads: pure.
#pragma once

#include <cstdint>
#include <string>

#include "linux/sandbox/computer.h"
#include "policy/policy.h"
#include "sandbox/report.h"

namespace membrane::computers {

// `status`: the exit code of kExited and kNotStarted, the signal of kSignalled. `reason`: of kFailed and
// kNotStarted. The report has the exit code that a shell would return.
// A limit that did not end the command is not an error of the report: limits_reached has it.
void set_reached(const linux::LimitsReached& reached, sandbox::Report& report);
void set_outcome(linux::ComputerEnd end, int status, const std::string& reason, const policy::Limits& limits,
                 sandbox::Report& report);

}  // namespace membrane::computers
