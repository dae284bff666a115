// The parts of a policy that a Linux sandbox enforces (docs/linux.md): as text, and as a policy file.
//
// Threads: pure functions.
#pragma once

#include <string>

#include "policy/policy.h"

namespace membrane::policy {

// The limits, clock and random numbers of Linux sandboxes under this policy, starting from their own default limits:
// a paragraph like those of explain().
std::string explain_for_linux(const Policy& policy);

// to_json() with only the limits that a Linux sandbox enforces, in the same format: as a policy file it means the
// same.
std::string to_json_for_linux(const Policy& policy);

}  // namespace membrane::policy
