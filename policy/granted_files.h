// Checks that the files of this machine that a policy grants exist, before anything runs.
//
// Threads: any; reads the file system only.
#pragma once

#include "base/result.h"
#include "policy/policy.h"

namespace membrane::policy {

// Errors: kNotFound for a directory of an fs grant, or a database of an sql grant, that does not exist or cannot be
// accessed.
Status check_granted_files(const Policy& policy);

}  // namespace membrane::policy
