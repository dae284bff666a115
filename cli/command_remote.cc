// The commands that use a service: create, fork, pause, resume, snapshot, approvals, approve, ps, rm; and
// their common parts.

#include <algorithm>
#include <optional>

#include "base/json.h"
#include "base/terminal.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/command_remote.h"
#include "cli/duration.h"
#include "cli/linux_run.h"
#include "cli/remote.h"
#include "lang/language_names.h"

namespace membrane::cli {

std::vector<std::string> of_sandbox(const std::string& id, std::vector<std::string> rest) {
  rest.insert(rest.begin(), {"v1", "sandboxes", id});
  return rest;
}

std::string text_at(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

Json list_at(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_array() ? *found : Json::array();
}

uint64_t number_at(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_number_unsigned() ? found->get<uint64_t>() : 0;
}

Result<Json> pairs_of(const char* option, const std::vector<std::string>& words) {
  Json pairs = Json::object();
  for (const std::string& word : words) {
    const size_t at = word.find('=');
    if (at == std::string::npos || at == 0)
      return fail(ErrorCode::kInvalidArgument, std::string(option) + " " + word + " has no \"=\" in it",
                  "Write it as NAME=VALUE.");
    pairs[word.substr(0, at)] = word.substr(at + 1);
  }
  return pairs;
}

int finish(const Result<int>& done, bool json) {
  return done ? *done : complain(done.error(), json ? Reader::kJson : Reader::kPerson);
}

CLI::Option* add_id(CLI::App& command, std::string& id) {
  return command.add_option("id", id, "The sandbox")
      ->required()
      ->type_name("ID")
      ->check([](const std::string& given) { return given.empty() ? std::string("it is empty") : ""; }, "",
              "");
}

Status put_fields(const SandboxFields& fields, Json& body) {
  if (!fields.ttl.empty()) {
    MEMBRANE_ASSIGN(body["ttl_s"], whole_seconds(fields.ttl));
  }
  if (!fields.idle_timeout.empty()) {
    MEMBRANE_ASSIGN(body["idle_timeout_s"], whole_seconds(fields.idle_timeout));
  }
  if (!fields.metadata.empty()) {
    MEMBRANE_ASSIGN(body["metadata"], pairs_of("--metadata", fields.metadata));
  }
  if (!fields.environment.empty()) {
    MEMBRANE_ASSIGN(body["env"], pairs_of("--env", fields.environment));
  }
  if (!fields.labels.empty()) body["labels"] = fields.labels;
  return {};
}

bool is_linux_template(std::string_view name) { return name == "linux" || name.starts_with("linux:"); }

Status check_for_service(const policy::Policy& policy) {
  if (policy.fs.empty() && policy.sql.empty()) return {};
  return fail(ErrorCode::kDenied, "a service grants no directory and no database of a machine",
              "Copy files into the sandbox once it exists: membrane cp data.csv ID:/tmp/");
}

std::string line_at(const Json& json, const char* name) { return printable_line(text_at(json, name)); }

std::string table_text(const std::vector<std::vector<std::string>>& given) {
  std::vector<std::vector<std::string>> rows = given;
  for (auto& row : rows) std::ranges::transform(row, row.begin(), printable_line);
  std::vector<size_t> widths(rows.front().size());
  for (const auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) line += row[i] + std::string(widths[i] - row[i].size() + 2, ' ');
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string request_line(const Json& approval) {
  const std::string target = line_at(approval, "target");
  return line_at(approval, "function") + (target.empty() ? "" : " " + target) + ", " +
         count_of(number_at(approval, "bytes"), "byte");
}

Result<int> remove_each(const RemoteOptions& options, const std::vector<std::string>& names,
                        const std::function<std::vector<std::string>(const std::string&)>& path_of) {
  MEMBRANE_ASSIGN(Remote remote, Remote::open(options));
  std::optional<Error> failed;
  for (const std::string& name : names) {
    const auto sent = remote.send({.method = "DELETE", .path = path_of(name)});
    if (sent) print(name + "\n");
    else if (failed) complain(*failed);
    if (!sent) failed = sent.error();
  }
  if (failed) return std::unexpected(*failed);
  return kExitOk;
}

namespace {

// -- create ---------------------------------------------------------------------------------------------------------

struct CreateOptions {
  RemoteOptions remote;
  PolicyOptions policy;
  SandboxFields fields;
  std::string template_name = "python", snapshot;
  std::vector<std::string> packages;
  bool has_template = false, json = false, seals = false;
};

// Nothing when it is the default.
Result<std::optional<Json>> policy_of(const CreateOptions& options) {
  policy::Policy usual;
  if (is_linux_template(options.template_name)) usual.limits = linux_limits();
  else if (lang::language_named(options.template_name) != "wat") usual.limits = policy::language_limits();
  MEMBRANE_ASSIGN(const policy::Policy wanted, options.policy.policy(usual.limits));
  MEMBRANE_TRY(check_for_service(wanted));
  const std::string text = policy::to_json(wanted);
  if (text == policy::to_json(usual)) return std::nullopt;
  MEMBRANE_ASSIGN(Json json, read_ordered_json(text, "the policy"));
  if (is_linux_template(options.template_name)) {
    // The service decides what is not specified, and may bound it more closely.
    MEMBRANE_ASSIGN(const Json all, read_ordered_json(policy::to_json(usual), "the policy"));
    Json& limits = json["limits"];
    for (const auto& [name, usually] : all["limits"].items())
      if (limits.contains(name) && limits[name] == usually) limits.erase(name);
  }
  return json;
}

Result<Json> spec_of(const CreateOptions& options) {
  if (options.has_template && !options.snapshot.empty())
    return fail(ErrorCode::kInvalidArgument, "--template and --snapshot exclude each other",
                "Remove --template: a snapshot continues in its own language.");
  Json spec;
  if (options.snapshot.empty()) spec["template"] = options.template_name;
  else spec["snapshot"] = options.snapshot;
  MEMBRANE_ASSIGN(auto policy, policy_of(options));
  if (policy) spec["policy"] = *std::move(policy);
  MEMBRANE_TRY(put_fields(options.fields, spec));
  if (!options.packages.empty()) spec["packages"] = options.packages;
  if (options.seals) spec["seal"] = true;
  return spec;
}

Result<int> create(const CreateOptions& options) {
  MEMBRANE_ASSIGN(const Json spec, spec_of(options));
  MEMBRANE_ASSIGN(Remote remote, Remote::open(options.remote));
  MEMBRANE_ASSIGN(const Json made, remote.send_json(json_request("POST", {"v1", "sandboxes"}, spec)));
  if (options.json) print_json(made);
  else print(text_at(made, "id") + "\n");
  return kExitOk;
}

// -- fork, pause, resume, snapshot, rm ------------------------------------------------------------------------------

constexpr uint32_t kMostForks = 256;  // as the service's own limit

struct SandboxOptions {
  RemoteOptions remote;
  std::vector<std::string> ids;
  uint32_t count = 1;
  bool json = false;
};

Result<int> fork(const SandboxOptions& options) {
  if (options.count < 1 || options.count > kMostForks)
    return fail(ErrorCode::kInvalidArgument,
                "-n " + std::to_string(options.count) + " is not a number of forks",
                "Use one from 1 to " + std::to_string(kMostForks) + ".");
  MEMBRANE_ASSIGN(Remote remote, Remote::open(options.remote));
  const auto request =
      json_request("POST", of_sandbox(options.ids.front(), {"fork"}), {{"count", options.count}});
  MEMBRANE_ASSIGN(const Json made, remote.send_json(request));
  if (options.json) {
    print_json(made);
  } else {
    for (const Json& each : list_at(made, "sandboxes")) print(text_at(each, "id") + "\n");
  }
  return kExitOk;
}

// One of the requests that only name an operation.
Result<int> act(const SandboxOptions& options, const char* action) {
  MEMBRANE_ASSIGN(Remote remote, Remote::open(options.remote));
  MEMBRANE_ASSIGN(const Json answer,
                  remote.send_json({.method = "POST", .path = of_sandbox(options.ids.front(), {action})}));
  if (options.json) print_json(answer);
  else print(text_at(answer, "id") + "\n");
  return kExitOk;
}

Result<int> remove(const SandboxOptions& options) {
  return remove_each(options.remote, options.ids, [](const std::string& id) { return of_sandbox(id); });
}

// -- approvals, approve ---------------------------------------------------------------------------------------------

Result<int> show_approvals(const SandboxOptions& options) {
  MEMBRANE_ASSIGN(Remote remote, Remote::open(options.remote));
  MEMBRANE_ASSIGN(const Json answer,
                  remote.send_json({.path = of_sandbox(options.ids.front(), {"approvals"})}));
  if (options.json) {
    print_json(answer);
    return kExitOk;
  }
  for (const Json& each : list_at(answer, "approvals")) {
    print(line_at(each, "id") + "  " + request_line(each) + "\n");
    for (const char* const kind : {"private_reads", "untrusted_reads"})
      for (const Json& read : list_at(each, kind))
        print(std::string("  ") + (kind[0] == 'p' ? "private: " : "untrusted: ") + line_at(read, "function") +
              (text_at(read, "target").empty() ? "" : " of " + line_at(read, "target")) + "\n");
  }
  return kExitOk;
}

struct ApproveOptions {
  RemoteOptions remote;
  std::string id, approval;
  bool is_denied = false;
};

Result<int> approve(const ApproveOptions& options) {
  MEMBRANE_ASSIGN(Remote remote, Remote::open(options.remote));
  const auto request = json_request("POST", of_sandbox(options.id, {"approvals", options.approval}),
                                    {{"allow", !options.is_denied}});
  MEMBRANE_ASSIGN(const auto sent, remote.send(request));
  static_cast<void>(sent);
  print(options.approval + (options.is_denied ? " is refused\n" : " is approved\n"));
  return kExitOk;
}

// -- ps -------------------------------------------------------------------------------------------------------------

struct ListOptions {
  RemoteOptions remote;
  std::string state, label;
  std::vector<std::string> metadata;
  bool json = false;
};

Result<Json> all_sandboxes(Remote& remote, const ListOptions& options) {
  Json all = Json::array();
  MEMBRANE_ASSIGN(const Json metadata, pairs_of("--metadata", options.metadata));
  for (std::string cursor;;) {
    RemoteRequest request{.path = {"v1", "sandboxes"}};
    if (!options.state.empty()) request.query.emplace_back("state", options.state);
    if (!options.label.empty()) request.query.emplace_back("label", options.label);
    for (const auto& [name, value] : metadata.items())
      request.query.emplace_back("metadata." + name, value.get<std::string>());
    if (!cursor.empty()) request.query.emplace_back("cursor", cursor);
    MEMBRANE_ASSIGN(const Json page, remote.send_json(request));
    for (const Json& each : list_at(page, "sandboxes")) all.push_back(each);
    cursor = text_at(page, "next_cursor");
    if (cursor.empty()) return all;
  }
}

std::string table_of(const Json& sandboxes) {
  constexpr const char* kHeads[] = {"ID", "TEMPLATE", "STATE", "CREATED", "EXPIRES", "LABELS"};
  std::vector<std::vector<std::string>> rows = {{std::begin(kHeads), std::end(kHeads)}};
  for (const Json& each : sandboxes) {
    std::string labels;
    for (const Json& label : list_at(each, "labels"))
      if (label.is_string()) labels += (labels.empty() ? "" : ",") + label.get<std::string>();
    rows.push_back({text_at(each, "id"), text_at(each, "template"), text_at(each, "state"),
                    text_at(each, "created_at"), text_at(each, "expires_at"), labels});
  }
  return table_text(rows);
}

Result<int> list(const ListOptions& options) {
  MEMBRANE_ASSIGN(Remote remote, Remote::open(options.remote));
  MEMBRANE_ASSIGN(const Json all, all_sandboxes(remote, options));
  if (options.json) print_json(Json{{"sandboxes", all}});
  else print(table_of(all));
  return kExitOk;
}

// -- The parser -----------------------------------------------------------------------------------------------------

void add_create(CLI::App& app, int& exit_code) {
  CLI::App* const command = app.add_subcommand("create", "Create a sandbox in a service, and print its id");
  const auto options = std::make_shared<CreateOptions>();
  CLI::Option* const of = command->add_option("--template", options->template_name,
                                              "Its template, from the list of membrane templates (python)");
  of->type_name("NAME");
  command->add_option("--snapshot", options->snapshot, "The snapshot to start from, instead of a template")
      ->type_name("ID");
  command->add_option("--ttl", options->fields.ttl, "Its time to live, as 10m, 1h or 2d")->type_name("TIME");
  command->add_option("--idle-timeout", options->fields.idle_timeout, "End it after this time without use")
      ->type_name("TIME");
  add_repeatable(*command, "--label", options->fields.labels,
                 "A label, by which ps finds it; may be repeated")
      ->type_name("LABEL");
  add_repeatable(*command, "--metadata", options->fields.metadata, "Metadata of your own; may be repeated")
      ->type_name("NAME=VALUE");
  add_repeatable(*command, "--env", options->fields.environment,
                 "A variable of its environment; may be repeated")
      ->type_name("NAME=VALUE");
  add_repeatable(*command, "--with", options->packages,
                 "A package that its programs can import; may be repeated")
      ->type_name("PACKAGE");
  command->add_flag("--seal", options->seals, "Have the service make a receipt of every exec");
  options->policy.add_to(*command, PolicyOptions::Of::kService, PolicyOptions::Kinds::kBoth);
  options->remote.add_to(*command);
  command->add_flag("--json", options->json, "Print the service's answer");
  command->footer(
      "Examples:\n  membrane create --template python --ttl 10m\n  membrane create --label demo --fuel 1e10");
  command->callback([options, of, &exit_code] {
    options->has_template = of->count() > 0;
    exit_code = finish(create(*options), options->json);
  });
}

using Act = Result<int> (*)(const SandboxOptions&);
// For one sandbox or, with `is_many`, for several.
void add_act(CLI::App& app, int& exit_code, const char* name, const char* help, const char* example, Act act,
             bool is_many = false) {
  CLI::App* const command = app.add_subcommand(name, help);
  const auto options = std::make_shared<SandboxOptions>();
  CLI::Option* const id = command->add_option("id", options->ids, is_many ? "The sandboxes" : "The sandbox");
  id->required()->type_name("ID");
  if (!is_many) id->expected(1);
  if (std::string_view(name) == "fork")
    command
        ->add_option("-n,--count", options->count,
                     "How many (default: 1); at most " + std::to_string(kMostForks))
        ->type_name("N");
  if (!is_many) command->add_flag("--json", options->json, "Print the service's answer");
  options->remote.add_to(*command);
  command->footer("Example:\n  " + std::string(example));
  command->callback([options, act, &exit_code] { exit_code = finish(act(*options), options->json); });
}

struct ResetOptions {
  RemoteOptions remote;
  std::string id, snapshot;
  bool json = false;
};

Result<int> reset(const ResetOptions& options) {
  MEMBRANE_ASSIGN(Remote remote, Remote::open(options.remote));
  MEMBRANE_ASSIGN(const Json answer, remote.send_json(json_request("POST", of_sandbox(options.id, {"reset"}),
                                                                   {{"snapshot", options.snapshot}})));
  if (options.json) print_json(answer);
  else print(text_at(answer, "id") + "\n");
  return kExitOk;
}

void add_reset(CLI::App& app, int& exit_code) {
  CLI::App* const command =
      app.add_subcommand("reset", "Restore a snapshot into a sandbox; its later state is lost");
  const auto options = std::make_shared<ResetOptions>();
  add_id(*command, options->id);
  command->add_option("snapshot", options->snapshot, "The snapshot to restore")
      ->required()
      ->type_name("SNAPSHOT");
  command->add_flag("--json", options->json, "Print the service's answer");
  options->remote.add_to(*command);
  command->footer("Example:\n  membrane reset $ID $SNAPSHOT");
  command->callback([options, &exit_code] { exit_code = finish(reset(*options), options->json); });
}

void add_approve(CLI::App& app, int& exit_code) {
  CLI::App* const command =
      app.add_subcommand("approve", "Approve a request that waits for a person, or refuse it");
  const auto options = std::make_shared<ApproveOptions>();
  add_id(*command, options->id);
  command->add_option("approval", options->approval, "Its id, from membrane approvals")
      ->required()
      ->type_name("APPROVAL");
  command->add_flag("--deny", options->is_denied, "Refuse it");
  options->remote.add_to(*command);
  command->footer("Example:\n  membrane approve $ID $APPROVAL --deny");
  command->callback([options, &exit_code] { exit_code = finish(approve(*options)); });
}

void add_ps(CLI::App& app, int& exit_code) {
  CLI::App* const command = app.add_subcommand("ps", "List the token's sandboxes in a service");
  const auto options = std::make_shared<ListOptions>();
  command->add_option("--state", options->state, "Only those in this state")->type_name("STATE");
  command->add_option("--label", options->label, "Only those with this label")->type_name("LABEL");
  add_repeatable(*command, "--metadata", options->metadata, "Only those with this metadata; may be repeated")
      ->type_name("NAME=VALUE");
  command->add_flag("--json", options->json, "Print them as JSON");
  options->remote.add_to(*command);
  command->footer("Example:\n  membrane ps --label demo");
  command->callback([options, &exit_code] { exit_code = finish(list(*options), options->json); });
}

}  // namespace

void add_remote(CLI::App& app, int& exit_code) {
  add_create(app, exit_code);
  add_remote_exec(app, exit_code);
  add_remote_copy(app, exit_code);
  add_remote_patch(app, exit_code);
  add_remote_info(app, exit_code);
  add_remote_update(app, exit_code);
  add_remote_contexts(app, exit_code);
  add_act(app, exit_code, "fork", "Create copies of a sandbox in its current state", "membrane fork $ID -n 8",
          fork);
  add_act(app, exit_code, "pause", "Save a sandbox of a service to disk, and stop it", "membrane pause $ID",
          [](const SandboxOptions& options) { return act(options, "pause"); });
  add_act(app, exit_code, "resume", "Bring a paused sandbox back", "membrane resume $ID",
          [](const SandboxOptions& options) { return act(options, "resume"); });
  add_act(app, exit_code, "snapshot", "Save the current state of a sandbox, and print the snapshot's id",
          "membrane snapshot $ID", [](const SandboxOptions& options) { return act(options, "snapshot"); });
  add_reset(app, exit_code);
  add_remote_snapshots(app, exit_code);  // and templates
  add_remote_tokens(app, exit_code);
  add_act(app, exit_code, "approvals", "Show which requests of a sandbox wait for a person, and why",
          "membrane approvals $ID", show_approvals);
  add_approve(app, exit_code);
  add_remote_execs(app, exit_code);
  add_remote_logs(app, exit_code);
  add_ps(app, exit_code);
  add_act(app, exit_code, "rm", "End sandboxes of a service", "membrane rm $ID", remove, true);
}

}  // namespace membrane::cli
