// What the flags of a command add to a policy.
//
// Threads: values.
#pragma once

#include "policy/policy.h"

namespace membrane::policy {

// Adds a grant of a directory, unless one that is there grants as much of it at the same place.
void add_fs(Policy& policy, FsGrant grant);

}  // namespace membrane::policy
