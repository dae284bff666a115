// What the flags of a command add to a policy.
//
// Threads: values.
#pragma once

#include "policy/policy.h"

namespace membrane::policy {

// Adds a grant of a directory. One that is there for the same directory at the same place stays, with its bounds, and is
// for writing when either is.
void add_fs(Policy& policy, FsGrant grant);

}  // namespace membrane::policy
