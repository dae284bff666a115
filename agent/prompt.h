// The system message: what a model must know to act, and no more, since every step
// pays for it again. Built from the live registry, policy and catalog, so that it
// never promises what is not there.
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "agent/catalog.h"
#include "agent/languages.h"
#include "policy/policy.h"

namespace membrane::agent {

struct PromptParts {
  std::string capabilities;          // functions_prompt(languages, ungranted(policy))
  std::string policy_explanation;    // policy::explain_briefly()
  const Catalog* catalog = nullptr;  // borrowed; null or empty: no section for it
  uint32_t max_steps = 0;
  size_t observation_bytes = 0;                  // what of a program's report comes back
  std::vector<std::string_view> ungranted = {};  // ungranted(policy): what needs one is not told of
  std::vector<Language> languages = {wat()};     // that were chosen
};

std::string build_system_prompt(const PromptParts& parts);

// The host functions: with WAT, host::capabilities_prompt(); without, those alone that a language has not by itself.
std::string functions_prompt(std::span<const Language> languages,
                             std::span<const std::string_view> ungranted);

// The capabilities that need a grant and have none: calling them can only be refused.
std::vector<std::string_view> ungranted(const policy::Policy& policy);

}  // namespace membrane::agent
