#include "cli/usage_error.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include "base/diagnostic.h"
#include "cli/arguments.h"

namespace membrane::cli {
namespace {

using enum CLI::ExitCodes;

// The command that the words name, and its whole name.
struct Named {
  const CLI::App* command;
  std::string path;
};

Named named_command(const CLI::App& app) {
  Named named{&app, app.get_name()};
  while (!named.command->get_subcommands().empty()) {
    named.command = named.command->get_subcommands().front();
    named.path += " " + named.command->get_name();
  }
  return named;
}

bool is_option(std::string_view word) { return word.starts_with('-'); }

Error invalid(std::string message, std::string hint) {
  return {ErrorCode::kInvalidArgument, std::move(message), std::move(hint)};
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

Error unknown_option(const CLI::App& command, const std::string& option, const std::string& help) {
  const std::string message = "unknown option " + option;
  if (const std::string_view variable = variable_for(command, option); !variable.empty())
    return invalid(message, "Set it in the environment: export " + std::string(variable) +
                                "=… (docs/agent.md). " + help);
  const std::string hint = hint_for_option(command, option);
  return invalid(message, hint.empty() ? help : hint + " " + help);
}

// How a command of docker, or of other programs, is written here; "" for another word.
std::string_view command_for(const CLI::App& command, std::string_view word) {
  constexpr std::pair<std::string_view, std::string_view> kOthers[] = {
      {"images", "membrane image ls lists the images."},
      {"rmi", "membrane image rm NAME removes an image."},
      {"build", "membrane image build -t NAME . makes an image from a Dockerfile."},
      {"pull",
       "No registry is asked: membrane image import FILE.tar --tag NAME imports what `docker save` wrote."},
      {"inspect", "membrane info ID shows a sandbox."},
      {"kill", "membrane rm ID ends a sandbox, and membrane cancel stops one exec of it."},
      {"stop", "membrane pause ID saves a sandbox and stops it; membrane rm ID ends it."},
      {"start", "membrane create creates a sandbox; membrane resume ID brings a paused one back."},
      {"up", "membrane serve starts the service; membrane create creates a sandbox in it."},
      {"down", "membrane rm ID ends a sandbox."},
      {"attach", "membrane shell ID is a shell in a Linux sandbox of a service."},
      {"ls", "membrane ps lists the sandboxes of a service, membrane image ls the images."},
      {"list", "membrane ps lists the sandboxes of a service, membrane image ls the images."},
      {"install", "Packages: membrane run --with NAME; languages: membrane languages add python."}};
  if (command.get_name() != "membrane") return {};
  const auto* const found =
      std::ranges::find(kOthers, word, &std::pair<std::string_view, std::string_view>::first);
  return found == std::end(kOthers) ? std::string_view() : found->second;
}

Error unknown_word(const CLI::App& command, const std::string& word, const std::string& help) {
  const std::vector<std::string> known = commands_of(command);
  const std::string message = (known.empty() ? "unexpected argument " : "unknown command ") + word;
  if (const std::string_view here = command_for(command, word); !here.empty())
    return invalid(message, std::string(here) + " " + help);
  const std::string meant(nearest(word, {known.begin(), known.end()}));
  return invalid(message, (meant.empty() ? meant_by(command, word) : "Did you mean " + meant + "? ") + help);
}

Error missing_command(const std::string& path, const std::vector<std::string>& known,
                      const std::string& help) {
  std::string message = path + " needs a command: ";
  for (const std::string& each : known)
    message += (&each == &known.front() ? "" : &each == &known.back() ? " or " : ", ") + each;
  return invalid(std::move(message), help);
}

// The parser's "NAME: 1 required N missing", and "NAME: At Most …".
Error wrong_number(const std::string& message, const std::string& help) {
  constexpr std::string_view kRequired = " required ", kMissing = " missing";
  const std::string name = message.substr(0, message.find(':'));
  if (message.contains("At Most"))
    return is_option(name) ? invalid(name + " is given more than once", "Give it once. " + help)
                           : invalid("there are more arguments than " + name + " accepts", help);
  const size_t required = message.find(kRequired);
  if (required == std::string::npos || !message.ends_with(kMissing)) return invalid(message, help);
  const size_t type = required + kRequired.size();
  return invalid(name + " needs a value: " + message.substr(type, message.size() - kMissing.size() - type),
                 help);
}

// An option that is typed before the command. Its value, which may be a secret, is not repeated.
std::optional<Error> misplaced_option(const CLI::App& app, const Named& named, const std::string& help) {
  for (const std::string& word : app.remaining()) {
    if (!is_option(word) || word == "--") continue;
    const std::string option = word.substr(0, word.find('='));
    const bool is_of_command = named.command->get_option_no_throw(option) != nullptr;
    return invalid(is_of_command ? option + " comes after the command" : "unknown option " + option,
                   (is_of_command ? "Write " + named.path + " " + option + " …. " : "") + help);
  }
  return std::nullopt;
}

// The parser's "--detach excludes --interactive".
std::string without_excludes(std::string message) {
  constexpr std::string_view kExcludes = " excludes ";
  const size_t at = message.find(kExcludes);
  return at == std::string::npos ? message
                                 : message.replace(at, kExcludes.size(), " and ") + " exclude each other";
}

}  // namespace

std::vector<std::string> commands_of(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* const sub : command.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(sub->get_name());
  return names;
}

Error usage_error(const CLI::App& app, const CLI::ParseError& error) {
  const auto [command, path] = named_command(app);
  const std::string help = "\"" + path + " --help\" lists the options.";
  const std::string message = error.what();
  const auto code = static_cast<CLI::ExitCodes>(error.get_exit_code());
  std::vector<std::string> unknown = command->remaining();
  std::erase(unknown, "--");
  const bool is_incomplete = code == ExtrasError || code == RequiredError;
  // An unknown option also makes its value one argument too many.
  const bool explains_excess =
      code == ArgumentMismatch && message.contains("At Most") && std::ranges::any_of(unknown, is_option);
  if (!unknown.empty() && (is_incomplete || explains_excess)) {
    const std::string word = unknown.front().substr(0, unknown.front().find('='));
    return is_option(word) ? unknown_option(*command, word, help) : unknown_word(*command, word, help);
  }
  if (command != &app)
    if (auto misplaced = misplaced_option(app, {command, path}, help); misplaced && code == ExtrasError)
      return *std::move(misplaced);
  if (is_incomplete && command == &app)
    return invalid("no command was given",
                   "membrane run FILE runs a program; membrane help lists all commands.");
  if (const std::vector<std::string> known = commands_of(*command); is_incomplete && !known.empty())
    return missing_command(path, known, help);
  if (code == ArgumentMismatch) return wrong_number(message, help);
  return invalid(code == ExcludesError ? without_excludes(message) : message, help);
}

}  // namespace membrane::cli
