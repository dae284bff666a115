// Commands for a service: tokens, tokens create, tokens rm.

#include "cli/cli.h"
#include "cli/command_remote.h"
#include "cli/remote.h"
#include "policy/quantity.h"

namespace membrane::cli {
namespace {

struct TokensOptions {
  RemoteOptions remote;
  bool json = false;
};

std::string words_of(const Json& list) {
  std::string text;
  for (const Json& each : list)
    if (each.is_string()) text += (text.empty() ? "" : ",") + each.get<std::string>();
  return text;
}

std::string quotas_of(const Json& token) {
  std::string text;
  const auto quotas = token.find("quotas");
  if (quotas == token.end() || !quotas->is_object()) return text;
  for (const auto& [name, value] : quotas->items())
    text += (text.empty() ? "" : ",") + name + "=" + value.dump();
  return text;
}

Result<int> list(const TokensOptions& options) {
  MEMBRANE_ASSIGN(Remote remote, Remote::open(options.remote));
  MEMBRANE_ASSIGN(const Json answer, remote.send_json({.path = {"v1", "tokens"}}));
  if (options.json) {
    print_json(answer);
    return kExitOk;
  }
  std::vector<std::vector<std::string>> rows = {{"ID", "NAME", "TENANT", "EXPIRES", "SCOPES", "QUOTAS"}};
  for (const Json& each : list_at(answer, "tokens")) {
    const std::string expires = text_at(each, "expires_at");
    rows.push_back({text_at(each, "id"), text_at(each, "name"), text_at(each, "tenant"),
                    expires.empty() ? "never" : expires, words_of(list_at(each, "scopes")), quotas_of(each)});
  }
  print(table_text(rows));
  return kExitOk;
}

struct CreateOptions {
  RemoteOptions remote;
  std::string name, tenant, ttl;
  std::vector<std::string> scopes, quotas;
  bool json = false;
};

// {"NAME": AMOUNT} from "NAME=AMOUNT" words: sizes as 512MiB, counts as 1000 or 1e12.
Result<Json> amounts_of(const std::vector<std::string>& words) {
  MEMBRANE_ASSIGN(const Json pairs, pairs_of("--quota", words));
  Json amounts = Json::object();
  for (const auto& [name, text] : pairs.items()) {
    const bool is_size = name.find("bytes") != std::string::npos;
    MEMBRANE_ASSIGN(amounts[name],
                    policy::parse_quantity(is_size ? policy::Quantity::kSize : policy::Quantity::kCount,
                                           text.get<std::string>()));
  }
  return amounts;
}

Result<int> create(const CreateOptions& options) {
  if (options.scopes.empty())
    return fail(ErrorCode::kInvalidArgument, "the token has no scope",
                "Name what it may do, as --scope exec --scope sandboxes:read (--help names them all).");
  Json spec = {{"name", options.name}, {"scopes", options.scopes}};
  if (!options.tenant.empty()) spec["tenant"] = options.tenant;
  SandboxFields fields;
  fields.ttl = options.ttl;
  MEMBRANE_TRY(put_fields(fields, spec));
  if (!options.quotas.empty()) {
    MEMBRANE_ASSIGN(spec["quotas"], amounts_of(options.quotas));
  }
  MEMBRANE_ASSIGN(Remote remote, Remote::open(options.remote));
  MEMBRANE_ASSIGN(const Json made, remote.send_json(json_request("POST", {"v1", "tokens"}, spec)));
  if (options.json) print_json(made);
  else print(text_at(made, "token") + "\n");
  if (options.tenant.empty())
    print(stderr,
          "note: the token has a tenant of its own, without sandboxes. --tenant owner makes one that shares "
          "the owner's.\n");
  return kExitOk;
}

struct RemoveOptions {
  RemoteOptions remote;
  std::vector<std::string> ids;
};

Result<int> remove(const RemoveOptions& options) {
  return remove_each(options.remote, options.ids,
                     [](const std::string& id) { return std::vector<std::string>{"v1", "tokens", id}; });
}

void add_create(CLI::App& group, int& exit_code) {
  CLI::App* const command =
      group.add_subcommand("create", "Create a token, and print it; it is not shown again");
  const auto options = std::make_shared<CreateOptions>();
  command->add_option("name", options->name, "Its name in lists")->required()->type_name("NAME");
  add_repeatable(*command, "--scope", options->scopes,
                 "What it may do, may be repeated: sandboxes:read, sandboxes:write, exec, files:read, "
                 "files:write, policy:widen, secrets, logs, approve; admin: all")
      ->type_name("SCOPE");
  command->add_option("--ttl", options->ttl, "When it expires, as 12h or 30d (never)")->type_name("TIME");
  command
      ->add_option("--tenant", options->tenant,
                   "The tenant whose sandboxes, snapshots, secrets and quotas it shares: owner for the "
                   "owner's (a new one)")
      ->type_name("TENANT");
  add_repeatable(*command, "--quota", options->quotas,
                 "What the sandboxes of its tenant may use together, may be repeated: sandboxes, "
                 "memory_bytes, fuel_a_day, egress_bytes_a_day; as fuel_a_day=1e12, memory_bytes=4GiB")
      ->type_name("NAME=AMOUNT");
  command->add_flag("--json", options->json, "Print the token with what the service says of it");
  options->remote.add_to(*command);
  command->footer(
      "Examples:\n"
      "  membrane tokens create ci --tenant owner --scope sandboxes:read --scope exec --ttl 30d\n"
      "  membrane tokens create ci --scope sandboxes:read --scope sandboxes:write --scope exec --quota "
      "sandboxes=10");
  command->callback([options, &exit_code] { exit_code = finish(create(*options), options->json); });
}

void add_remove(CLI::App& group, int& exit_code) {
  CLI::App* const command = group.add_subcommand("rm", "Revoke tokens; the sandboxes of their tenants stay");
  const auto options = std::make_shared<RemoveOptions>();
  command->add_option("id", options->ids, "The tokens, by their ids")->required()->type_name("ID");
  options->remote.add_to(*command);
  command->footer("Example:\n  membrane tokens rm $TOKEN_ID");
  command->callback([options, &exit_code] { exit_code = finish(remove(*options)); });
}

}  // namespace

void add_remote_tokens(CLI::App& app, int& exit_code) {
  CLI::App* const command = app.add_subcommand("tokens", "List the tokens of a service");
  const auto options = std::make_shared<TokensOptions>();
  command->add_flag("--json", options->json, "Print them as JSON");
  options->remote.add_to(*command);
  command->footer(
      "It needs a token with the scope admin, such as the owner's. tokens create creates one, tokens rm "
      "revokes one.\n\nExample:\n  membrane tokens");
  add_create(*command, exit_code);
  add_remove(*command, exit_code);
  command->callback([options, command, &exit_code] {
    if (command->get_subcommands().empty()) exit_code = finish(list(*options), options->json);
  });
}

}  // namespace membrane::cli
