#include "sandbox/run/stops.h"

#include <algorithm>

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

std::optional<Outcome> stop_requested(const std::atomic<bool>* cancel, Clock::time_point deadline) {
  if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) return Outcome::kCancelled;
  if (Clock::now() >= deadline) return Outcome::kTimedOut;
  return std::nullopt;
}

Outcome outcome_of(const Stop& stop, bool memory_limit_was_hit) {
  if (stop.outcome) return *stop.outcome;
  switch (stop.state) {
    case engine::RunState::kOutOfFuel: return Outcome::kOutOfFuel;
    case engine::RunState::kTrapped: return memory_limit_was_hit ? Outcome::kOutOfMemory : Outcome::kTrapped;
    case engine::RunState::kFinished: return memory_limit_was_hit ? Outcome::kOutOfMemory : Outcome::kRaised;
    default: return Outcome::kCancelled;
  }
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

constexpr uint64_t kMostWallMs = 7ull * 86'400'000;  // as in policy/limits.def

std::string or_raise_wall(uint64_t limit_ms) {
  if (limit_ms >= kMostWallMs) return "";
  std::string time = policy::format_duration(std::clamp<uint64_t>(limit_ms * 2, 1, kMostWallMs));
  std::erase(time, ' ');
  return ", or raise limits.wall (--wall " + time + ")";
}

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
    error.hint = "Make it do less" + or_raise_wall(limits.wall_ms) + ".";
  } else {
    error.message = "the owner stopped the program";
  }
  return error;
}

ReportError compile_stop_error(Outcome outcome, const policy::Limits& limits) {
  ReportError error = stop_error(outcome, limits);
  if (outcome == Outcome::kTimedOut) {
    error.message = "the program was still being compiled when its time of " +
                    std::to_string(limits.wall_ms) + " ms was over";
    error.hint = "Make the program smaller" + or_raise_wall(limits.wall_ms) + ".";
  } else {
    error.message = "the owner stopped the program while it was being compiled";
  }
  return error;
}

}  // namespace membrane::sandbox
