// membrane: runs the programs that a language model writes, inside a wall.

#include <algorithm>

#include "base/diagnostic.h"
#include "cli/cli.h"

namespace membrane::cli {
namespace {

std::vector<std::string> options_of(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* const option : command.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

std::vector<std::string> commands_of(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* const sub : command.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(sub->get_name());
  return names;
}

// What a person who typed `word` in the place of a command, or behind all arguments, probably meant.
std::string meant_by(const CLI::App& command, const std::string& word) {
  const std::string& name = command.get_name();
  if (name == "membrane" && word == "help") return "Write membrane --help, or membrane COMMAND --help. ";
  if (name == "membrane" && (word.ends_with(".wat") || word.ends_with(".wasm")))
    return "To run a program: membrane run " + word + ". ";
  if (name == "policy" && (word.ends_with(".toml") || word.ends_with(".json")))
    return "To read a policy: membrane policy explain " + word + ". ";
  if (name == "agent") return "Put quotes around the task. ";
  return {};
}

// The model is named by the environment, not by options, as other programs have them.
std::string_view variable_for(const CLI::App& command, std::string_view option) {
  if (command.get_name() != "agent" && command.get_name() != "run") return {};
  if (option == "--model" || option == "-m") return "MEMBRANE_MODEL";
  if (option == "--base-url" || option == "--url") return "MEMBRANE_BASE_URL";
  return option == "--api-key" || option == "--key" ? "MEMBRANE_API_KEY" : "";
}

// With --json even a request that cannot be read is answered by JSON. The parser may have stopped before the flag.
Reader reader_of(const CLI::App& command, const std::vector<std::string_view>& arguments) {
  if (command.get_option_no_throw("--json") == nullptr) return Reader::kPerson;
  const auto end = std::ranges::find(arguments, "--");
  if (std::find(arguments.begin(), end, "--json") == end) return Reader::kPerson;
  return command.get_name() == "run" ? Reader::kReport : Reader::kJson;
}

// What was typed is not what the command takes.
int complain_of_usage(const CLI::App& app, const CLI::ParseError& error,
                      const std::vector<std::string_view>& arguments) {
  const CLI::App* command = &app;
  std::string path = app.get_name();
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().front();
    path += " " + command->get_name();
  }
  std::string message = error.what();
  std::string hint = "\"" + path + " --help\" says what can be given.";
  const auto code = static_cast<CLI::ExitCodes>(error.get_exit_code());
  const bool is_unknown = code == CLI::ExitCodes::ExtrasError || code == CLI::ExitCodes::RequiredError;
  if (const std::vector<std::string> unknown = command->remaining(); is_unknown && !unknown.empty()) {
    const std::string word = unknown.front().substr(0, unknown.front().find('='));
    const bool is_option = word.starts_with('-');
    const std::vector<std::string> known = is_option ? options_of(*command) : commands_of(*command);
    message = (is_option       ? "unknown option "
               : known.empty() ? "unexpected argument "
                               : "unknown command ") +
              word;
    const std::string_view near = nearest(word, {known.begin(), known.end()});
    if (const std::string_view variable = variable_for(*command, word); !variable.empty())
      hint = "The environment says so: export " + std::string(variable) + "=… (docs/agent.md). " + hint;
    else if (!near.empty()) hint = "Did you mean " + std::string(near) + "? " + hint;
    else if (!is_option) hint = meant_by(*command, word) + hint;
  } else if (is_unknown) {
    if (const std::vector<std::string> known = commands_of(*command); !known.empty()) {
      message = "no command is given; there are";
      for (const std::string& each : known) message += (&each == &known.front() ? " " : ", ") + each;
    }
  }
  return complain({ErrorCode::kInvalidArgument, message, hint}, reader_of(*command, arguments));
}

}  // namespace
}  // namespace membrane::cli

int main(int argc, char** argv) {
  using namespace membrane::cli;
  CLI::App app(
      "Runs the programs that a language model writes, where they can do only what they were granted.",
      "membrane");
  app.set_version_flag("--version", "membrane " MEMBRANE_VERSION);
  app.require_subcommand(1);
  app.footer(
      "Examples:\n"
      "  membrane run module.wasm --invoke add 2 2\n"
      "  membrane run program.wat --allow 'http:GET:https://example.org/*' --fuel 1000000\n"
      "  membrane thaw program.snap --fuel 1e9\n"
      "  membrane check program.wat --json\n"
      "  membrane agent \"Which of the papers on http://127.0.0.1:8000/ is newest?\" --policy policy.toml\n"
      "  membrane policy explain policy.toml\n\n"
      "Exit codes: 0 fine; 1 the program failed; 2 the request was denied, invalid or misspelt; 3 Membrane "
      "failed; 4 the program is frozen.");
  int exit_code = kExitOk;
  add_run(app, exit_code);
  add_thaw(app, exit_code);
  add_repl(app, exit_code);
  add_template(app, exit_code);
  add_check(app, exit_code);
  add_agent(app, exit_code);
  add_policy(app, exit_code);
  add_capabilities(app, exit_code);
  add_spectest(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return error.get_exit_code() == 0 ? app.exit(error) : complain_of_usage(app, error, {argv, argv + argc});
  }
  return exit_code;
}
