// membrane shell: a Linux sandbox on this terminal.

#include "cli/cli.h"
#include "cli/linux_run.h"

namespace membrane::cli {
namespace {

struct Options {
  std::string image;
  std::vector<std::string> words;  // the command, if it is no shell
  std::vector<std::string> environment;
  PolicyOptions policy;
};

std::atomic<bool> cancelled = false;

Result<int> shell(const Options& options) {
  LinuxCommand command;
  command.image = options.image;
  command.is_whole = true;
  command.arguments = options.words.empty() ? login_shell() : options.words;
  MEMBRANE_ASSIGN(command.environment, linux_environment(options.environment));
  MEMBRANE_ASSIGN(command.policy, options.policy.policy(terminal_limits()));
  command.has_terminal = true;
  MEMBRANE_ASSIGN(const sandbox::Report report, run_linux(command, cancelled));
  if (!report.errors.empty()) print(stderr, "membrane: " + report.errors.front().message + "\n");
  return exit_code_of(report);
}

}  // namespace

void add_shell(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<Options>();
  CLI::App* const command =
      app.add_subcommand("shell", "A shell, or COMMAND, in a Linux sandbox, on this terminal");
  command->add_option("command", options->words, "What runs, with its arguments (default: bash, or sh)")
      ->type_name("COMMAND");
  command->add_option("--image", options->image, "The image, or its file (default: debian)")
      ->type_name("IMAGE");
  add_repeatable(*command, "--env", options->environment,
                 "An environment variable; NAME alone passes the one of this process; may be repeated")
      ->type_name("NAME[=VALUE]");
  options->policy.add_to(*command, PolicyOptions::Of::kThisMachine, PolicyOptions::Kinds::kLinux);
  command->footer(
      "Examples:\n"
      "  membrane shell\n"
      "  membrane shell --image mine --memory 4G python3\n"
      "Every key goes to the sandbox, and what it prints drives this terminal, as with ssh. The sandbox ends "
      "with the command.\n"
      "Exit codes: that of the command; 128 and the signal's number when a signal ended it; 2 for what "
      "cannot "
      "be done; 3 when Membrane failed.");
  command->callback([options, &exit_code] {
    const Result<int> code = shell(*options);
    exit_code = code ? *code : complain(code.error());
  });
}

}  // namespace membrane::cli
