// The grants of a policy in the form in which they are given by flags.
//
// Threads: pure functions.
#pragma once

#include <string>
#include <vector>

#include "policy/policy.h"

namespace membrane::policy {

// What the policy grants, each as the `--allow` flag for it: without headers, addresses and bounds.
std::vector<std::string> grants_of(const Policy& policy);

}  // namespace membrane::policy
