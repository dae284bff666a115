// Commands for a service: snapshots, snapshots rm, snapshots promote; templates, templates rm.

#include "cli/cli.h"
#include "cli/command_remote.h"
#include "cli/remote.h"

namespace membrane::cli {
namespace {

struct SnapshotsOptions {
  RemoteOptions remote;
  bool json = false;
};

std::string table_of(const Json& snapshots) {
  std::vector<std::vector<std::string>> rows = {{"ID", "SANDBOX", "TEMPLATE", "NAME", "CREATED", "BYTES"}};
  for (const Json& each : snapshots)
    rows.push_back({text_at(each, "id"), text_at(each, "sandbox"), text_at(each, "template"),
                    text_at(each, "name"), text_at(each, "created_at"),
                    std::to_string(number_at(each, "size_bytes"))});
  return table_text(rows);
}

Result<int> list(const SnapshotsOptions& options) {
  MEMBRANE_ASSIGN(Remote remote, Remote::open(options.remote));
  MEMBRANE_ASSIGN(const Json answer, remote.send_json({.path = {"v1", "snapshots"}}));
  if (options.json) print_json(answer);
  else print(table_of(list_at(answer, "snapshots")));
  return kExitOk;
}

Result<int> list_templates(const SnapshotsOptions& options) {
  MEMBRANE_ASSIGN(Remote remote, Remote::open(options.remote));
  MEMBRANE_ASSIGN(const Json answer, remote.send_json({.path = {"v1", "templates"}}));
  if (options.json) {
    print_json(answer);
    return kExitOk;
  }
  std::vector<std::vector<std::string>> rows = {{"NAME", "VERSION", "DESCRIPTION"}};
  for (const Json& each : list_at(answer, "templates"))
    rows.push_back({text_at(each, "name"), text_at(each, "version"), text_at(each, "description")});
  print(table_text(rows));
  return kExitOk;
}

struct RemoveOptions {
  RemoteOptions remote;
  std::vector<std::string> ids;
};

Result<int> remove(const RemoveOptions& options) {
  return remove_each(options.remote, options.ids,
                     [](const std::string& id) { return std::vector<std::string>{"v1", "snapshots", id}; });
}

Result<int> remove_templates(const RemoveOptions& options) {
  return remove_each(options.remote, options.ids, [](const std::string& name) {
    return std::vector<std::string>{"v1", "templates", name};
  });
}

struct PromoteOptions {
  RemoteOptions remote;
  std::string id, name;
};

Result<int> promote(const PromoteOptions& options) {
  MEMBRANE_ASSIGN(Remote remote, Remote::open(options.remote));
  MEMBRANE_ASSIGN(const Json named,
                  remote.send_json(json_request("POST", {"v1", "snapshots", options.id, "promote"},
                                                {{"name", options.name}})));
  print(text_at(named, "name") + "\n");
  return kExitOk;
}

void add_remove(CLI::App& group, int& exit_code) {
  CLI::App* const command = group.add_subcommand("rm", "Remove snapshots; sandboxes created from them stay");
  const auto options = std::make_shared<RemoveOptions>();
  command->add_option("id", options->ids, "The snapshots")->required()->type_name("ID");
  options->remote.add_to(*command);
  command->footer(
      "A snapshot with a template can be removed only after it: membrane templates rm.\n\n"
      "Example:\n  membrane snapshots rm $SNAPSHOT");
  command->callback([options, &exit_code] { exit_code = finish(remove(*options)); });
}

void add_promote(CLI::App& group, int& exit_code) {
  CLI::App* const command =
      group.add_subcommand("promote", "Name a snapshot, so that create --template can use it");
  const auto options = std::make_shared<PromoteOptions>();
  command->add_option("id", options->id, "The snapshot")->required()->type_name("ID");
  command->add_option("name", options->name, "Its name: lower-case letters, digits, and - _ .")
      ->required()
      ->type_name("NAME");
  options->remote.add_to(*command);
  command->footer("Example:\n  membrane snapshots promote $SNAPSHOT analysis");
  command->callback([options, &exit_code] { exit_code = finish(promote(*options)); });
}

void add_remove_templates(CLI::App& group, int& exit_code) {
  CLI::App* const command = group.add_subcommand(
      "rm", "Remove templates made from snapshots; the snapshots and their sandboxes stay");
  const auto options = std::make_shared<RemoveOptions>();
  command->add_option("name", options->ids, "The templates")->required()->type_name("NAME");
  options->remote.add_to(*command);
  command->footer("Example:\n  membrane templates rm analysis");
  command->callback([options, &exit_code] { exit_code = finish(remove_templates(*options)); });
}

void add_templates(CLI::App& app, int& exit_code) {
  CLI::App* const command = app.add_subcommand("templates", "List the templates of a service");
  const auto options = std::make_shared<SnapshotsOptions>();
  command->add_flag("--json", options->json, "Print them as JSON");
  options->remote.add_to(*command);
  command->footer("Its languages, and the snapshots that were promoted.\n\nExample:\n  membrane templates");
  add_remove_templates(*command, exit_code);
  command->callback([options, command, &exit_code] {
    if (command->get_subcommands().empty()) exit_code = finish(list_templates(*options), options->json);
  });
}

}  // namespace

void add_remote_snapshots(CLI::App& app, int& exit_code) {
  CLI::App* const command = app.add_subcommand("snapshots", "List the token's snapshots in a service");
  const auto options = std::make_shared<SnapshotsOptions>();
  command->add_flag("--json", options->json, "Print them as JSON");
  options->remote.add_to(*command);
  command->footer("Example:\n  membrane snapshots");
  add_remove(*command, exit_code);
  add_promote(*command, exit_code);
  add_templates(app, exit_code);
  command->callback([options, command, &exit_code] {
    if (command->get_subcommands().empty()) exit_code = finish(list(*options), options->json);
  });
}

}  // namespace membrane::cli
