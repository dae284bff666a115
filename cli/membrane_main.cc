// membrane: runs the programs that a language model writes, inside a wall.

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/diagnostic.h"
#include "base/standard_files.h"
#include "cli/arguments.h"
#include "cli/cli.h"

namespace membrane::cli {
namespace {

std::vector<std::string> commands_of(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* const sub : command.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(sub->get_name());
  return names;
}

// A file, or a command with this name.
bool is_program(const std::string& word) {
  std::error_code error;
  if (std::filesystem::is_regular_file(word, error)) return true;
  constexpr std::string_view kEndings[] = {".wat", ".wasm", ".py", ".js", ".mjs", ".ts"};
  return std::ranges::any_of(kEndings, [&](std::string_view ending) { return word.ends_with(ending); });
}

// What a person who typed `word` in the place of a command, or after all arguments, probably meant.
std::string meant_by(const CLI::App& command, const std::string& word) {
  const std::string& name = command.get_name();
  if (name == "membrane" && is_program(word)) return "To run a program: membrane run " + word + ". ";
  if (name == "policy" && (word.ends_with(".toml") || word.ends_with(".json")))
    return "To read a policy: membrane policy explain " + word + ". ";
  if (name == "agent") return "Put quotes around the task. ";
  return {};
}

// The model is named by the environment, not by options, unlike in other programs.
std::string_view variable_for(const CLI::App& command, std::string_view option) {
  if (command.get_name() != "agent" && command.get_name() != "run") return {};
  if (option == "--model" || option == "-m") return "MEMBRANE_MODEL";
  if (option == "--base-url" || option == "--url") return "MEMBRANE_BASE_URL";
  return option == "--api-key" || option == "--key" ? "MEMBRANE_API_KEY" : "";
}

// With --json even an invalid command line is answered with JSON. The parser may have stopped before the
// flag.
Reader reader_of(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* command = &app;
  for (const std::string& word : words) {
    const auto named = command->get_subcommands([&](const CLI::App* sub) { return sub->check_name(word); });
    if (named.empty()) break;
    command = named.front();
  }
  if (command->get_option_no_throw("--json") == nullptr) return Reader::kPerson;
  const auto end = std::ranges::find(words, "--");
  if (std::find(words.begin(), end, "--json") == end) return Reader::kPerson;
  return command->get_name() == "run" ? Reader::kReport : Reader::kJson;
}

// What the command will need, as far as the words show before they are parsed as options.
std::optional<EarlyProcess> early_process(const std::vector<std::string_view>& words) {
  if (words.empty()) return std::nullopt;
  const auto end = std::ranges::find(words, "--");
  const auto says_otherwise = [](std::string_view word) {
    return word == "--in-process" || word == "--help" || word == "-h" || word == "linux" ||
           word == "--kind=linux";
  };
  if (std::find_if(words.begin(), end, says_otherwise) != end) return std::nullopt;
  if (words[0] == "run" || words[0] == "thaw" || words[0] == "check") return EarlyProcess::kWorker;
  if (words[0] == "repl" || words[0] == "agent" || words[0] == "mcp" || words[0] == "replay")
    return EarlyProcess::kZygote;
  return std::nullopt;
}

// "membrane help" is membrane --help, and "membrane help image build" membrane image build --help. `words` are
// those after "help". A word that is no command remains the last one, which the parser reports.
std::vector<std::string> words_of_help(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* command = &app;
  std::vector<std::string> path;
  for (const std::string& word : words) {
    if (word.starts_with('-') || commands_of(*command).empty()) break;
    path.push_back(word);
    const auto named = command->get_subcommands([&](const CLI::App* sub) { return sub->check_name(word); });
    if (named.empty()) return path;
    command = named.front();
  }
  path.emplace_back("--help");
  return path;
}

// Reports an invalid command line.
int complain_of_usage(const CLI::App& app, const CLI::ParseError& error, Reader reader) {
  const CLI::App* command = &app;
  std::string path = app.get_name();
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().front();
    path += " " + command->get_name();
  }
  std::string message = error.what();
  std::string hint = "\"" + path + " --help\" lists the options.";
  const auto code = static_cast<CLI::ExitCodes>(error.get_exit_code());
  std::vector<std::string> unknown = command->remaining();
  std::erase(unknown, "--");
  const bool has_unknown_option =
      std::ranges::any_of(unknown, [](const std::string& word) { return word.starts_with('-'); });
  const bool is_too_many = code == CLI::ExitCodes::ArgumentMismatch && message.contains("At Most");
  if (is_too_many) {
    const std::string name = message.substr(0, message.find(':'));
    const bool is_option = name.starts_with('-');
    message =
        is_option ? name + " is given more than once" : "there are more arguments than " + name + " accepts";
    if (is_option) hint = "Give it once. " + hint;
  }
  constexpr std::string_view kRequired = " required ",
                             kMissing = " missing";  // "--fuel: 1 required N missing"
  const size_t required = message.find(kRequired);
  if (code == CLI::ExitCodes::ArgumentMismatch && required != std::string::npos &&
      message.ends_with(kMissing)) {
    const size_t type = required + kRequired.size();
    message = message.substr(0, message.find(':')) +
              " needs a value: " + message.substr(type, message.size() - kMissing.size() - type);
  }
  const bool is_unknown = code == CLI::ExitCodes::ExtrasError || code == CLI::ExitCodes::RequiredError ||
                          (is_too_many && has_unknown_option);
  if (is_unknown && !unknown.empty()) {
    const std::string word = unknown.front().substr(0, unknown.front().find('='));
    const bool is_option = word.starts_with('-');
    const std::vector<std::string> known = commands_of(*command);
    message = (is_option       ? "unknown option "
               : known.empty() ? "unexpected argument "
                               : "unknown command ") +
              word;
    const std::string near = is_option ? option_meant_by(*command, word)
                                       : std::string(nearest(word, {known.begin(), known.end()}));
    if (const std::string_view variable = variable_for(*command, word); !variable.empty())
      hint = "Set it in the environment: export " + std::string(variable) + "=… (docs/agent.md). " + hint;
    else if (!near.empty()) hint = "Did you mean " + near + "? " + hint;
    else if (!is_option) hint = meant_by(*command, word) + hint;
  } else if (is_unknown) {
    if (const std::vector<std::string> known = commands_of(*command); command == &app) {
      message = "no command was given";
      hint = "membrane run FILE runs a program; membrane help lists all commands.";
    } else if (!known.empty()) {
      message = path + " needs a command: ";
      for (const std::string& each : known)
        message += (&each == &known.front() ? "" : &each == &known.back() ? " or " : ", ") + each;
    }
  }
  return complain({ErrorCode::kInvalidArgument, message, hint}, reader);
}

int run_command(std::vector<std::string> words) {
  int exit_code = kExitOk;
  const bool asks_for_help = !words.empty() && words.front() == "help";
  if (asks_for_help) words.erase(words.begin());
  const auto app = make_app(exit_code, words.empty() ? "" : words.front());
  if (asks_for_help) words = words_of_help(*app, words);
  if (words == std::vector<std::string>{"version"}) words = {"--version"};
  app->set_version_flag("-V,--version", "membrane " MEMBRANE_VERSION);
  const Reader reader = reader_of(*app, words);
  if (auto ordered = order_arguments(*app, std::move(words))) words = std::move(*ordered);
  else return complain(ordered.error(), reader);
  try {
    std::ranges::reverse(words);  // as the parser wants them
    app->parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    return error.get_exit_code() == 0 ? app->exit(error) : complain_of_usage(*app, error, reader);
  }
  return exit_code;
}

// Not everything may have reached a full disk.
int finish_output(int exit_code) {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return exit_code;
  const std::string why = errno == 0 ? "" : std::string(": ") + std::strerror(errno);
  const int code = complain({ErrorCode::kInternal, "cannot write standard output" + why,
                             "What it has is not whole: its disk may be full."});
  return exit_code == kExitOk ? code : exit_code;
}

}  // namespace
}  // namespace membrane::cli

int main(int argc, char** argv) {
  using namespace membrane::cli;
  membrane::open_standard_files();
  if (const auto early = early_process({argv + std::min(argc, 1), argv + argc})) start_early(*early);
  const int exit_code = finish_output(run_command({argv + std::min(argc, 1), argv + argc}));
  end_early();
  if (exit_code != kEndBySignal) return exit_code;
  std::signal(SIGINT, SIG_DFL);
  std::raise(SIGINT);
  return kExitGuest;  // where SIGINT is blocked
}
