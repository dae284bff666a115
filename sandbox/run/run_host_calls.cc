// The host calls of a run: capabilities, functions of the embedder, WASI; and the input that they read.
#include <chrono>
#include <utility>

#include "base/text.h"
#include "host/calls/registry.h"
#include "sandbox/run/run.h"
#include "sandbox/run/stops.h"
#include "sandbox/run/wasi_calls.h"

namespace membrane::sandbox {

engine::HostAction Run::call_host(const host::FunctionSpec& function, engine::HostCall& call) {
  // A start function runs before anyone can talk to the guest only if link() did not create it.
  guest_->enter(call);
  const host::CallOutcome outcome = dispatcher_->call(function, call.arguments, call.results);
  if (outcome.end == host::CallEnd::kReturn)
    return function.effect == host::Effect::kWorld && must_stop() ? engine::HostAction::kInterrupt
                                                                  : engine::HostAction::kContinue;
  const Consequence consequence = consequence_of(outcome.end);
  if (consequence.outcome) end_ = consequence.outcome;
  if (consequence.action != engine::HostAction::kTrap) return consequence.action;
  failed_call_ = outcome.error;
  call.trap_message =
      std::string(function.module) + "." + std::string(function.name) + ": " + outcome.error.reason;
  return engine::HostAction::kTrap;
}

engine::HostAction Run::call_own(const OwnFunction& function, engine::HostCall& call) {
  guest_->enter(call);
  host::CallRecord record;
  record.name = function.full_name();
  const bool has_waited = std::exchange(in_kept_call_, false);
  if (has_waited && options_.answer == nullptr) return wait_for(function, call, *frozen_->state.waits);
  if (!has_waited && !world().take_host_call()) {
    failed_call_ = {host::Errno::kBudget, "the budget of host calls is used up", {}};
    call.trap_message = record.name + ": " + failed_call_->reason;
    return engine::HostAction::kTrap;
  }
  const auto start = std::chrono::steady_clock::now();
  OwnEnd end = has_waited ? options_.answer->give(function, *guest_, call) : function.call(*guest_, call);
  if (end.waits) return wait_for(function, call, *std::move(end.waits));
  const engine::HostAction action = end.action;
  if (action == engine::HostAction::kOutOfFuel) {  // nothing was done, and the call will be repeated
    if (!has_waited) world().give_back_host_call();
    // The answer is dropped: the bytes of such a run cannot include it.
    return has_waited && to_freeze_ ? wait_for(function, call, *frozen_->state.waits) : action;
  }
  record.latency_us = static_cast<uint64_t>(microseconds_since(start));
  if (action == engine::HostAction::kTrap) {
    record.code = host::Errno::kHost;
    record.reason = call.trap_message;
  }
  dispatcher_->record(std::move(record));
  return action == engine::HostAction::kContinue && must_stop() ? engine::HostAction::kInterrupt : action;
}

// Pauses before the call, whose answer comes later; unless the run must end.
engine::HostAction Run::wait_for(const OwnFunction& function, engine::HostCall& call, std::string note) {
  if (must_stop()) return engine::HostAction::kInterrupt;
  waits_for_ = waiting_call(function, call, std::move(note));
  return engine::HostAction::kOutOfFuel;
}

engine::HostAction Run::call_wasi(const wasi::Function& function, engine::HostCall& call) {
  // On the real clock a poll may end before there is input, so available input is fetched before it.
  if (function.id == wasi::FunctionId::poll_oneoff && streams_input() && wasi_->stdin_is_waiting())
    fetch_input(std::chrono::milliseconds(0));
  WasiConsequence consequence = sandbox::call_wasi(*wasi_, function, *guest_, call);
  while (consequence.waits) {
    if (!wait_for_input()) return engine::HostAction::kInterrupt;
    consequence = sandbox::call_wasi(*wasi_, function, *guest_, call);
  }
  for (host::CallRecord& record : wasi_->take_records()) dispatcher_->record(std::move(record));
  if (consequence.outcome) end_ = consequence.outcome;
  if (consequence.action != engine::HostAction::kContinue) return consequence.action;
  return must_stop() ? engine::HostAction::kInterrupt : engine::HostAction::kContinue;
}

// `(call $http.get! …)` returned an errno: the arguments are the errno, the function's name, and the author's line.
engine::HostAction Run::fail_checked_call(engine::HostCall& call) {
  guest_->enter(call);
  const auto code = static_cast<host::Errno>(call.arguments[0]);
  const auto name = guest_->read_string(static_cast<uint32_t>(call.arguments[1]));
  failed_line_ = static_cast<uint32_t>(call.arguments[2]);
  host::HostError error{code, std::string(host::describe(code)), {}};
  if (dispatcher_->last_error().code == code) error = dispatcher_->last_error();
  call.trap_message = (name ? std::string(*name) : "a host function") + " failed with " +
                      std::string(host::name_of(code)) + ": " + error.reason;
  failed_call_ = std::move(error);
  return engine::HostAction::kTrap;
}

// -- input --------------------------------------------------------------------------------------------------------

bool Run::streams_input() const { return options_.read_input && !reads_ahead_; }

// Into the result of io.input.
bool Run::read_whole_input() {
  for (bool is_end = false; !is_end;) {
    if (must_stop()) {
      report_.outcome = *end_;
      report_.errors.push_back(stop_error(*end_, limits_));
      return false;
    }
    InputPiece piece = sandbox::read_input(options_.read_input, world(), kInputPatience);
    is_end = piece.is_end;
    output().input += piece.bytes;
    if (output().input.size() > limits_.bytes_in)
      return stop(Outcome::kInvalid, "exhausted",
                  "the input has more than " + count_of(limits_.bytes_in, "byte"),
                  "Give it less, or raise limits.bytes_in.");
  }
  return true;
}

// Waits for input, or its end. False when the run must end.
bool Run::wait_for_input() {
  while (!must_stop())
    if (fetch_input(kInputPatience)) return true;
  return false;
}

// False when nothing has arrived.
bool Run::fetch_input(std::chrono::milliseconds patience) {
  const InputPiece piece = streams_input() ? sandbox::read_input(options_.read_input, world(), patience)
                                           : InputPiece{.bytes = {}, .is_end = true};
  if (!piece.bytes.empty()) wasi_->give_stdin(piece.bytes);
  if (piece.is_end) wasi_->close_stdin();
  return piece.is_end || !piece.bytes.empty();
}

}  // namespace membrane::sandbox
