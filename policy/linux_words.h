// What of a policy a Linux sandbox heeds (docs/linux.md): for people, and as a policy file.
//
// Threads: pure functions.
#pragma once

#include <string>

#include "policy/policy.h"

namespace membrane::policy {

// The limits, clock and random numbers of Linux sandboxes under this policy, whose limits are over those that they have unless something
// names others: a paragraph like those of explain().
std::string explain_for_linux(const Policy& policy);

// to_json() without what nothing counts there and with all that something does, in the same words: as a policy file it means the same.
std::string to_json_for_linux(const Policy& policy);

}  // namespace membrane::policy
