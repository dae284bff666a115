#include "sandbox/run/report_building.h"

#include <algorithm>
#include <utility>

namespace membrane::sandbox {

using Clock = std::chrono::steady_clock;

double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
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

std::string granted_directories(const policy::Policy& policy, HostPaths paths) {
  constexpr size_t kMost = 8;
  if (policy.fs.empty()) return "No file or directory of the host is granted.";
  const bool are_named = paths == HostPaths::kNamed;
  std::string out = are_named ? "The program can access " : "Directories of the host are granted at ";
  for (size_t i = 0; i < policy.fs.size() && i < kMost; ++i) {
    const policy::FsGrant& grant = policy.fs[i];
    out += (i == 0 ? "" : ", ") + (are_named ? grant.host + " as " : std::string()) + grant.guest;
    out += grant.mode == policy::FsMode::kWrite ? " (read and write)" : " (read)";
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
