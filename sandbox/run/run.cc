#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "base/stop_scope.h"
#include "engine/code/fuel.h"
#include "engine/execution/execution.h"
#include "engine/execution/module.h"
#include "engine/freeze/snapshot.h"
#include "host/calls/dispatch.h"
#include "host/calls/link.h"
#include "host/calls/registry.h"
#include "lang/load_program.h"
#include "sandbox/report/values.h"
#include "sandbox/run/frozen_state.h"
#include "sandbox/run/guest_instance.h"
#include "sandbox/run/host_import.h"
#include "sandbox/run/output_limit.h"
#include "sandbox/run/replayed_grants.h"
#include "sandbox/run/report_building.h"
#include "sandbox/run/run_context.h"
#include "sandbox/run/sandbox.h"
#include "sandbox/run/stops.h"
#include "sandbox/run/wasi_calls.h"
#include "wasm/explain.h"

namespace membrane::sandbox {
namespace {

using Clock = std::chrono::steady_clock;

// Exports of a WASI module, by the convention of its application ABI.
constexpr std::string_view kCommandEntry = "_start";
constexpr std::string_view kInitialize = "_initialize";

// The function that ends the preprocessor's checked calls: it is not a capability, and not in the report.
const wasm::FuncType& fail_type() {
  static const wasm::FuncType type{{wasm::ValType::kI32, wasm::ValType::kI32, wasm::ValType::kI32}, {}};
  return type;
}

// A frozen run to resume. Borrowed.
struct Frozen {
  const engine::Snapshot& snapshot;
  FrozenState& state;  // its contents are moved into the run
};

// One run, from the text or a snapshot to the report. A step that fails leaves a complete report.
class Run {
 public:
  Run(const Program& program, const RunOptions& options, const Frozen* frozen = nullptr)
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

