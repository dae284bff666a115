// What a command's flags add to a policy.
//
// Threads: values.
#pragma once

#include "policy/policy.h"

namespace membrane::policy {

// Adds a grant of a directory. An existing grant of the same directory at the same place stays, with its bounds, and
// becomes writable if either is.
void add_fs(Policy& policy, FsGrant grant);

}  // namespace membrane::policy
