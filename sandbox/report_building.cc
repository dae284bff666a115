#include "sandbox/report_building.h"

#include <algorithm>
#include <utility>

#include "policy/quantity.h"

namespace membrane::sandbox {

using Clock = std::chrono::steady_clock;
using engine::HostAction;

Consequence consequence_of(host::CallEnd end) {
  switch (end) {
    case host::CallEnd::kReturn: return {HostAction::kContinue, {}};
    case host::CallEnd::kExit: return {HostAction::kExit, {}};
    case host::CallEnd::kOutOfFuel:
    case host::CallEnd::kWaits: return {HostAction::kOutOfFuel, {}};
    case host::CallEnd::kOutOfOutput: return {HostAction::kTrap, Outcome::kOutOfOutput};
    case host::CallEnd::kOutOfMemory: return {HostAction::kTrap, Outcome::kOutOfMemory};
    case host::CallEnd::kTrap: break;
  }
  return {HostAction::kTrap, {}};
}

double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

std::optional<Outcome> stop_requested(const std::atomic<bool>* cancel, Clock::time_point deadline) {
  if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) return Outcome::kCancelled;
  if (Clock::now() >= deadline) return Outcome::kTimedOut;
  return std::nullopt;
}

namespace {

std::string or_raise(const char* name, uint64_t limit_bytes, uint64_t times, uint64_t most_bytes) {
  if (limit_bytes >= most_bytes) return "";
  constexpr uint64_t kLeastBytes = 1 << 20;
  std::string size = policy::format_size(std::clamp(limit_bytes * times, kLeastBytes, most_bytes));
  std::erase(size, ' ');  // so that it is a single word in a command
  return std::string(", or raise limits.") + name + " (--" + name + " " + size + ")";
}

}  // namespace

std::string or_raise_memory(uint64_t limit_bytes) { return or_raise("memory", limit_bytes, 2, 4ull << 30); }

std::string or_raise_output(uint64_t limit_bytes) { return or_raise("output", limit_bytes, 4, 1ull << 30); }

constexpr uint64_t kFuelOfSomeWork = 1'000'000'000;  // where there was none

ReportError stop_error(Outcome outcome, const policy::Limits& limits) {
  ReportError error;
  error.code = std::string(name_of(outcome));
  if (outcome == Outcome::kOutOfFuel) {
    error.message = "the program used up its fuel of " + std::to_string(limits.fuel);
    error.hint = "Make it do less (look for a loop without an end), or raise limits.fuel (--fuel " +
                 std::to_string(limits.fuel > UINT64_MAX / 4 ? UINT64_MAX
                                : limits.fuel == 0           ? kFuelOfSomeWork
                                                             : limits.fuel * 4) +
                 ").";
  } else if (outcome == Outcome::kTimedOut) {
    error.message = "the program ran past its time of " + std::to_string(limits.wall_ms) + " ms";
    error.hint = "Make it do less, or raise limits.wall (--wall).";
  } else {
    error.message = "the owner stopped the program";
  }
  return error;
}

void report_timeout(uint64_t timeout_ms, uint64_t wall_ms, Report& report) {
  if (report.outcome != Outcome::kTimedOut || timeout_ms >= wall_ms || report.errors.empty()) return;
  report.errors.front().message =
      "the program ran past the " + std::to_string(timeout_ms) + " ms that this run was given";
  report.errors.front().hint =
      "Make it do less, or allow more time: timeout_ms; timeout of the clients; --timeout of membrane "
      "exec. "
      "The policy would let it run for " +
      std::to_string(wall_ms) + " ms.";
  report_unanswered(report);
}

void report_unanswered(Report& report) {
  if (report.outcome != Outcome::kTimedOut || report.errors.empty()) return;
  if (!report.flows || report.flows->unanswered.empty()) return;
  ReportError& error = report.errors.front();
  error.message += ": " + report.flows->unanswered + " waited for a person's approval, and no one answered";
  constexpr std::string_view kLess = "Make it do less";
  if (error.hint.starts_with(kLess)) error.hint.replace(0, kLess.size(), "Answer while it waits");
}

void forward_output(const RunOptions& options, Conversation& output) {
  output.on_stdout = options.on_stdout;
  output.on_stderr = options.on_stderr;
  output.hears_bytes = options.hears_bytes;
}

