#include "cli/linux_run.h"

#include <cstring>

#include "cli/cli.h"
#include "linux/image/store.h"
#include "linux/sandbox/computer.h"

namespace membrane::cli {

namespace {

constexpr std::string_view kUsualImage = "debian";

// What a sandbox of this kind cannot be held to is refused, not ignored.
Status check_grants(const policy::Policy& policy) {
  const auto refused = [](const char* what) {
    return fail(ErrorCode::kUnsupported, std::string("a Linux sandbox has no ") + what + " yet",
                "Leave the grant out, or run a program of the other kind.");
  };
  if (!policy.http.empty()) return refused("network");
  if (!policy.fs.empty()) return refused("directories of this machine");
  if (policy.kv || !policy.sql.empty() || policy.ai) return refused("host functions");
  return {};
}

Result<linux::Computer> computer_of(const LinuxCommand& command) {
  linux::Computer computer;
  MEMBRANE_ASSIGN(const linux::StoredImage image,
                  linux::find_image(command.image.empty() ? std::string(kUsualImage) : command.image));
  computer.image = image.path;
  computer.arguments = command.arguments;
  computer.environment = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root",
                          "LANG=C.UTF-8"};
  const auto add = [&computer](const std::string& each) {
    const std::string name = each.substr(0, each.find('=') + 1);
    std::erase_if(computer.environment, [&](const std::string& before) { return before.starts_with(name); });
    computer.environment.push_back(each);
  };
  for (const std::string& each : image.config.environment) add(each);
  for (const std::string& each : command.environment) add(each);
  if (!image.config.directory.empty()) computer.directory = image.config.directory;
  const policy::Limits& limits = command.policy.limits;
  computer.limits.memory_bytes = limits.memory_bytes;
  computer.limits.output_bytes = limits.output_bytes;
  computer.deterministic = command.deterministic;
  computer.platform = command.platform;
  computer.limits.wall = std::chrono::milliseconds(limits.wall_ms);
  return computer;
}

// What became of the command, in the words of the other kind's reports.
void set_outcome(sandbox::Report& report, const linux::ComputerReport& of, const policy::Limits& limits) {
  using sandbox::Outcome;
  const auto error = [&report](Outcome outcome, std::string code, std::string message, std::string hint) {
    report.outcome = outcome;
    report.errors.push_back({.code = std::move(code),
                             .message = std::move(message),
                             .place = {},
                             .hint = std::move(hint),
                             .backtrace = {}});
  };
  switch (of.end) {
    case linux::ComputerEnd::kExited: report.exit_code = of.status; break;
    case linux::ComputerEnd::kSignalled:
      error(
          Outcome::kTrapped, "signal",
          "the command was ended by signal " + std::to_string(of.status) + " (" + strsignal(of.status) + ")",
          "");
      break;
    case linux::ComputerEnd::kTimedOut:
      error(Outcome::kTimedOut, "timed_out",
            "the command ran for " + std::to_string(limits.wall_ms) + " ms, which is its limit",
            "Raise --wall.");
      break;
    case linux::ComputerEnd::kOutOfOutput:
      error(Outcome::kOutOfOutput, "out_of_output",
            "the command printed more than " + std::to_string(limits.output_bytes) + " bytes",
            "Raise --output.");
      break;
    case linux::ComputerEnd::kOutOfMemory:
      error(Outcome::kOutOfMemory, "out_of_memory",
            "the sandbox used more than " + std::to_string(limits.memory_bytes) + " bytes of memory",
            "Raise --memory.");
      break;
    case linux::ComputerEnd::kCancelled:
      error(Outcome::kCancelled, "cancelled", "the owner stopped the command", "");
      break;
    case linux::ComputerEnd::kFailed: error(Outcome::kFailed, "internal", of.reason, ""); break;
  }
}

}  // namespace

policy::Limits linux_limits() {
  policy::Limits limits = policy::language_limits();
  limits.memory_bytes = 2ull << 30;
  limits.output_bytes = 64u << 20;
  limits.wall_ms = 600'000;
  return limits;
}

Result<sandbox::Report> run_linux(const LinuxCommand& command, const std::atomic<bool>& cancelled) {
  MEMBRANE_TRY(check_grants(command.policy));
  MEMBRANE_ASSIGN(const linux::Computer computer, computer_of(command));
  sandbox::Report report;
  const linux::ComputerStreams streams = {.input = command.input,
                                          .on_output =
                                              [&](std::string_view bytes) {
                                                if (command.on_output) command.on_output(bytes);
                                                else report.stdout_text += bytes;
                                              },
                                          .on_error =
                                              [&](std::string_view bytes) {
                                                if (command.on_error) command.on_error(bytes);
                                                else report.stderr_text += bytes;
                                              }};
  MEMBRANE_ASSIGN(const linux::ComputerReport ended,
                  linux::run_computer(computer, streams, [&cancelled] { return cancelled.load(); }));
  for (const std::string& wall : ended.missing_walls)
    print(stderr, "warning: this machine refuses a wall of Linux sandboxes: " + wall + "\n");
  if (ended.preemptions > 0)
    print(stderr,
          "warning: " + std::to_string(ended.preemptions) +
              " times a program ran for a second without a system call while others waited, and was stopped "
              "between two instructions: runs may differ\n");
  set_outcome(report, ended, command.policy.limits);
  report.memory_peak_bytes = ended.memory_peak_bytes;
  report.compile_us = ended.start_us;
  report.run_us = ended.run_us;
  return report;
}

}  // namespace membrane::cli
