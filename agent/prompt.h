// The system message: what a model must know to act, and no more, since every step
// pays for it again. Built from the live registry, policy and catalog, so that it
// never promises what is not there.
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "agent/catalog.h"
#include "policy/policy.h"

namespace membrane::agent {

struct PromptParts {
  std::string capabilities;          // host::capabilities_prompt(ungranted(policy))
  std::string policy_explanation;    // policy::explain()
  const Catalog* catalog = nullptr;  // borrowed; null or empty: no section for it
  uint32_t max_steps = 0;
  size_t observation_bytes = 0;                  // what of a program's report comes back
  std::vector<std::string_view> ungranted = {};  // ungranted(policy): programs that need one are not listed
};

std::string build_system_prompt(const PromptParts& parts);

// The capabilities that need a grant and have none: calling them can only be refused.
std::vector<std::string_view> ungranted(const policy::Policy& policy);

}  // namespace membrane::agent
