#include "cli/linux_run.h"

#include "cli/cli.h"
#include "computers/outcome.h"
#include "computers/settings.h"
#include "linux/image/store.h"
#include "linux/sandbox/computer.h"

namespace membrane::cli {

namespace {

Result<linux::Computer> computer_of(const LinuxCommand& command) {
  linux::Computer computer;
  MEMBRANE_ASSIGN(
      const linux::StoredImage image,
      linux::find_image(command.image.empty() ? std::string(computers::kUsualImage) : command.image));
  computer.image = image.path;
  computer.arguments = command.arguments;
  computer.environment = computers::environment_of(image.config);
  computers::add_environment(computer.environment, command.environment);
  computer.directory = computers::directory_of(image.config);
  const policy::Limits& limits = command.policy.limits;
  computer.limits = computers::limits_of(limits);
  computer.limits.output_bytes = limits.output_bytes;
  computer.deterministic = command.deterministic;
  computer.platform = command.platform;
  computer.limits.wall = std::chrono::milliseconds(limits.wall_ms);
  return computer;
}

}  // namespace

policy::Limits linux_limits() { return computers::usual_limits(); }

Result<sandbox::Report> run_linux(const LinuxCommand& command, const std::atomic<bool>& cancelled) {
  MEMBRANE_TRY(computers::check_grants(command.policy));
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
  computers::set_outcome(ended.end, ended.status, ended.reason, command.policy.limits, report);
  report.memory_peak_bytes = ended.memory_peak_bytes;
  report.compile_us = ended.start_us;
  report.run_us = ended.run_us;
  return report;
}

}  // namespace membrane::cli
