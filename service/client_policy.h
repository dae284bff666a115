// A policy that a client of the service sends. It is the client's own program that is bounded by it, but it runs on the
// service's machine: what reaches for that machine (directories, databases, private addresses, the service's environment)
// is not the client's to grant.
//
// Include from .cc files only: the JSON library is slow to compile. Threads: pure.
#pragma once

#include <nlohmann/json.hpp>

#include "policy/policy.h"
#include "service/errors.h"

namespace membrane::service {

// `usual` are the limits that the policy does not name. Addresses that are not the public internet are the owner's to
// grant. Secrets of headers are the service's (secrets.h), never variables of its environment. Errors: kInvalidValue,
// kForbidden.
// No client's limits are above these.
void bound_limits(policy::Limits& limits);

Answer<policy::Policy> read_client_policy(const nlohmann::json& json, const policy::Limits& usual,
                                          bool is_owner = false);

}  // namespace membrane::service
