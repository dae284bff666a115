// membrane: runs the programs that a language model writes, inside a wall.

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "base/standard_files.h"
#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/usage_error.h"

namespace membrane::cli {
namespace {

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

int run_command(std::vector<std::string> words) {
  int exit_code = kExitOk;
  const bool asks_for_help = !words.empty() && words.front() == "help";
  if (asks_for_help) words.erase(words.begin());
  const auto app = make_app(exit_code, words.empty() ? "" : words.front());
  words = with_own_verb(*app, std::move(words));
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
    return error.get_exit_code() == 0 ? app->exit(error) : complain(usage_error(*app, error), reader);
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
