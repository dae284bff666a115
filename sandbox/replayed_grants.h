// A program of WASI, and a language, sees the directories that it was granted before it asks for anything: so a journal
// says which there were, and a replay has to be given them again. Nothing is read from them, or written.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "host/world.h"
#include "policy/policy.h"

namespace membrane::sandbox {

// What a journal says of them: "read:/data".
std::vector<std::string> directories_of(const policy::Policy& policy);

// Notes the policy's directories in the journal that is written, if there is one; and compares them with those of the
// journal that is replayed. Errors: kInvalidArgument, with the directories that are missing.
Status check_replayed_grants(host::World& world, const policy::Policy& policy);

}  // namespace membrane::sandbox
