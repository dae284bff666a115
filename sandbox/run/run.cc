#include "sandbox/run/run.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/stop_scope.h"
#include "base/text.h"
#include "engine/code/fuel.h"
#include "sandbox/report/values.h"
#include "sandbox/run/stops.h"

namespace membrane::sandbox {
namespace {

using Clock = std::chrono::steady_clock;

// Exports of a WASI module, by the convention of its application ABI.
constexpr std::string_view kCommandEntry = "_start";
constexpr std::string_view kInitialize = "_initialize";

}  // namespace

Run::Run(const Program& program, const RunOptions& options, const FrozenRun* frozen)
    : program_(program),
      options_(options),
      frozen_(frozen),
      limits_(options.policy.limits),
      context_(options) {
  context_.begin(limits_.output_bytes);
  report_.cost_version = engine::kCostVersion;
  output().input = program.input;
  if (!program.input.empty()) world().note_input();
  if (options.freeze_after_fuel) report_.snapshot_bytes = 0;
  if (frozen != nullptr) take_up(frozen->state);
  if (options.freeze_after_fuel || !options.functions.empty()) amounts_at_start_ = world().left();
}

Report Run::execute() {
  const Clock::time_point start = Clock::now();
  if (load() && link() && choose_entry()) {
    report_.compile_us = microseconds_since(start);
    const Clock::time_point run_start = Clock::now();
    run_guest();
    report_.run_us = microseconds_since(run_start);
  } else {
    report_.compile_us = microseconds_since(start);
  }
  finish();
  return std::move(report_);
}

bool Run::must_stop() {
  if (const auto asked = context_.must_stop()) end_ = asked;
  return end_.has_value();
}

bool Run::load() {
  if (frozen_ != nullptr) compiled_ = frozen_->snapshot.module();
  const size_t bytes = compiled_ ? compiled_->module().content().size() : program_.source.size();
  if (bytes > limits_.module_bytes)
    return stop(Outcome::kInvalid, "module_too_large",
                "the program has " + count_of(bytes, "byte") + ", and the limit is " +
                    std::to_string(limits_.module_bytes),
                "Make it smaller, or raise limits.module_bytes.");
  if (compiled_) return true;
  const StopScope scope([this] { return must_stop(); });
  const bool compiled = compile();
  return scope.stopped() ? stop_compiling() : compiled;
}

// Also checked when there are findings: those caused by a stop are not the program's.
bool Run::stop_compiling() {
  report_.errors = {compile_stop_error(*end_, limits_)};
  report_.outcome = *end_;
  return false;
}

bool Run::compile() {
  auto loaded = lang::load_program(program_.source, program_.format, program_.name);
  if (!loaded) return stop_invalid(loaded.error());
  loaded_ = std::move(*loaded);
  auto compiled =
      engine::compile_module(std::move(loaded_.module), loaded_.text(), options_.tier, options_.code_cache);
  if (!compiled) return stop_invalid({loaded_.to_author(compiled.error())});
  compiled_ = std::move(*compiled);
  return true;
}

// -- the entry ----------------------------------------------------------------------------------------------------

bool Run::choose_entry() {
  std::string name = program_.entry;
  if (name.empty()) {
    for (const char* const candidate : {"_start", "run", "main"}) {
      if (entry_ != nullptr) break;
      entry_ = instance_->find_function(candidate);
      if (entry_ != nullptr) name = candidate;
    }
  } else {
    entry_ = instance_->find_function(name);
  }
  if (entry_ == nullptr) {
    std::string exported;
    for (const wasm::Export& e : compiled_->module().exports)
      if (e.kind == wasm::ExternKind::kFunc) exported += (exported.empty() ? "" : ", ") + e.name;
    return stop(
        Outcome::kInvalid, "unknown_entry",
        name.empty() ? "the program exports no function named _start, run or main"
                     : "the program exports no function \"" + name + "\"",
        exported.empty() ? "Export one: (func (export \"run\") …)." : "It exports: " + exported + ".");
  }
  entry_name_ = name;
  return choose_initializer() && give_arguments();
}

// A reactor's _initialize runs before any other export; a command has none.
bool Run::choose_initializer() {
  if (entry_name_ == kInitialize || entry_name_ == kCommandEntry) return true;
  initializer_ = instance_->find_function(kInitialize);
  if (initializer_ == nullptr) return true;
  const bool is_plain = initializer_->type->params.empty() && initializer_->type->results.empty();
  if (!is_plain) initializer_ = nullptr;  // a function of that name, but not a reactor's
  return true;
}

bool Run::give_arguments() {
  const std::string& name = entry_name_;
  const std::vector<wasm::ValType>& params = entry_->type->params;
  if (params.empty()) {  // the program reads its arguments with io.argument
    output().arguments = program_.arguments;
    return true;
  }
  if (params.size() != program_.arguments.size())
    return stop(Outcome::kInvalid, "wrong_argument_count",
                "\"" + name + "\" takes " + count_of(params.size(), "argument") + ", but got " +
                    std::to_string(program_.arguments.size()),
                "Give one value for each parameter.");
  for (size_t i = 0; i < params.size(); ++i) {
    auto value = parse_value(params[i], program_.arguments[i]);
    if (!value) return stop(Outcome::kInvalid, value.error());
    arguments_.push_back(*value);
  }
  return true;
}

// -- running ------------------------------------------------------------------------------------------------------

void Run::run_guest() {
  if (!can_freeze()) return;
  engine::ExecutionLimits limits;
  limits.stack_bytes = limits_.stack_bytes;
  limits.call_depth = static_cast<uint32_t>(std::min<uint64_t>(limits_.call_depth, 10'000'000));
  limits.poll = [this] { return must_stop(); };
  execution_.emplace(std::move(limits));
  const uint64_t before = fuel_before();
  const uint64_t fuel = context_.take_fuel(before);
  const uint64_t until_frozen = options_.freeze_after_fuel.value_or(UINT64_MAX) - before;
  to_freeze_ = options_.freeze_after_fuel && until_frozen <= fuel;
  execution_->add_fuel(to_freeze_ ? until_frozen : fuel);
  const RunPhase first = frozen_ == nullptr ? RunPhase::kStart : frozen_->state.phase;
  bool returned = true;
  for (const RunPhase phase : {RunPhase::kStart, RunPhase::kInitialize, RunPhase::kEntry})
    if (phase >= first) returned = returned && run_phase(phase);
  if (returned)
    for (const engine::Value& value : execution_->results()) report_.results.push_back(show_value(value));
  // For a run that ended while it owed fuel for a host call, or that worked for more than it had: the rest of its
  // fuel pays.
  uint64_t used = execution_->fuel_used();
  const uint64_t owed = execution_->fell_short() ? UINT64_MAX : execution_->fuel_owed();
  if (!is_kept()) used += std::min(owed, fuel - used);
  report_.fuel_used = before + used;
  context_.give_back_fuel(fuel - used);
}

engine::FunctionInstance* Run::function_of(RunPhase phase) const {
  const uint32_t start = compiled_->module().start;
  switch (phase) {
    case RunPhase::kStart: return start == UINT32_MAX ? nullptr : instance_->function(start);
    case RunPhase::kInitialize: return initializer_;
    case RunPhase::kEntry: return entry_;
  }
  return nullptr;
}

// True when there is nothing to call, or it returned.
bool Run::run_phase(RunPhase phase) {
  engine::FunctionInstance* const function = function_of(phase);
  std::span<const engine::Value> arguments;
  if (phase == RunPhase::kEntry) arguments = arguments_;
  if (frozen_ != nullptr && !std::exchange(resumed_, true)) {
    if (function != instance_->function(frozen_->snapshot.entry()))
      return stop(Outcome::kInvalid, "invalid_input",
                  "the snapshot is damaged: what runs is neither its start function nor its entry",
                  "Freeze the program again.");
    if (!take_up_call()) return false;
    if (auto put = frozen_->snapshot.resume_in(*execution_, *instance_); !put)
      return stop(Outcome::kInvalid, put.error());
  } else if (function == nullptr) {
    return true;
  } else if (auto started = execution_->start(function, arguments); !started) {
    return stop(Outcome::kFailed, started.error());
  }
  switch (const engine::RunState state = execution_->resume()) {
    case engine::RunState::kFinished: return true;
    case engine::RunState::kExited: report_exit(); return false;
    case engine::RunState::kTrapped: stop_trapped(execution_->trap()); return false;
    default:
      if (state == engine::RunState::kOutOfFuel && (to_freeze_ || waits_for_)) freeze(phase);
      else stop_paused(state);
      return false;
  }
}

// -- from outside -------------------------------------------------------------------------------------------------

Report run(const Program& program, const RunOptions& options) {
  if (const Status held = policy::check_for_wasm(options.policy); !held) return refusal(held.error());
  return Run(program, options).execute();
}

Report thaw(std::span<const uint8_t> bytes, const RunOptions& options) {
  const Clock::time_point start = Clock::now();
  const auto refused = [&](const Error& error) {
    Report report = refusal(error);
    if (options.freeze_after_fuel) report.snapshot_bytes = 0;
    return report;
  };
  const auto deadline = start + std::chrono::milliseconds(options.policy.limits.wall_ms);
  std::optional<Outcome> stopped;
  const auto snapshot = [&] {
    const StopScope scope([&] { return (stopped = stop_requested(options.cancel, deadline)).has_value(); });
    return engine::Snapshot::read(bytes, options.tier, options.code_cache);
  }();
  if (stopped) {
    Report report = refused({});
    report.outcome = *stopped;
    report.errors = {compile_stop_error(*stopped, options.policy.limits)};
    return report;
  }
  if (!snapshot) return refused(snapshot.error());
  auto state = read_state(snapshot->embedder_state());
  if (!state) return refused(state.error());
  const Program program{.source = {},
                        .name = state->program_name,
                        .format = lang::SourceFormat::kAuto,
                        .entry = state->entry,
                        .arguments = state->arguments,
                        .input = state->input,
                        .environment = {}};
  const FrozenRun frozen{*snapshot, *state};
  const double read_us = microseconds_since(start);
  Report report = Run(program, options, &frozen).execute();
  report.compile_us += read_us;
  return report;
}

}  // namespace membrane::sandbox
