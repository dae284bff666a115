#include "worker/command.h"

#include <algorithm>
#include <optional>

#include "sandbox/run/report_building.h"
#include "sandbox/run/stops.h"

namespace membrane::worker {
namespace {

using sandbox::Outcome;
using sandbox::Report;
using sandbox::RunOptions;

// For commands between a session's turns, which run no guest code: a worker that takes longer hangs.
constexpr std::chrono::seconds kFileTime(kIsSanitized ? 100 : 10), kKeepTime(kIsSanitized ? 120 : 30);
constexpr uint64_t kReportBytes = 64u << 20;  // of a report without the program's output

// The worker does not need the headers of grants, nor where things are on this machine.
policy::Policy for_worker(policy::Policy policy) {
  for (policy::HttpGrant& grant : policy.http) grant.headers.clear();
  for (policy::SqlGrant& grant : policy.sql) grant.path.clear();
  return policy;
}

}  // namespace

std::chrono::seconds time_for(Kind kind) {
  switch (kind) {
    case Kind::kFiles:
    case Kind::kReadFile:
    case Kind::kPutFile:
    case Kind::kActOnFiles:
    case Kind::kPrivateBytes:
    case Kind::kSkipped:
    case Kind::kClose: return kFileTime;
    case Kind::kAbandon:
    case Kind::kKeep: return kKeepTime;
    default: return kSetUpTime;
  }
}

SharedLeft left_of(const RunOptions& options) {
  constexpr uint64_t kLongestMs = 30ull * 86'400'000;
  if (!options.budget) return {};
  const uint64_t wall_ms = options.budget->wall_left_ms();
  return {options.budget->left(policy::Resource::kFuel),
          wall_ms > kLongestMs ? std::nullopt : std::optional(wall_ms)};
}

GuestOptions guest_options(const RunOptions& options) {
  GuestOptions said;
  said.policy = for_worker(options.policy);
  said.tier = options.tier;
  const SharedLeft left = left_of(options);
  said.fuel_left = left.fuel;
  said.wall_left_ms = left.wall_ms;
  said.hears_stdout = options.on_stdout != nullptr;
  said.hears_stderr = options.on_stderr != nullptr;
  said.hears_bytes = options.hears_bytes;
  said.hears_files = options.on_file != nullptr;
  said.reads_input = options.read_input != nullptr;
  said.input_is_ambient = options.input_is_ambient;
  said.freeze_after_fuel = options.freeze_after_fuel;
  said.packages_by = options.packages_by;
  said.is_single_turn = options.is_single_turn;
  if (options.guest_functions) said.functions = options.guest_functions->description;
  if (options.sources)
    said.sources = {.sleep = options.sources->sleep,
                    .key = options.sources->key,
                    .skipped_ns = options.sources->skipped_ns};
  if (options.time_zone) said.time_zone = *options.time_zone;
  return said;
}

uint64_t most_bytes(const policy::Limits& limits) {
  return std::min<uint64_t>(limits.memory_bytes + 8 * limits.output_bytes + kReportBytes, UINT32_MAX);
}

std::shared_ptr<policy::Budget> budget_of(const RunOptions& options) {
  return options.budget ? options.budget : std::make_shared<policy::Budget>(options.policy.limits);
}

Report worker_lost(const Error& error) {
  Report report;
  report.outcome = Outcome::kFailed;
  report.errors.push_back({"worker_lost", error.message, {}, error.hint, {}, {}});
  return report;
}

Report Worker::Command::unanswered(const Error& error) const {
  const bool is_cancelled = cancel != nullptr && *cancel;
  if (!is_cancelled && !was_late) return worker_lost(error);
  Report report;
  report.outcome = is_cancelled ? Outcome::kCancelled : Outcome::kTimedOut;
  report.errors.push_back(sandbox::stop_error(report.outcome, options->policy.limits));
  report.errors.back().message += ": " + error.message;
  return report;
}

}  // namespace membrane::worker
