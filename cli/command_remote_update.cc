// Commands for a service: info, update.

#include <algorithm>

#include "base/json.h"
#include "cli/cli.h"
#include "cli/command_remote.h"
#include "cli/remote.h"
#include "policy/grants.h"
#include "policy/linux_words.h"

namespace membrane::cli {
namespace {

struct InfoOptions {
  RemoteOptions remote;
  std::string id;
  bool policy = false;
};

Result<int> info(const InfoOptions& options) {
  MEMBRANE_ASSIGN(Remote remote, Remote::open(options.remote));
  MEMBRANE_ASSIGN(Json answer, remote.send_json({.path = of_sandbox(options.id)}));
  if (options.policy) {
    const bool is_linux = is_linux_template(text_at(answer, "template"));
    MEMBRANE_ASSIGN(answer, remote.send_json({.path = of_sandbox(options.id, {"policy"})}));
    if (is_linux) {
      MEMBRANE_ASSIGN(const policy::Policy policy, policy::parse_policy(answer.dump(), "policy.json"));
      MEMBRANE_ASSIGN(answer, read_ordered_json(policy::to_json_for_linux(policy), "the policy"));
    }
  }
  print_json(answer);
  return kExitOk;
}

struct UpdateOptions {
  RemoteOptions remote;
  PolicyOptions policy;
  SandboxFields fields;
  std::string id;
  bool json = false;
};

Result<Json> change_policy(Remote& remote, const UpdateOptions& options) {
  const auto path = of_sandbox(options.id, {"policy"});
  MEMBRANE_ASSIGN(const std::string text, remote.send({.path = path}));
  MEMBRANE_ASSIGN(const policy::Policy has, policy::parse_policy(text, "policy.json"));
  MEMBRANE_ASSIGN(const policy::Policy wanted, options.policy.changed(has));
  MEMBRANE_TRY(check_for_service(wanted));
  MEMBRANE_ASSIGN(const Json json, read_ordered_json(policy::to_json(wanted), "the policy"));
  MEMBRANE_ASSIGN(Json now, remote.send_json(json_request("PATCH", path, json)));
  const std::vector<std::string> grants = policy::grants_of(wanted);
  for (const std::string& grant : policy::grants_of(has))
    if (std::ranges::find(grants, grant) == grants.end()) print(stderr, "revoked: " + grant + "\n");
  return now;
}

// The policy first: it is the part that may be refused.
Result<int> update(const UpdateOptions& options) {
  Json change;  // everything except the policy
  MEMBRANE_TRY(put_fields(options.fields, change));
  if (change.is_null() && options.policy.is_empty())
    return fail(ErrorCode::kInvalidArgument, "there is nothing to change",
                "Name what to change, as --ttl 10m.");
  MEMBRANE_ASSIGN(Remote remote, Remote::open(options.remote));
  Json now;
  if (!options.policy.is_empty()) {
    MEMBRANE_ASSIGN(now, change_policy(remote, options));
  }
  if (!change.is_null()) {
    MEMBRANE_ASSIGN(now, remote.send_json(json_request("PATCH", of_sandbox(options.id), change)));
  }
  if (options.json) print_json(now);
  else print(text_at(now, "expires_at") + "\n");
  return kExitOk;
}

}  // namespace

void add_remote_info(CLI::App& app, int& exit_code) {
  CLI::App* const command =
      app.add_subcommand("info", "Print the service's information on a sandbox, or its policy, as JSON");
  const auto options = std::make_shared<InfoOptions>();
  add_id(*command, options->id);
  command->add_flag("--policy", options->policy, "Print its policy, as a policy file in JSON");
  options->remote.add_to(*command);
  command->footer("Examples:\n  membrane info $ID\n  membrane info $ID --policy");
  command->callback([options, &exit_code] { exit_code = finish(info(*options)); });
}

void add_remote_update(CLI::App& app, int& exit_code) {
  CLI::App* const command =
      app.add_subcommand("update", "Change a sandbox of a service, and print when it will end");
  const auto options = std::make_shared<UpdateOptions>();
  add_id(*command, options->id);
  command->add_option("--ttl", options->fields.ttl, "Its time to live from now, as 10m, 1h or 2d")
      ->type_name("TIME");
  command
      ->add_option("--idle-timeout", options->fields.idle_timeout,
                   "End it after this time without use; 0s: never")
      ->type_name("TIME");
  add_repeatable(*command, "--label", options->fields.labels,
                 "A label, replacing all existing ones; may be repeated")
      ->type_name("LABEL");
  add_repeatable(*command, "--metadata", options->fields.metadata,
                 "Metadata, replacing all that exists; may be repeated")
      ->type_name("NAME=VALUE");
  add_repeatable(*command, "--env", options->fields.environment,
                 "A variable, replacing its whole environment; may be repeated")
      ->type_name("NAME=VALUE");
  options->policy.add_to(*command, PolicyOptions::Of::kService, PolicyOptions::Kinds::kBoth);
  command->get_option("--allow")->description(
      "Grant, replacing all grants of the sandbox (on top of --policy, where it is given): "
      "http:GET:https://example.org/*, kv, time, random, and for a Linux sandbox http:HOST; may be repeated");
  options->remote.add_to(*command);
  command->add_flag("--json", options->json, "Print the service's answer");
  command->footer(
      "--policy and --allow replace all grants of the sandbox: repeat those that it should keep. Grants that "
      "it\nloses are named on standard error. Limits that they do not name stay; limits alone leave the "
      "grants "
      "as they\nare. A new policy stops what runs. More than the sandbox has is for tokens with the scope "
      "policy:widen.\n\n"
      "Examples:\n  membrane update $ID --ttl 1h\n  membrane update $ID --policy stricter.toml");
  command->callback([options, &exit_code] { exit_code = finish(update(*options), options->json); });
}

}  // namespace membrane::cli