ReportError compile_stop_error(Outcome outcome, const policy::Limits& limits) {
  ReportError error = stop_error(outcome, limits);
  if (outcome == Outcome::kTimedOut) {
    error.message = "the program was still being compiled when its time of " +
                    std::to_string(limits.wall_ms) + " ms was over";
    error.hint = "Make the program smaller, or raise limits.wall (--wall).";
  } else {
    error.message = "the owner stopped the program while it was being compiled";
  }
  return error;
}

void report_files(const RunOptions& options, const wasi::System& system, std::vector<ReportFile> files,
                  Report& report) {
  report.files = std::move(files);
  if (!options.on_file) return;
  for (const ReportFile& file : report.files)
    if (const auto bytes = system.read_file(file.path)) options.on_file(file.path, *bytes);
}

std::string allowed_by(const std::string& grant) {
  return grant.empty() ? "" : "It would be allowed by " + grant;
}

std::string path_in(std::string_view message) {
  const size_t end = message.find_last_of("'\"");
  if (end == std::string_view::npos || end == 0) return "";
  const size_t begin = message.rfind(message[end], end - 1);
  if (begin == std::string_view::npos) return "";
  return std::string(message.substr(begin + 1, end - begin - 1));
}

std::string hint_of_missing_directory(std::string_view path, lang::Driver driver) {
  const std::string_view makes = driver == lang::Driver::kPython    ? "os.makedirs"
                                 : driver == lang::Driver::kQuickJs ? "fs.mkdirSync"
                                                                    : "mkdir";
  const std::string directory(path.substr(0, path.rfind('/')));
  return std::string(kNoDirectory) + directory + " in the sandbox: " + std::string(makes) + " makes it.";
}

std::string granted_directories(const policy::Policy& policy) {
  constexpr size_t kMost = 8;
  if (policy.fs.empty()) return "No file or directory of the host is granted.";
  std::string out = "Of the host, the program can access ";
  for (size_t i = 0; i < policy.fs.size() && i < kMost; ++i) {
    const policy::FsGrant& grant = policy.fs[i];
    out += (i == 0 ? "" : ", ") + grant.guest;
    out += grant.mode == policy::FsMode::kWrite ? " (to read and write)" : " (to read)";
  }
  if (policy.fs.size() > kMost) out += " and " + std::to_string(policy.fs.size() - kMost) + " more";
  return out + ".";
}

void report_output(Conversation output, Report& report) {
  report.stdout_text = std::move(output.stdout_text);
  report.stderr_text = std::move(output.stderr_text);
  report.answer = std::move(output.answer);
  report.submitted = output.submitted;
}

void report_host_calls(const host::Dispatcher& dispatcher, Report& report) {
  report.host_calls_dropped = dispatcher.records_dropped();
  for (const host::CallRecord& call : dispatcher.records()) report.host_calls.push_back(line_of(call));
}

HostCallRecord line_of(const host::CallRecord& call) {
  const bool is_ok = call.code == host::Errno::kOk;
  return {call.name,     call.allowed(), is_ok ? "" : std::string(host::name_of(call.code)),
          call.reason,   call.grant,     call.arguments,
          call.bytes_in, call.bytes_out, call.latency_us};
}

host::CallRecord call_of(const HostCallRecord& line) {
  const auto code = line.error.empty() ? host::Errno::kOk : host::errno_named(line.error);
  return {line.name,      code.value_or(host::Errno::kHost),
          line.reason,    line.grant,
          line.arguments, line.bytes_in,
          line.bytes_out, line.latency_us};
}

void report_divergence(const std::string& divergence, std::string_view same, Report& report) {
  ReportError error;
  error.code = "replay_diverged";
  error.message = divergence;
  error.hint =
      "A journal can only replay the run that wrote it: the same " + std::string(same) +
      " and input. Languages and WASI programs need the same grants of time, random and directories, too.";
  report.outcome = Outcome::kDiverged;
  report.errors = {std::move(error)};
}

void end_replay(host::World& world, const Report& report) {
  const bool ended_itself = report.outcome == Outcome::kOk || report.outcome == Outcome::kRaised ||
                            report.outcome == Outcome::kDenied || report.outcome == Outcome::kTrapped;
  if (ended_itself) world.end_replay();
}

void report_end_of_replay(host::World& world, Report& report) {
  end_replay(world, report);
  const auto divergence = world.divergence();
  if (!divergence || report.outcome == Outcome::kFailed) return;
  report.snapshot.clear();
  if (report.snapshot_bytes) report.snapshot_bytes = 0;
  report_divergence(*divergence, "program, arguments", report);
}

}  // namespace membrane::sandbox
