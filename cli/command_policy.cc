// membrane policy: what a policy allows. (membrane policy test: command_policy_trial.cc.)

#include "cli/cli.h"
#include "cli/linux_run.h"
#include "computers/settings.h"
#include "policy/granted_files.h"
#include "policy/linux_words.h"

namespace membrane::cli {

namespace {

std::string text_for_linux(const policy::Policy& policy) {
  Status held = computers::check_grants(policy);
  if (held) held = computers::check_limits(policy.limits);
  if (held) return policy::explain_for_linux(policy);
  constexpr std::string_view kSubject = "a Linux sandbox ";
  const std::string& why = held.error().message;
  return "A Linux sandbox refuses this policy: " +
         (why.starts_with(kSubject) ? "it " + why.substr(kSubject.size()) : why) + ".\n";
}

}  // namespace

void add_policy(CLI::App& app, int& exit_code) {
  struct Options {
    std::string file;
    bool json = false;
    PolicyOptions policy;
  };
  CLI::App* const group = app.add_subcommand("policy", "Explain policies, and try them on past runs");
  group->require_subcommand(1);
  group->footer(
      "Examples:\n"
      "  membrane policy explain policy.toml\n"
      "  membrane policy test stricter.toml receipts");
  auto options = std::make_shared<Options>();
  CLI::App* const command = group->add_subcommand("explain", "Explain in sentences what a policy allows");
  options->policy.add_to(*command, PolicyOptions::Of::kThisMachine, PolicyOptions::Kinds::kBoth);
  command->add_option("file", options->file, "The policy file (the same as --policy)")
      ->type_name("FILE")
      ->excludes("--policy");
  command->add_flag("--json", options->json, "The whole policy, defaults included, as canonical JSON");
  command->footer(
      "Examples:\n"
      "  membrane policy explain policy.toml\n"
      "  membrane policy explain --allow fs:read:./data --fuel 1e6");
  command->callback([options, &exit_code] {
    if (!options->file.empty()) options->policy.file = options->file;
    const Result<policy::Policy> policy = options->policy.policy();
    if (!policy) {
      exit_code = complain(policy.error(), options->json ? Reader::kJson : Reader::kPerson);
      return;
    }
    // A policy may be read on a machine where it does not apply: missing parts are reported, and are not a
    // failure.
    if (const Status there = policy::check_granted_files(*policy); !there)
      print(stderr, "warning: " + there.error().message + "\n  hint: " + there.error().hint + "\n");
    if (options->json) return print(policy::to_json(*policy) + "\n");
    print(policy::explain(*policy));
    if (const auto in_language = options->policy.policy(policy::language_limits()))
      print(policy::explain_larger_limits(policy->limits, in_language->limits));
    if (const auto in_linux = linux_policy(options->policy, linux_limits())) print(text_for_linux(*in_linux));
  });
  add_policy_test(*group, exit_code);
}

}  // namespace membrane::cli
