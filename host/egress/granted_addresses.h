// Resolves a host to addresses that a grant allows: each address that is not public must be listed in the grant.
//
// Threads: pure functions, except for the resolver.
#pragma once

#include <string>
#include <vector>

#include "host/deadline.h"
#include "host/egress/resolver.h"
#include "policy/address.h"

namespace membrane::host {

// Every answer of the resolver is checked: one address that is not public and not in `ranges` refuses them all.
// Cloud metadata addresses must be listed in full. `grant`: its URL, for the refusal. Errors: EACCES, and those of
// the resolver.
HostResult<std::vector<policy::Address>> resolve_granted(const std::string& host,
                                                         const std::vector<policy::Cidr>& ranges,
                                                         const std::string& grant, Resolver& resolver,
                                                         const Deadline& deadline);

}  // namespace membrane::host
