// The addresses of a host, as far as a grant lets them be dialled: each one that is not public must stand among the grant's.
//
// Threads: pure, but for the resolver.
#pragma once

#include <string>
#include <vector>

#include "host/deadline.h"
#include "host/egress/resolver.h"
#include "policy/address.h"

namespace membrane::host {

// Every answer of the resolver is checked: one address that is not public and not in `ranges` refuses them all. Cloud metadata
// addresses must stand there in full. `grant`: its URL, for the refusal. Errors: EACCES, and those of the resolver.
HostResult<std::vector<policy::Address>> resolve_granted(const std::string& host,
                                                         const std::vector<policy::Cidr>& ranges,
                                                         const std::string& grant, Resolver& resolver,
                                                         const Deadline& deadline);

}  // namespace membrane::host
