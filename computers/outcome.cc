#include "computers/outcome.h"

#include <cstring>
#include <utility>

#include "base/text.h"
#include "sandbox/run/stops.h"

namespace membrane::computers {

void set_reached(const linux::LimitsReached& reached, sandbox::Report& report) {
  const std::pair<const char*, uint64_t> all[] = {
      {"memory", reached.memory}, {"tasks", reached.tasks}, {"disk", reached.disk}, {"cpu", reached.cpu}};
  for (const auto& [name, times] : all)
    if (times > 0) report.limits_reached.push_back({name, times});
}

void set_outcome(linux::ComputerEnd end, int status, const std::string& reason, const policy::Limits& limits,
                 sandbox::Report& report) {
  using sandbox::Outcome;
  const auto error = [&report](Outcome outcome, std::string code, std::string message, std::string hint) {
    report.outcome = outcome;
    report.errors.push_back({.code = std::move(code),
                             .message = std::move(message),
                             .place = {},
                             .hint = std::move(hint),
                             .backtrace = {}});
  };
  switch (end) {
    case linux::ComputerEnd::kNotStarted: {
      constexpr int kNotThere = 127;
      report.exit_code = status;
      if (status == kNotThere)
        error(Outcome::kInvalid, "not_found", reason,
              "The image has no program of this name, or lacks the interpreter named in the script's first "
              "line.");
      else
        error(Outcome::kInvalid, "invalid_argument", reason,
              "It is neither a program for x86-64 nor a script that begins with #!, or its mode does not let "
              "it "
              "be run.");
      break;
    }
    case linux::ComputerEnd::kExited: report.exit_code = status; break;
    case linux::ComputerEnd::kSignalled:
      report.exit_code = 128 + status;
      error(Outcome::kTrapped, "signal",
            "the command was ended by signal " + std::to_string(status) + " (" + strsignal(status) + ")", "");
      break;
    case linux::ComputerEnd::kTimedOut:
      report.limits_reached.push_back({"wall", 1});
      error(Outcome::kTimedOut, "timed_out",
            "the command ran for " + std::to_string(limits.wall_ms) + " ms, which is its limit",
            "Make it do less" + sandbox::or_raise_wall(limits.wall_ms) + ".");
      break;
    case linux::ComputerEnd::kOutOfOutput:
      report.limits_reached.push_back({"output", 1});
      error(Outcome::kOutOfOutput, "out_of_output",
            "the command printed more than " + count_of(limits.output_bytes, "byte"),
            "Make it print less" + sandbox::or_raise_output(limits.output_bytes) + ".");
      break;
    case linux::ComputerEnd::kOutOfMemory:
      error(Outcome::kOutOfMemory, "out_of_memory",
            "the sandbox used more than " + count_of(limits.memory_bytes, "byte") + " of memory",
            "Make it use less" + sandbox::or_raise_memory(limits.memory_bytes) + ".");
      break;
    case linux::ComputerEnd::kOutOfCpu:
      error(Outcome::kOutOfCpu, "out_of_cpu",
            "the sandbox used more than " + std::to_string(limits.cpu_ms) + " ms of CPU time",
            "Make it do less, or raise limits.cpu (--cpu).");
      break;
    case linux::ComputerEnd::kCancelled:
      error(Outcome::kCancelled, "cancelled", "the owner stopped the command", "");
      break;
    case linux::ComputerEnd::kFailed: error(Outcome::kFailed, "internal", reason, ""); break;
  }
}

}  // namespace membrane::computers
