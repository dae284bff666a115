// Commands for a service: context, contexts, contexts rm.

#include "cli/cli.h"
#include "cli/command_remote.h"
#include "cli/remote.h"

namespace membrane::cli {
namespace {

struct ContextOptions {
  RemoteOptions remote;
  std::string id, template_name;
  bool json = false;
};

Result<int> open(const ContextOptions& options) {
  Json spec = Json::object();
  if (!options.template_name.empty()) spec["template"] = options.template_name;
  MEMBRANE_ASSIGN(Remote remote, Remote::open(options.remote));
  MEMBRANE_ASSIGN(const Json made,
                  remote.send_json(json_request("POST", of_sandbox(options.id, {"contexts"}), spec)));
  if (options.json) print_json(made);
  else print(text_at(made, "id") + "\n");
  return kExitOk;
}

Result<int> list(const ContextOptions& options) {
  if (options.id.empty())
    return fail(ErrorCode::kInvalidArgument, "the sandbox is missing", "Pass its id: membrane contexts ID");
  MEMBRANE_ASSIGN(Remote remote, Remote::open(options.remote));
  MEMBRANE_ASSIGN(const Json answer, remote.send_json({.path = of_sandbox(options.id, {"contexts"})}));
  if (options.json) {
    print_json(answer);
    return kExitOk;
  }
  std::vector<std::vector<std::string>> rows = {{"ID", "TEMPLATE", "CREATED"}};
  for (const Json& each : list_at(answer, "contexts"))
    rows.push_back({text_at(each, "id"), text_at(each, "template"), text_at(each, "created_at")});
  print(table_text(rows));
  return kExitOk;
}

struct CloseOptions {
  RemoteOptions remote;
  std::string id;
  std::vector<std::string> contexts;
};

Result<int> close(const CloseOptions& options) {
  return remove_each(options.remote, options.contexts, [&](const std::string& context) {
    return of_sandbox(options.id, {"contexts", context});
  });
}

void add_context(CLI::App& app, int& exit_code) {
  CLI::App* const command = app.add_subcommand(
      "context", "Open a context of a sandbox, with its own variables and files, and print its id");
  const auto options = std::make_shared<ContextOptions>();
  add_id(*command, options->id);
  command->add_option("--template", options->template_name, "Its language (the sandbox's)")
      ->type_name("NAME");
  command->add_flag("--json", options->json, "Print the service's answer");
  options->remote.add_to(*command);
  command->footer(
      "exec --context and cp --context use it; contexts lists those of a sandbox, contexts rm closes "
      "them.\n\n"
      "Example:\n  membrane context $ID --template javascript");
  command->callback([options, &exit_code] { exit_code = finish(open(*options), options->json); });
}

void add_close(CLI::App& group, int& exit_code) {
  CLI::App* const command = group.add_subcommand("rm", "Close contexts of a sandbox");
  const auto options = std::make_shared<CloseOptions>();
  add_id(*command, options->id);
  command->add_option("context", options->contexts, "The contexts")->required()->type_name("CONTEXT");
  options->remote.add_to(*command);
  command->footer("Example:\n  membrane contexts rm $ID $CONTEXT");
  command->callback([options, &exit_code] { exit_code = finish(close(*options)); });
}

}  // namespace

void add_remote_contexts(CLI::App& app, int& exit_code) {
  add_context(app, exit_code);
  CLI::App* const command = app.add_subcommand("contexts", "List the contexts that were opened in a sandbox");
  const auto options = std::make_shared<ContextOptions>();
  // Not required by the parser, which would also demand it for `contexts rm`.
  command->add_option("id", options->id, "The sandbox")->type_name("ID");
  command->add_flag("--json", options->json, "Print them as JSON");
  options->remote.add_to(*command);
  command->footer("Example:\n  membrane contexts $ID");
  add_close(*command, exit_code);
  command->callback([options, command, &exit_code] {
    if (command->get_subcommands().empty()) exit_code = finish(list(*options), options->json);
  });
}

}  // namespace membrane::cli