  Report execute() {
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

 private:
  [[nodiscard]] host::World& world() const { return context_.world(); }
  [[nodiscard]] Conversation& output() { return context_.output(); }
  [[nodiscard]] const Conversation& output() const { return context_.output(); }
  bool load();
  bool compile();
  bool stop_compiling();
  bool link();
  bool choose_entry();
  bool choose_initializer();
  bool give_arguments();
  Result<std::unique_ptr<wasi::System>> make_wasi();
  void run_guest();
  [[nodiscard]] engine::FunctionInstance* function_of(RunPhase phase) const;
  bool run_phase(RunPhase phase);
  void take_up(const FrozenState& state);
  bool instantiate(const engine::InstanceLimits& limits);
  bool can_freeze();
  [[nodiscard]] Status is_freezable(const engine::FunctionInstance* called, std::string_view name) const;
  [[nodiscard]] FrozenState state_at(RunPhase phase) const;
  void freeze(RunPhase phase);
  bool take_up_call();
  [[nodiscard]] uint64_t fuel_before() const {
    return frozen_ == nullptr ? 0 : frozen_->snapshot.fuel_used();
  }
  void finish();
  void report_all();

  std::optional<HostImport> find_import(const wasm::Import& import);
  engine::HostAction call_host(const host::FunctionSpec& function, engine::HostCall& call);
  engine::HostAction call_wasi(const wasi::Function& function, engine::HostCall& call);
  bool wait_for_input();
  bool fetch_input(std::chrono::milliseconds patience);
  bool read_whole_input();
  [[nodiscard]] bool streams_input() const;
  [[nodiscard]] const OwnFunction* find_own(const wasm::Import& import) const;
  engine::HostAction call_own(const OwnFunction& function, engine::HostCall& call);
  engine::HostAction wait_for(const OwnFunction& function, engine::HostCall& call, std::string note);
  [[nodiscard]] bool is_kept() const {
    return report_.outcome == Outcome::kFrozen || report_.outcome == Outcome::kWaiting;
  }
  engine::HostAction fail_checked_call(engine::HostCall& call);
  bool must_stop();
  [[nodiscard]] bool memory_limit_was_hit() const {
    return instance_->limit_was_hit() || (frozen_ != nullptr && frozen_->state.memory_limit_was_hit);
  }

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
  void report_exit();
  void stop_trapped(const engine::Trap& trap);
  void stop_paused(engine::RunState state);
  ReportPlace show_place(const engine::CodePlace& place) const;
  void show_places(const std::vector<engine::CodePlace>& places, ReportError& error) const;

  const Program& program_;
  const RunOptions& options_;
  const Frozen* const frozen_;
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

bool Run::stop_invalid(const std::vector<Diagnostic>& diagnostics) {
  report_.outcome = Outcome::kInvalid;
  for (const Diagnostic& diagnostic : diagnostics) report_.errors.push_back(report_error(diagnostic));
  return false;
}

// Output and usage of a frozen run precede those of its continuation.
void Run::take_up(const FrozenState& state) {
  output().stdout_text = state.stdout_text;
  output().stderr_text = state.stderr_text;
  output().result = state.result;
  output().answer = state.answer;
  output().submitted = state.submitted;
  output().written_bytes = state.written_bytes;
  world().go_to(state.sources);
  world().add_flows(state.flows);
  report_.fuel_used = fuel_before();
  world().take_after({state.host_calls, state.bytes_in, state.bytes_out, state.tokens});
}

bool Run::load() {
  if (frozen_ != nullptr) compiled_ = frozen_->snapshot.module();
  const size_t bytes = compiled_ ? compiled_->module().content().size() : program_.source.size();
  if (bytes > limits_.module_bytes)
    return stop(Outcome::kInvalid, "module_too_large",
                "the program has " + std::to_string(bytes) + " bytes, and the limit is " +
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

// -- linking -----------------------------------------------------------------------------------

const OwnFunction* Run::find_own(const wasm::Import& import) const {
  if (import.kind != wasm::ExternKind::kFunc) return nullptr;
  for (const OwnFunction& function : options_.functions)
    if (function.module == import.module && function.name == import.name) return &function;
  return nullptr;
}

bool Run::link() {
  const auto is_own = [this](const wasm::Import& import) {
    return find_own(import) != nullptr || find_wasi(import) != nullptr;
  };
  if (auto linkage = host::link_imports(compiled_->module(), is_own); !linkage) {
    if (frozen_ != nullptr)
      for (Diagnostic& d : linkage.error())
        d.hint = "it was there when the program was frozen: define it before thawing";
    return stop_invalid(linkage.error());
  }
  engine::InstanceLimits limits{
      limits_.memory_bytes, static_cast<uint32_t>(std::min<uint64_t>(limits_.table_elements, UINT32_MAX))};
  limits.heap_bytes = limits_.memory_bytes;
  const auto is_wasi = [](const wasm::Import& import) { return find_wasi(import) != nullptr; };
  const bool has_wasi = std::ranges::any_of(compiled_->module().imports, is_wasi);
  reads_ahead_ =
      options_.read_input && !options_.input_is_ambient && (!has_wasi || options_.freeze_after_fuel);
  if (reads_ahead_ && !read_whole_input()) return false;
  if (has_wasi) {
    if (auto same = check_replayed_grants(world(), options_.policy); !same)
      return stop(Outcome::kInvalid, same.error());
    auto made = make_wasi();
    if (!made) return stop(Outcome::kInvalid, made.error());
    wasi_ = std::move(*made);
  }
  return instantiate(limits);
}

// With the given config, or from the frozen state.
Result<std::unique_ptr<wasi::System>> Run::make_wasi() {
  wasi::Config config;
  config.policy = &options_.policy;
  config.world = context_.wasi_world([this] { return must_stop(); });
  config.world.stdin_comes_first = true;
  if (frozen_ != nullptr) {
    const std::string& bytes = frozen_->state.wasi;
    MEMBRANE_ASSIGN(auto thawed,
                    wasi::System::thaw({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()},
                                       std::move(config)));
    std::string().swap(frozen_->state.wasi);  // frees it: it may be as large as all of the program's files
    if (!streams_input()) thawed->close_stdin();
    return thawed;
  }
  config.arguments.push_back(program_.name);
  config.arguments.insert(config.arguments.end(), program_.arguments.begin(), program_.arguments.end());
  config.environment = program_.environment;
  config.stdin_text = output().input;
  config.stdin_waits = streams_input();
  return wasi::System::create(std::move(config));
}

bool Run::instantiate(const engine::InstanceLimits& limits) {
  const auto resolver =
      resolver_of(store_, [this](const wasm::Import& import) { return find_import(import); });
  auto made = frozen_ == nullptr ? store_.instantiate(compiled_, resolver, limits)
                                 : frozen_->snapshot.instantiate(store_, resolver, limits);
  if (!made) return stop_link(made.error());
  instance_ = *made;
  guest_.emplace(*instance_, output());
  dispatcher_.emplace(*guest_, world().broker());
  context_.bound_memory_by(*guest_);
  if (frozen_ == nullptr) return true;
  guest_->set_heap_next(frozen_->state.heap_next);
  dispatcher_->go_on_from(frozen_->state.history);
  if (wasi_ == nullptr || wasi_->account_to(*guest_)) return true;
  return stop(
      Outcome::kOutOfMemory, "exhausted",
      "the memory limit has no room for the program's data in the host: its files, listings and answers",
      "Raise the memory limit to what it was when the program was frozen.");
}

std::optional<HostImport> Run::find_import(const wasm::Import& import) {
  if (const OwnFunction* const own = find_own(import))
    return HostImport{own->type, [this, own](engine::HostCall& call) { return call_own(*own, call); }};
  if (const wasi::Function* const function = find_wasi(import))
    return HostImport{function->type,
                      [this, function](engine::HostCall& call) { return call_wasi(*function, call); }};
  if (import.module == "membrane" && import.name == "fail")
    return HostImport{fail_type(), [this](engine::HostCall& call) { return fail_checked_call(call); }};
  if (const host::FunctionSpec* const function = host::find_function(import.module, import.name))
    return HostImport{host::wasm_signature_of(*function),
                      [this, function](engine::HostCall& call) { return call_host(*function, call); }};
  return std::nullopt;
}

bool Run::stop_link(const engine::LinkError& error) {
  switch (error.kind) {
    case engine::LinkError::Kind::kLimit: return stop(Outcome::kOutOfMemory, error.error);
    case engine::LinkError::Kind::kTrap:
      return stop(Outcome::kTrapped, std::string(name_of(error.trap)), error.error.message, error.error.hint);
    default: return stop(Outcome::kInvalid, error.error);
  }
}

// -- host calls -----------------------------------------------------------------------------------

bool Run::must_stop() {
  if (const auto asked = context_.must_stop()) end_ = asked;
  return end_.has_value();
}

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
  const Clock::time_point start = Clock::now();
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
                  "the input has more than " + std::to_string(limits_.bytes_in) + " bytes",
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

// -- the entry --------------------------------------------------------------------------------------

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
                "\"" + name + "\" takes " + std::to_string(params.size()) + " arguments, but got " +
                    std::to_string(program_.arguments.size()),
                "Give one value for each parameter.");
  for (size_t i = 0; i < params.size(); ++i) {
    auto value = parse_value(params[i], program_.arguments[i]);
    if (!value) return stop(Outcome::kInvalid, value.error());
    arguments_.push_back(*value);
  }
  return true;
}

// -- freezing -------------------------------------------------------------------------------------------

// Checked before anything runs, since a run that cannot be frozen in the end would be lost.
bool Run::can_freeze() {
  if (!options_.freeze_after_fuel) return true;
  if (Status can = is_freezable(entry_, entry_name_); !can) return stop(Outcome::kInvalid, can.error());
  if (*options_.freeze_after_fuel < fuel_before())
    return stop(Outcome::kInvalid, "invalid_argument",
                "the program should be frozen after " + std::to_string(*options_.freeze_after_fuel) +
                    " fuel, but has used " + std::to_string(fuel_before()) + " already",
                "Fuel counts from the start of the run: freeze it after more.");
  return true;
}

// While `called` runs, which only the run itself has called.
Status Run::is_freezable(const engine::FunctionInstance* called, std::string_view name) const {
  if (called->code == nullptr)
    return fail(ErrorCode::kUnsupported,
                "\"" + std::string(name) + "\" is a function of the host, which cannot be frozen",
                "Call it from a function of the program.");
  const auto& kv = options_.policy.kv;
  const auto is_kv = [](const wasm::Import& import) { return import.module == "kv"; };
  if (kv && kv->path.empty() && options_.replay == nullptr &&
      std::ranges::any_of(compiled_->module().imports, is_kv))
    return fail(ErrorCode::kUnsupported,
                "the program uses a key-value store in memory, which a snapshot does not hold",
                "Grant one in a file, which is found again when it is thawed.");
  return {};
}

// Everything except the WASI state.
FrozenState Run::state_at(RunPhase phase) const {
  const host::World::Amounts now = world().left();
  const auto used = [](uint64_t before, uint64_t at_start, uint64_t left) {
    return before + (at_start - std::min(at_start, left));
  };
  const FrozenState nothing;
  const FrozenState& before = frozen_ == nullptr ? nothing : frozen_->state;
  FrozenState state;
  state.program_name = program_.name;
  state.entry = entry_name_;
  state.phase = phase;
  state.arguments = program_.arguments;
  state.input = output().input;
  state.stdout_text = output().stdout_text;
  state.stderr_text = output().stderr_text;
  state.result = output().result;
  state.answer = output().answer;
  state.submitted = output().submitted;
  state.written_bytes = output().written_bytes;
  state.heap_next = guest_->heap_next();
  state.memory_limit_was_hit = memory_limit_was_hit();
  state.sources = world().position();
  state.flows = world().flow_state();
  state.host_calls = used(before.host_calls, amounts_at_start_.host_calls, now.host_calls);
  state.bytes_in = used(before.bytes_in, amounts_at_start_.bytes_in, now.bytes_in);
  state.bytes_out = used(before.bytes_out, amounts_at_start_.bytes_out, now.bytes_out);
  state.tokens = used(before.tokens, amounts_at_start_.tokens, now.tokens);
  state.tokens_reported = before.tokens_reported + world().tokens_used();
  state.history = dispatcher_->history();
  if (waits_for_) state.waits = waits_for_->note;
  return state;
}

void Run::freeze(RunPhase phase) {
  if (waits_for_) {
    const std::string name = phase == RunPhase::kEntry ? entry_name_ : waits_for_->name;
    if (Status can = is_freezable(function_of(phase), name); !can) {
      stop(Outcome::kInvalid, can.error());
      report_.errors.back().message += "; it waits for " + waits_for_->name;
      return;
    }
  }
  FrozenState state = state_at(phase);
  if (wasi_) {
    auto frozen = wasi_->freeze();
    if (!frozen) {
      stop(Outcome::kFailed, frozen.error());
      return;
    }
    state.wasi.assign(frozen->begin(), frozen->end());
    std::vector<uint8_t>().swap(*frozen);
  }
  auto snapshot = engine::freeze(*execution_, *instance_, write_state(std::move(state)), fuel_before());
  if (!snapshot) {
    stop(Outcome::kFailed, snapshot.error());
    return;
  }
  report_.outcome = waits_for_ ? Outcome::kWaiting : Outcome::kFrozen;
  if (waits_for_) report_.waits_for.push_back(*std::move(waits_for_));
  report_.snapshot = std::move(*snapshot);
  report_.snapshot_bytes = report_.snapshot.size();
}

// -- running --------------------------------------------------------------------------------------------

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

// The answer for a waiting run must fit the call.
bool Run::take_up_call() {
  if (!frozen_->state.waits) {
    if (options_.answer == nullptr) return true;
    return stop(Outcome::kInvalid, "invalid_argument", "the run waits for no answer, but was given one",
                "Thaw it without an answer.");
  }
  const auto awaited = frozen_->snapshot.awaited();
  const OwnFunction* function = nullptr;
  for (const wasm::Import& import : compiled_->module().imports)
    if (awaited && import.kind == wasm::ExternKind::kFunc && import.index == *awaited)
      function = find_own(import);
  if (function == nullptr)
    return stop(Outcome::kInvalid, "invalid_input", "the run waits for a function that is not defined",
                "Define it before the run is resumed. If it is defined, the snapshot is damaged.");
  if (options_.answer != nullptr)
    if (Status fits = options_.answer->check(*function); !fits) return stop(Outcome::kInvalid, fits.error());
  in_kept_call_ = true;
  return true;
}

// The program exited by itself: with an exit code if it is a WASI program. Only the program knows whether it failed
// because of an earlier refusal; the report lists the refusals.
void Run::report_exit() {
  if (!wasi_ || !wasi_->exit_code()) return;
  report_.exit_code = static_cast<int>(*wasi_->exit_code());
  const host::HostError* const denial = wasi_->last_denial();
  if (report_.exit_code == 0 || denial == nullptr) return;
  report_.errors.push_back({std::string(host::name_of(denial->code)),
                            "a call was refused before: " + denial->reason,
                            {},
                            allowed_by(denial->grant),
                            {}});
}

// The innermost place is where it happened, the others are callers.
void Run::show_places(const std::vector<engine::CodePlace>& places, ReportError& error) const {
  if (places.empty()) return;
  error.place = show_place(places.front());
  for (size_t i = 1; i < places.size(); ++i) error.backtrace.push_back(show_place(places[i]));
}

ReportPlace Run::show_place(const engine::CodePlace& place) const {
  ReportPlace shown;
  shown.function = wasm::place_of_function(compiled_->module(), place.function);
  shown.offset = place.code_offset;
  if (place.text_offset != UINT32_MAX) {
    const Place in_text = loaded_.author_place(place.text_offset);
    shown.line = in_text.line;
    shown.column = in_text.column;
  }
  return shown;
}

void Run::stop_trapped(const engine::Trap& trap) {
  ReportError error{std::string(name_of(trap.kind)), trap.message, {}, std::string(hint_of(trap.kind)), {}};
  show_places(trap.backtrace, error);
  const bool is_heap_full = trap.kind == engine::TrapKind::kHeapExhausted;
  report_.outcome = outcome_of({.state = engine::RunState::kTrapped, .outcome = end_},
                               memory_limit_was_hit() || is_heap_full);
  if (failed_call_) {
    error.code =
        failed_call_->code == host::Errno::kOk ? "host" : std::string(host::name_of(failed_call_->code));
    if (failed_line_ != 0) error.place.line = failed_line_;
    if (!failed_call_->grant.empty()) error.hint = allowed_by(failed_call_->grant);
    else if (error.hint.empty()) error.hint = std::string(host::describe(failed_call_->code));
  }
  if (end_ == Outcome::kOutOfOutput && !failed_call_) {
    error.code = std::string(name_of(Outcome::kOutOfOutput));
    error.message =
        "the program wrote more than its output limit of " + std::to_string(limits_.output_bytes) + " bytes";
    error.hint = "Write less" + or_raise_output(limits_.output_bytes) + ".";
  }
  if (!end_ && memory_limit_was_hit())
    error.hint = "A memory.grow was refused before: the memory limit is " +
                 std::to_string(limits_.memory_bytes) + " bytes. Ask for less" +
                 or_raise_memory(limits_.memory_bytes) + ".";
  if (!end_ && !failed_call_ && wasi_ && wasi_->last_denial() != nullptr) {
    const host::HostError& refused = *wasi_->last_denial();
    error.hint = "A call was refused before: " + refused.reason;
    if (!refused.grant.empty()) error.hint += " " + allowed_by(refused.grant);
  }
  const host::CallRecord* const denial = dispatcher_->last_denial();
  const bool is_denied = failed_call_ ? failed_call_->code == host::Errno::kAccess : !wasi_;
  if (!end_ && denial != nullptr && is_denied) {
    report_.outcome = Outcome::kDenied;
    if (!failed_call_) error.hint = denial->name + " was refused before: " + denial->reason;
    if (!failed_call_ && !denial->grant.empty()) error.hint += " " + allowed_by(denial->grant);
  }
  report_.errors.push_back(std::move(error));
}

void Run::stop_paused(engine::RunState state) {
  report_.outcome = outcome_of({.state = state, .outcome = end_}, memory_limit_was_hit());
  ReportError error = stop_error(report_.outcome, limits_);
  show_places(execution_->backtrace(), error);
  report_.errors.push_back(std::move(error));
}

void Run::finish() {
  report_all();
  limit_output(report_, limits_.output_bytes);
}

void Run::report_all() {
  if (wasi_ && guest_ && !is_kept()) {
    wasi_->finish(*guest_);
    for (host::CallRecord& record : wasi_->take_records()) dispatcher_->record(std::move(record));
    std::vector<ReportFile> files;
    for (const wasi::FileEntry& file : wasi_->written_files())
      if (file.type == wasi::FileType::kRegularFile) files.push_back({file.path, file.size});
    report_files(options_, *wasi_, std::move(files), report_);
  }
  report_.result = std::move(output().result);
  report_output(std::move(output()), report_);
  report_.tokens_used = world().tokens_used();
  report_.flows = world().flow_report();
  report_unanswered(report_);
  if (frozen_ != nullptr) report_.tokens_used += frozen_->state.tokens_reported;
  if (instance_ != nullptr) report_.memory_peak_bytes = instance_->memory_bytes();  // it never shrinks
  if (!dispatcher_) return;
  report_host_calls(*dispatcher_, report_);
  report_end_of_replay(world(), report_);
}

}  // namespace

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
  const Frozen frozen{*snapshot, *state};
  const double read_us = microseconds_since(start);
  Report report = Run(program, options, &frozen).execute();
  report.compile_us += read_us;
  return report;
}

}  // namespace membrane::sandbox
