// membrane shell: a Linux sandbox on this terminal.

#include "cli/cli.h"
#include "cli/linux_run.h"
#include "cli/remote_shell.h"

namespace membrane::cli {
namespace {

struct Options {
  std::string image, directory;
  std::vector<std::string> words;  // the command, if not a shell
  std::vector<std::string> environment;
  PolicyOptions policy;
  RemoteOptions remote;
};

std::atomic<bool> cancelled = false;

// The first word is a sandbox of a service, whose settings are fixed.
Result<int> shell_there(const Options& options) {
  if (!options.image.empty() || !options.policy.is_empty())
    return fail(ErrorCode::kInvalidArgument,
                "the sandbox " + options.words.front() + " has its image and its policy already",
                "Remove --image, --policy, grants and limits.");
  RemoteShell shell = {.remote = options.remote,
                       .sandbox = options.words.front(),
                       .command = {},
                       .environment = {},
                       .directory = options.directory};
  shell.command.assign(options.words.begin() + 1, options.words.end());
  if (shell.command.empty()) shell.command = login_shell();
  MEMBRANE_ASSIGN(shell.environment, linux_environment(options.environment));
  return run_remote_shell(shell, cancelled);
}

Result<int> shell(const Options& options) {
  if (!options.words.empty() && is_sandbox_id(options.words.front())) return shell_there(options);
  LinuxCommand command;
  command.image = options.image;
  command.directory = options.directory;
  command.is_whole = true;
  command.arguments = options.words.empty() ? login_shell() : options.words;
  MEMBRANE_ASSIGN(command.environment, linux_environment(options.environment));
  MEMBRANE_ASSIGN(command.policy, linux_policy(options.policy, terminal_limits()));
  command.has_terminal = true;
  constexpr int kNotThere = 127;
  auto ran = run_linux(command, cancelled);
  if (std::string hint = options.image.empty() ? hint_at_image("shell", options.words) : ""; !hint.empty()) {
    if (!ran) ran = fail(ran.error().code, options.words.front() + " is an image", std::move(hint));
    else if (ran->exit_code == kNotThere && !ran->errors.empty()) ran->errors.front().hint = std::move(hint);
  }
  MEMBRANE_ASSIGN(const sandbox::Report report, std::move(ran));
  if (!report.errors.empty()) {
    const sandbox::ReportError& error = report.errors.front();
    print(stderr, "membrane: " + error.message + "\n");
    if (!error.hint.empty()) print(stderr, "  hint: " + error.hint + "\n");
  }
  return exit_code_of(report);
}

}  // namespace

void add_shell(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<Options>();
  CLI::App* const command =
      app.add_subcommand("shell", "Run a shell, or COMMAND, in a Linux sandbox on this terminal");
  command
      ->add_option(
          "command", options->words,
          "What runs, with its arguments (default: bash, or sh); after the id of a service's sandbox there")
      ->type_name("[ID] [COMMAND]");
  command->add_option("--image", options->image, "The image, or its file (default: debian)")
      ->type_name("IMAGE");
  command
      ->add_option("-w,--workdir", options->directory,
                   "Where it begins (default: as the image says, /work where that is granted, else /root)")
      ->type_name("DIR");
  add_repeatable(*command, "--env", options->environment,
                 "An environment variable; NAME alone passes the one of this process; may be repeated")
      ->type_name("NAME[=VALUE]");
  options->remote.add_to(*command);
  options->policy.add_to(*command, PolicyOptions::Of::kThisMachine, PolicyOptions::Kinds::kLinux);
  command->footer(
      "Examples:\n"
      "  membrane shell\n"
      "  membrane shell --image mine --memory 4G python3\n"
      "  membrane shell $(membrane create --template linux)\n"
      "Every key goes to the sandbox, and what it prints drives this terminal, as with ssh. The sandbox ends "
      "with the command; a service's stays, and its command is hung up when this terminal goes away.\n"
      "Exit codes: that of the command; 128 and the signal's number when a signal ended it; 127 "
      "for a program that does not exist, 126 for a file that is not a program; 2 for an invalid request; 3 "
      "when Membrane "
      "failed.");
  command->callback([options, &exit_code] {
    const Result<int> code = shell(*options);
    exit_code = code ? *code : complain(code.error());
  });
}

}  // namespace membrane::cli
