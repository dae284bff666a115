// Whether what a policy grants of this machine's files is there, before anything runs.
//
// Threads: pure, but for the file system.
#pragma once

#include "base/result.h"
#include "policy/policy.h"

namespace membrane::policy {

// Errors: kNotFound for a directory of an fs grant, or a database of an sql grant, that does not exist or cannot be looked at.
Status check_granted_files(const Policy& policy);

}  // namespace membrane::policy
