// Why a run or a turn is stopped: the outcome, and the error that its report has.
//
// Threads: any.
#pragma once

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "engine/instance/host_call.h"
#include "engine/instance/run.h"
#include "host/calls/dispatch.h"
#include "policy/policy.h"
#include "sandbox/report/report.h"

namespace membrane::sandbox {

// The effect of a host call that did not return: how the run continues, and the outcome, if the call decides it.
struct Consequence {
  engine::HostAction action;
  std::optional<Outcome> outcome;
};
Consequence consequence_of(host::CallEnd end);

// kCancelled when the owner requests it (`cancel` may be null), kTimedOut when the time is up.
std::optional<Outcome> stop_requested(const std::atomic<bool>* cancel,
                                      std::chrono::steady_clock::time_point deadline);

// Why a run did not return.
struct Stop {
  engine::RunState state = engine::RunState::kFinished;
  std::optional<Outcome> outcome = {};  // decided by a host call, or by what watches the run
  std::string message = {};
  engine::Trap trap = {};  // for kTrapped
  std::vector<engine::CodePlace> backtrace = {};
};
// What was decided; otherwise what the engine's state says. `memory_limit_was_hit`: the program was refused memory
// before. A run says so of a full heap of objects, too; in a session that is kTrapped. A run that finished is one that
// owed a result: kRaised, or kOutOfMemory.
Outcome outcome_of(const Stop& stop, bool memory_limit_was_hit);

// The error of a run that was stopped: kOutOfFuel, kTimedOut or kCancelled.
ReportError stop_error(Outcome outcome, const policy::Limits& limits);
// Of one that did not even start: kTimedOut or kCancelled during compilation.
ReportError compile_stop_error(Outcome outcome, const policy::Limits& limits);

// ", or raise limits.output (--output 4MiB)": to more than the current limit; "" when it cannot be raised.
std::string or_raise_memory(uint64_t limit_bytes);
std::string or_raise_output(uint64_t limit_bytes);
std::string or_raise_wall(uint64_t limit_ms);

}  // namespace membrane::sandbox
