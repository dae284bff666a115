// The system message: what a model must know to act, and no more, since every step pays for it again. Built
// from the live registry, policy and catalog, so that it never promises what does not exist.
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
  const Catalog* catalog = nullptr;  // borrowed; null or empty: no section
  uint32_t max_steps = 0;
  size_t observation_bytes = 0;  // how much of a program's report is shown
  std::vector<std::string_view> ungranted =
      {};                                     // ungranted(policy): functions that need one are not described
  std::vector<Language> languages = {wat()};  // that were chosen
};

std::string build_system_prompt(const PromptParts& parts);

// For a Linux sandbox, where the model acts by commands and edits (computer_actions.h).
struct ComputerPromptParts {
  std::string directory;              // where commands begin
  std::vector<std::string> programs;  // programs_in()
  std::vector<std::string> copied;    // copied files, as paths inside
  std::string policy_explanation;     // explain_computer()
  uint32_t max_steps = 0;
  size_t observation_bytes = 0;
  std::vector<std::string> without = {};  // unavailable entries
};
std::string build_computer_prompt(const ComputerPromptParts& parts);
// What a policy grants a Linux sandbox: network, directories, clock and limits.
std::string explain_computer(const policy::Policy& policy);

// The host functions: with WAT, host::capabilities_prompt(); otherwise only those that the language itself
// lacks.
std::string functions_prompt(std::span<const Language> languages,
                             std::span<const std::string_view> ungranted);

// The capabilities that need a grant and have none: calling them can only be refused.
std::vector<std::string_view> ungranted(const policy::Policy& policy);

}  // namespace membrane::agent
