// A WASI program, and a language, sees its granted directories before it makes any request: so a journal records
// them, and a replay must be given the same ones. Nothing is read from them, or written.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "host/world.h"
#include "policy/policy.h"

namespace membrane::sandbox {

// As recorded in a journal: "read:/data".
std::vector<std::string> directories_of(const policy::Policy& policy);

// Records the policy's directories in the journal that is written, if there is one, and compares them with those of
// the journal that is replayed. Errors: kInvalidArgument, with the missing directories.
Status check_replayed_grants(host::World& world, const policy::Policy& policy);

}  // namespace membrane::sandbox
