// Rewrites hints of reports for clients: replaces flags of `membrane run` by what a client sends.
//
// Threads: pure.
#pragma once

#include <string>

namespace membrane::service {

// Replaces a flag that grants (--allow kv) by the field of the policy ("kv": {}) or, if clients cannot grant
// it, by an alternative; a flag that limits (--fuel 400) by the limit in the sandbox's policy; and packages
// by those of the sandbox's creation. Other hints stay.
std::string client_hint(std::string hint);

}  // namespace membrane::service
