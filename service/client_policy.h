// A policy that a client of the service sends. It bounds the client's own program, but that runs on the
// service's machine: a client may not grant access to that machine (directories, databases, private
// addresses, the service's environment).
//
// Include from .cc files only: the JSON library is slow to compile. Threads: pure.
#pragma once

#include <nlohmann/json.hpp>

#include "policy/policy.h"
#include "service/errors.h"

namespace membrane::service {

// `usual` are the limits that the policy does not name. Only the owner may grant addresses that are not on
// the public internet. Secrets in headers are the service's (secrets.h), never variables of its environment.
// Errors: kInvalidValue, kForbidden.
// No client's limits are above these.
void bound_limits(policy::Limits& limits);

Answer<policy::Policy> read_client_policy(const nlohmann::json& json, const policy::Limits& usual,
                                          bool is_owner = false);

}  // namespace membrane::service
