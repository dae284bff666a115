#include "cli/interrupt.h"

#include <csignal>
#include <string>
#include <string_view>

#include "cli/cli.h"

namespace membrane::cli {
namespace {

std::atomic<bool> interrupted = false;
std::atomic<int> times = 0;
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free,
              "used in a signal handler");

constexpr int kPatience = 3;

void on_interrupt(int signal) {
  interrupted = true;
  if (++times < kPatience) return;
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

bool was_interrupted(const sandbox::Report& report) {
  return interrupted && report.outcome == sandbox::Outcome::kCancelled;
}

}  // namespace

std::atomic<bool>& interrupt_flag() { return interrupted; }

void catch_interrupt() { std::signal(SIGINT, on_interrupt); }

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
