// A program of WASI, and a language, sees the directories that it was granted before it asks for anything: so a journal
// says which there were, and a replay has to be given them again. Nothing is read from them, or written.
#pragma once

#include "base/result.h"
#include "host/broker_gate.h"
#include "policy/policy.h"

namespace membrane::sandbox {

// Notes the policy's directories in the journal that is written, if there is one; and compares them with those of the
// journal that is replayed. Errors: kInvalidArgument, with the directories that are missing.
Status check_replayed_grants(host::BrokerGate& gate, const policy::Policy& policy);

}  // namespace membrane::sandbox
