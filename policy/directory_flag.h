// The --dir flag: an fs grant in the form of other WASI runtimes.
//
// Threads: pure functions.
#pragma once

#include <string_view>

#include "base/result.h"
#include "policy/policy.h"

namespace membrane::policy {

// Adds what one flag grants, HOST[:GUEST][:ro]: an fs grant for writing, or with ":ro" for reading. Without GUEST a
// program finds the directory where HOST is relative to the working directory: "data" at /data, "." at /. GUEST may
// be relative to /, and "::" may replace its colon. On failure the policy is unchanged.
Status allow_directory(Policy& policy, std::string_view flag);

}  // namespace membrane::policy
