#include "cli/linux_run.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <ranges>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/outer_terminal.h"
#include "computers/description.h"
#include "computers/directories/directory_broker.h"
#include "computers/network/gateway.h"
#include "computers/outcome.h"
#include "computers/patch.h"
#include "computers/settings.h"
#include "computers/users.h"
#include "linux/image/layer.h"
#include "linux/platform/choice.h"
#include "linux/sandbox/computer.h"
#include "linux/sandbox/live_computer.h"

namespace membrane::cli {

namespace {

Result<linux::Computer> computer_of(const LinuxCommand& command) {
  linux::Computer computer;
  MEMBRANE_ASSIGN(const linux::StoredImage image, find_image_or_usual(command.image));
  computer.image = image.path;
  computer.arguments = command.arguments;
  if (!command.is_whole) {
    MEMBRANE_ASSIGN(computer.arguments, computers::arguments_of(image.config, command.arguments));
  }
  MEMBRANE_ASSIGN(const auto layer, linux::Layer::open(image.path));
  MEMBRANE_ASSIGN(const computers::User user, computers::find_user(image.config.user, *layer));
  computer.user = user.user;
  computer.group = user.group;
  computer.environment = computers::environment_of(image.config);
  computers::set_home(computer.environment, image.config, user);
  if (command.has_terminal) {
    const char* const term = std::getenv("TERM");
    computers::add_environment(computer.environment,
                               {std::string("TERM=") + (term == nullptr || *term == '\0' ? "xterm" : term)});
    computer.terminal = OuterTerminal::size();
  }
  computers::add_environment(computer.environment, command.environment);
  computers::add_authority_variables(computer.environment, command.policy.http);
  computer.directory =
      command.directory.empty() ? computers::directory_of(image.config, command.policy) : command.directory;
  const policy::Limits& limits = command.policy.limits;
  computer.limits = computers::limits_of(limits);
  computer.limits.output_bytes = limits.output_bytes;
  computer.deterministic = command.deterministic;
  computer.platform = command.platform.empty() ? command.policy.platform : command.platform;
  computer.limits.wall = std::chrono::milliseconds(limits.wall_ms);
  return computer;
}

// Checked before the command runs, so that a wrong path does not cost its work.
Status check_diff_file(const std::string& file) {
  if (file.empty() || std::ofstream(file, std::ios::binary | std::ios::app)) return {};
  return fail(ErrorCode::kUnavailable, "cannot write the patch to " + file + ": " + std::strerror(errno),
              "Name a file in a writable directory for --diff.");
}

// Writes the command's changes, as a git patch in a file.
Status write_diff(linux::LiveComputer& computer, const std::string& image, const std::string& file) {
  MEMBRANE_ASSIGN(const auto layer, linux::Layer::open(image));
  MEMBRANE_ASSIGN(const computers::MadePatch patch, computers::make_patch(computer, layer.get()));
  std::ofstream to(file, std::ios::binary | std::ios::trunc);
  to << patch.text;
  to.close();
  if (!to)
    return fail(ErrorCode::kUnavailable, "cannot write the patch to " + file + ": " + std::strerror(errno));
  if (patch.left_out > 0)
    print(stderr, "note: changes that are not in the patch: " + std::to_string(patch.left_out) +
                      " (git does not record owners, empty directories, pipes and devices)\n");
  return {};
}

Status report_made(const LinuxCommand& command, const linux::Computer& computer) {
  MEMBRANE_ASSIGN(const linux::StoredImage image, linux::find_image(computer.image));
  const std::string platform = computer.platform.empty() ? linux::fastest_platform() : computer.platform;
  MEMBRANE_ASSIGN(std::string description,
                  computers::description_of(image, computers::mark_of(image), platform, computer.directory,
                                            computer.deterministic));
  sandbox::Invocation invocation;
  invocation.arguments = computer.arguments;
  for (const std::string& each : computer.environment)
    invocation.environment.emplace_back(each.substr(0, each.find('=')), each.substr(each.find('=') + 1));
  command.on_made(std::move(description), std::move(invocation));
  return {};
}

}  // namespace

policy::Limits linux_limits() { return computers::usual_limits(); }

policy::Limits terminal_limits() {
  policy::Limits limits = linux_limits();
  limits.output_bytes = 1u << 30;
  limits.wall_ms = 7ull * 86'400'000;
  return limits;
}

Result<policy::Policy> linux_policy(const PolicyOptions& options, const policy::Limits& unless_given) {
  MEMBRANE_ASSIGN(policy::Policy policy, options.policy(unless_given));
  size_t of_file = 0;  // the grants of the policy's file come first, with their own bounds
  if (!options.file.empty()) {
    MEMBRANE_ASSIGN(const policy::Policy written, policy::load_policy(options.file, unless_given));
    of_file = written.fs.size();
  }
  for (size_t i = of_file; i < policy.fs.size(); ++i) {
    policy.fs[i].max_file_bytes = policy.fs[i].max_total_bytes = 64ull << 30;
    policy.fs[i].max_files = 1'000'000;
  }
  computers::mount_working_directory(policy);
  return policy;
}

Result<std::vector<std::string>> linux_environment(const std::vector<std::string>& written) {
  MEMBRANE_ASSIGN(const auto environment, environment_of(written));
  std::vector<std::string> all;
  for (const auto& [name, value] : environment) all.push_back(name + "=" + value);
  return all;
}

Result<linux::StoredImage> find_image_or_usual(const std::string& name) {
  auto found = linux::find_image(name.empty() ? std::string(computers::kUsualImage) : name);
  if (found || !name.empty() || found.error().code != ErrorCode::kNotFound) return found;
  if (const auto images = linux::list_images(); images && images->size() == 1)
    found.error().hint = "Name the only one that is there: --image " + images->front().name + ".";
  else if (images && !images->empty())
    found.error().hint = "Name one by --image; `membrane image ls` lists them.";
  return found;
}

std::string hint_at_image(const std::string& verb, const std::vector<std::string>& words) {
  if (words.empty() || !linux::is_image_name(words.front()) || !linux::find_image(words.front())) return "";
  std::string command = "membrane " + verb + " --image " + words.front() + (words.size() > 1 ? " --" : "");
  for (const std::string& word : words | std::views::drop(1)) command += " " + word;
  return "An image is named by --image: " + command;
}

std::vector<std::string> login_shell() {
  return {"/bin/sh", "-c", "if [ -x /bin/bash ]; then exec /bin/bash -l; else exec /bin/sh -l; fi"};
}

Result<sandbox::Report> run_linux(const LinuxCommand& command, std::atomic<bool>& cancelled) {
  MEMBRANE_TRY(computers::check_grants(command.policy));
  MEMBRANE_TRY(computers::check_limits(command.policy.limits));
  if (!command.directory.empty() && !command.directory.starts_with('/'))
    return fail(ErrorCode::kInvalidArgument, "--workdir " + command.directory + " is not absolute",
                "Use an absolute path, as the command sees it: --workdir /work.");
  if (!command.platform.empty() && !command.policy.platform.empty() &&
      command.platform != command.policy.platform)
    return fail(
        ErrorCode::kInvalidArgument,
        "the policy demands the platform " + command.policy.platform + ", and --platform " + command.platform,
        "Leave --platform out.");
  MEMBRANE_ASSIGN(linux::Computer computer, computer_of(command));
  MEMBRANE_TRY(check_diff_file(command.diff_file));
  if (command.on_made) MEMBRANE_TRY(report_made(command, computer));
  std::unique_ptr<OuterTerminal> terminal;
  if (command.has_terminal) {
    MEMBRANE_ASSIGN(terminal, OuterTerminal::take(cancelled));
  }
  // Also if no host is granted: the report says what the command tried to reach.
  MEMBRANE_ASSIGN(const auto gateway, computers::Gateway::create({.grants = command.policy.http,
                                                                  .limits = command.policy.limits,
                                                                  .greets_later = true}));
  computer.network = gateway->socket();
  MEMBRANE_ASSIGN(const auto directories,
                  computers::DirectoryBroker::create(command.policy.fs, gateway->budget()));
  computer.directories = directories->mounts();
  sandbox::Report report;
  linux::ComputerStreams streams = {.input = command.input,
                                    .on_output =
                                        [&](std::string_view bytes) {
                                          if (command.on_output) command.on_output(bytes);
                                          report.stdout_text += bytes;
                                        },
                                    .on_error =
                                        [&](std::string_view bytes) {
                                          if (command.on_error) command.on_error(bytes);
                                          report.stderr_text += bytes;
                                        }};
  if (terminal != nullptr) {
    streams.input = STDIN_FILENO;
    streams.on_output = OuterTerminal::write;
    streams.accompany = [&terminal](linux::Command& running) { return terminal->accompany(running); };
  }
  Status written;
  if (!command.diff_file.empty())
    streams.at_end = [&](linux::LiveComputer& ended) {
      written = write_diff(ended, computer.image, command.diff_file);
    };
  streams.on_forked = [&gateway] { return gateway->greet(); };
  // Threads may start once the kernel process exists.
  streams.on_made = [&gateway, &directories] {
    gateway->begin();
    directories->begin();
  };
  auto outcome = linux::run_computer(computer, streams, [&cancelled] { return cancelled.load(); });
  terminal.reset();  // before any message
  MEMBRANE_ASSIGN(const linux::ComputerReport ended, std::move(outcome));
  MEMBRANE_TRY(written);
  if (!command.diff_file.empty() && !command.policy.fs.empty())
    print(stderr, "note: changes in granted directories are made there, and are not part of the patch\n");
  for (const std::string& wall : ended.missing_walls)
    print(stderr, "warning: this machine refuses a wall of Linux sandboxes: " + wall + "\n");
  if (ended.preemptions > 0)
    print(stderr,
          "warning: " + count_of(ended.preemptions, "time") +
              " a program ran for a second without a system call while others waited, and was stopped "
              "between two instructions: runs may differ\n");
  if (command.has_terminal && ended.end == linux::ComputerEnd::kSignalled)
    report.exit_code = 128 + ended.status;  // like a shell
  else computers::set_outcome(ended.end, ended.status, ended.reason, command.policy.limits, report);
  computers::set_reached(ended.reached, report);
  directories->tell(report);
  gateway->end();  // so that the account of its connections is complete
  gateway->tell(report);
  directories->report_uses(report);
  report.platform = ended.platform;
  report.memory_peak_bytes = ended.memory_peak_bytes;
  report.compile_us = ended.start_us;
  report.run_us = ended.run_us;
  return report;
}

}  // namespace membrane::cli
