// One run of a module, behind run() and thaw() of sandbox.h. run.cc has its steps; run_linking.cc,
// run_host_calls.cc, run_freezing.cc and run_report.cc have one subject each.
//
// Threads: one at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/execution/execution.h"
#include "engine/execution/module.h"
#include "engine/freeze/snapshot.h"
#include "host/calls/dispatch.h"
#include "lang/load_program.h"
#include "sandbox/report/report.h"
#include "sandbox/run/frozen_state.h"
#include "sandbox/run/guest_instance.h"
#include "sandbox/run/host_import.h"
#include "sandbox/run/own_function.h"
#include "sandbox/run/report_building.h"
#include "sandbox/run/run_context.h"
#include "sandbox/run/sandbox.h"

namespace membrane::sandbox {

// A frozen run to resume. Borrowed.
struct FrozenRun {
  const engine::Snapshot& snapshot;
  FrozenState& state;  // its contents are moved into the run
};

// One run, from the text or a snapshot to the report. A step that fails leaves a complete report.
class Run {
 public:
  // Everything is borrowed. `frozen` is null for a run that begins.
  Run(const Program& program, const RunOptions& options, const FrozenRun* frozen = nullptr);

  // Once.
  Report execute();

 private:
  [[nodiscard]] host::World& world() const { return context_.world(); }
  [[nodiscard]] Conversation& output() { return context_.output(); }
  [[nodiscard]] const Conversation& output() const { return context_.output(); }
  [[nodiscard]] uint64_t fuel_before() const {
    return frozen_ == nullptr ? 0 : frozen_->snapshot.fuel_used();
  }
  [[nodiscard]] bool memory_limit_was_hit() const {
    return instance_->limit_was_hit() || (frozen_ != nullptr && frozen_->state.memory_limit_was_hit);
  }
  [[nodiscard]] bool is_kept() const {
    return report_.outcome == Outcome::kFrozen || report_.outcome == Outcome::kWaiting;
  }
  bool must_stop();

  // -- the steps: false when the report is complete

  bool load();
  bool compile();
  bool stop_compiling();
  bool choose_entry();
  bool choose_initializer();
  bool give_arguments();
  void run_guest();
  [[nodiscard]] engine::FunctionInstance* function_of(RunPhase phase) const;
  bool run_phase(RunPhase phase);

  // -- linking

  bool link();
  bool instantiate(const engine::InstanceLimits& limits);
  Result<std::unique_ptr<wasi::System>> make_wasi();
  std::optional<HostImport> find_import(const wasm::Import& import);
  [[nodiscard]] const OwnFunction* find_own(const wasm::Import& import) const;

  // -- host calls, and the input that they read

  engine::HostAction call_host(const host::FunctionSpec& function, engine::HostCall& call);
  engine::HostAction call_own(const OwnFunction& function, engine::HostCall& call);
  engine::HostAction wait_for(const OwnFunction& function, engine::HostCall& call, std::string note);
  engine::HostAction call_wasi(const wasi::Function& function, engine::HostCall& call);
  engine::HostAction fail_checked_call(engine::HostCall& call);
  [[nodiscard]] bool streams_input() const;
  bool read_whole_input();
  bool wait_for_input();
  bool fetch_input(std::chrono::milliseconds patience);

  // -- freezing

  bool can_freeze();
  [[nodiscard]] Status is_freezable(const engine::FunctionInstance* called, std::string_view name) const;
  [[nodiscard]] FrozenState state_at(RunPhase phase) const;
  void freeze(RunPhase phase);
  void take_up(const FrozenState& state);
  bool take_up_call();

  // -- the report: stop() and its like return false

  bool stop(Outcome outcome, std::string code, std::string message, std::string hint) {
    report_.outcome = outcome;
    report_.errors.push_back({std::move(code), std::move(message), {}, std::move(hint), {}});
    return false;
  }
  bool stop(Outcome outcome, const Error& error) {
    report_.outcome = outcome;
    report_.errors.push_back(report_error(error));
    return false;
  }
  bool stop_invalid(const std::vector<Diagnostic>& diagnostics);
  bool stop_link(const engine::LinkError& error);
  void stop_trapped(const engine::Trap& trap);
  void stop_paused(engine::RunState state);
  void report_exit();
  ReportPlace show_place(const engine::CodePlace& place) const;
  void show_places(const std::vector<engine::CodePlace>& places, ReportError& error) const;
  void finish();
  void report_all();

  const Program& program_;
  const RunOptions& options_;
  const FrozenRun* const frozen_;
  const policy::Limits& limits_;
  RunContext context_;
  Report report_;

  lang::Loaded
      loaded_;  // without the module, which is moved out; still maps places back to the author's text
  std::shared_ptr<engine::CompiledModule> compiled_;
  engine::Store store_;
  engine::Instance* instance_ = nullptr;
  std::optional<GuestInstance> guest_;
  std::optional<host::Dispatcher> dispatcher_;
  std::optional<engine::Execution> execution_;
  bool reads_ahead_ = false;                         // reads all of the input before the program starts
  std::unique_ptr<wasi::System> wasi_;               // null when the module imports nothing of WASI
  engine::FunctionInstance* initializer_ = nullptr;  // _initialize of a reactor
  engine::FunctionInstance* entry_ = nullptr;
  std::vector<engine::Value> arguments_;
  std::string entry_name_;
  bool to_freeze_ = false;  // freeze, instead of ending, when the given fuel is used up
  bool resumed_ = false;
  bool in_kept_call_ = false;  // the next call of an embedder's function is the one in which it was frozen
  std::optional<WaitingCall> waits_for_;  // the call of an embedder's function that answers later
  host::World::Amounts amounts_at_start_;

  std::optional<Outcome> end_;                  // decided by a host call or the watch
  std::optional<host::HostError> failed_call_;  // of a checked call, or of one without an errno
  uint32_t failed_line_ = 0;
};

}  // namespace membrane::sandbox
