// Hints of reports as they serve a client: what a flag of `membrane run` would do, by what a client sends.
//
// Threads: pure.
#pragma once

#include <string>

namespace membrane::service {

// In the place of a flag that grants (--allow kv) it names the field of the policy ("kv": {}), or, of what no client is
// granted, what to do instead; in the place of one that limits (--fuel 400), the limit of the sandbox's policy; and packages are
// what a sandbox is made with. Other hints stay.
std::string client_hint(std::string hint);

}  // namespace membrane::service
