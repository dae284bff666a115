#include "cli/interrupt.h"

#include <csignal>
#include <string>
#include <string_view>

#include "cli/cli.h"

namespace membrane::cli {
namespace {

std::atomic<bool> interrupted = false;

bool was_interrupted(const sandbox::Report& report) {
  return interrupted && report.outcome == sandbox::Outcome::kCancelled;
}

}  // namespace

std::atomic<bool>& interrupt_flag() { return interrupted; }

void catch_interrupt() {
  std::signal(SIGINT, [](int) { interrupted = true; });
}

void name_interrupt(sandbox::Report& report) {
  constexpr std::string_view kOwner = "the owner ";
  if (!was_interrupted(report) || report.errors.empty()) return;
  std::string& message = report.errors.front().message;
  if (message.starts_with(kOwner)) message.replace(0, kOwner.size(), "Ctrl-C ");
}

int exit_code_after(const sandbox::Report& report) {
  return was_interrupted(report) ? kEndBySignal : exit_code_of(report);
}

}  // namespace membrane::cli
