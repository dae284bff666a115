#include "sandbox/session/body.h"

#include <utility>

#include "engine/instance/host_share.h"
#include "host/calls/registry.h"
#include "sandbox/run/wasi_calls.h"

namespace membrane::sandbox {

using engine::HostAction;

Body::Body(const Surroundings& around, std::unique_ptr<wasi::System> system)
    : around_(around), system_(std::move(system)) {}

// -- linking ------------------------------------------------------------------------------------------------------

Status Body::finish_begin(std::expected<engine::Instance*, engine::LinkError> made) {
  if (!made) return std::unexpected(std::move(made).error().error);
  instance_ = *made;
  guest_.emplace(*instance_, *around_.output);
  dispatcher_.emplace(*guest_, *around_.broker);
  door_.emplace(*guest_, *dispatcher_, around_.session);
  (void)system_->account_to(*guest_);  // files of the owner count as far as they fit
  return {};
}

Status Body::begin(const engine::InstanceImage& image, const engine::InstanceLimits& limits,
                   std::shared_ptr<const Waiting> waiting) {
  MEMBRANE_TRY(finish_begin(image.instantiate(store_, resolver(), limits)));
  waiting_ = std::move(waiting);
  if (waiting_ != nullptr) guest_->set_heap_next(waiting_->heap_next);
  return {};
}

Status Body::begin(std::shared_ptr<engine::CompiledModule> module, const engine::InstanceLimits& limits) {
  return finish_begin(store_.instantiate(std::move(module), resolver(), limits, {.is_alone = true}));
}

engine::Resolver Body::resolver() {
  return resolver_of(store_, [this](const wasm::Import& import) { return find_import(import); });
}

std::optional<HostImport> Body::find_import(const wasm::Import& import) {
  if (const wasi::Function* const function = find_wasi(import))
    return HostImport{function->type,
                      [this, function](engine::HostCall& call) { return call_wasi(*function, call); }};
  if (const host::FunctionSpec* const function = host::find_function(import.module, import.name))
    return HostImport{host::wasm_signature_of(*function),
                      [this, function](engine::HostCall& call) { return call_capability(*function, call); }};
  if (around_.interpreter == nullptr) return std::nullopt;
  auto own = around_.interpreter->import(import.module, import.name);
  if (!own) return std::nullopt;
  return HostImport{own->type, [this, function = std::move(own->function)](engine::HostCall& call) {
                      return call_interpreter(function, call);
                    }};
}

// -- host functions -----------------------------------------------------------------------------------------------

// Calls one of the interpreter's functions, which may call back into the module. If the callback ends the run, so
// does this call.
HostAction Body::call_interpreter(const InterpreterFunction& function, engine::HostCall& call) {
  guest_->enter(call);
  called_back_ = engine::RunState::kFinished;
  if (runs_on_) return function(*this, call);
  const uint64_t fuel_before = call.execution.fuel_left();
  const HostAction action = function(*this, call);
  if (action != HostAction::kTrap) return action;
  // Nothing was done: the call is repeated when there is an answer, or more fuel.
  const bool lacks_fuel = std::exchange(door_lacks_fuel_, false);
  if (std::exchange(door_waits_, false) || lacks_fuel) {
    awaits_answer_ = !lacks_fuel;
    engine::give_back_fuel(call, fuel_before - std::min(fuel_before, call.execution.fuel_left()));
    return HostAction::kOutOfFuel;
  }
  const engine::RunState inner = std::exchange(called_back_, engine::RunState::kFinished);
  if (inner == engine::RunState::kOutOfFuel) return HostAction::kOutOfFuel;
  return std::exchange(exits_, false) || inner == engine::RunState::kExited ? HostAction::kExit : action;
}

HostAction Body::end_with(host::CallEnd end) {
  if (end == host::CallEnd::kReturn) {
    stop_.outcome = around_.must_stop ? around_.must_stop() : std::nullopt;
    return stop_.outcome ? HostAction::kInterrupt : HostAction::kContinue;
  }
  const Consequence consequence = consequence_of(end);
  if (consequence.outcome) stop_.outcome = consequence.outcome;
  return consequence.action;
}

HostAction Body::call_capability(const host::FunctionSpec& function, engine::HostCall& call) {
  if (runs_on_) return HostAction::kTrap;
  met_the_world_ = asked_others_ = true;
  guest_->enter(call);
  const host::CallOutcome outcome = dispatcher_->call(function, call.arguments, call.results);
  if (outcome.end != host::CallEnd::kReturn) call.trap_message = outcome.error.reason;
  return end_with(outcome.end);
}

namespace {

// Whether the function's result is independent of when and where a program of a package runs.
bool is_always_alike(wasi::FunctionId function) {
  using enum wasi::FunctionId;
  switch (function) {
    case args_get:
    case args_sizes_get:
    case environ_get:
    case environ_sizes_get:
    case fd_fdstat_get:
    case fd_prestat_get:
    case fd_prestat_dir_name:
    case sched_yield: return true;
    default: return false;
  }
}

}  // namespace

HostAction Body::call_wasi(const wasi::Function& function, engine::HostCall& call) {
  if (runs_on_) return HostAction::kTrap;
  const uint64_t fuel_before = call.execution.fuel_left();
  const uint64_t first_argument = call.arguments.empty() ? 0 : call.arguments[0];
  const bool only_says =
      function.id == wasi::FunctionId::fd_write && system_->is_output(static_cast<uint32_t>(first_argument));
  if (!only_says && !is_always_alike(function.id)) asked_others_ = true;
  WasiConsequence consequence = sandbox::call_wasi(*system_, function, *guest_, call);
  while (consequence.waits && around_.give_input) {
    if (!around_.give_input()) {
      stop_.outcome = around_.must_stop ? around_.must_stop() : std::nullopt;
      if (!stop_.outcome) stop_.outcome = Outcome::kFailed;
      return HostAction::kInterrupt;
    }
    consequence = sandbox::call_wasi(*system_, function, *guest_, call);
  }
  list_calls_of_system();
  awaits_answer_ = std::exchange(door_waits_, false);
  if (std::exchange(door_lacks_fuel_, false) || awaits_answer_) {
    // Nothing was done: the call is repeated when there is more fuel, or an answer. Its result has replaced its
    // first argument.
    if (!call.results.empty()) call.results[0] = first_argument;
    engine::give_back_fuel(call, fuel_before - call.execution.fuel_left());
    return HostAction::kOutOfFuel;
  }
  if (!consequence.waits && !is_always_alike(function.id)) met_the_world_ = true;
  if (stop_.outcome) {  // the device's request ended the run
    call.trap_message = std::move(stop_.message);
    return HostAction::kTrap;
  }
  waits_ = waits_ || consequence.waits;
  if (consequence.outcome) stop_.outcome = consequence.outcome;
  if (consequence.action != HostAction::kContinue) return consequence.action;
  if (std::exchange(exits_, false)) return HostAction::kExit;
  // A language would raise an error for a sleep that the deadline cut short, and the run would end where it reports it.
  const bool may_have_slept = function.id == wasi::FunctionId::poll_oneoff;
  return may_have_slept ? end_with(host::CallEnd::kReturn) : HostAction::kContinue;
}

void Body::list_calls_of_system() {
  for (host::CallRecord& record : system_->take_records()) dispatcher_->list(std::move(record));
}

std::string Body::answer(std::string_view request) {
  std::string answer = door_->answer(request, is_of_program_ && calls_back_ == 0);
  if (!door_->was_of_turn()) asked_others_ = true;
  list_calls_of_system();
  switch (door_->end()) {
    case host::CallEnd::kReturn:
      stop_.outcome = around_.must_stop ? around_.must_stop() : std::nullopt;
      break;
    case host::CallEnd::kExit: exits_ = true; break;
    case host::CallEnd::kOutOfFuel: door_lacks_fuel_ = true; break;
    case host::CallEnd::kWaits: door_waits_ = true; break;
    case host::CallEnd::kOutOfOutput: stop_.outcome = Outcome::kOutOfOutput; break;
    default: break;
  }
  return answer;
}

std::optional<std::string> Body::ask(engine::HostCall& during, std::string_view request) {
  guest_->enter(during);
  std::string text = answer(request);
  if (calls_back_ > 0 && std::exchange(door_lacks_fuel_, false)) stop_.outcome = Outcome::kOutOfFuel;
  if (stop_.outcome || exits_ || door_waits_ || door_lacks_fuel_) return std::nullopt;
  return text;
}

bool Body::print(engine::HostCall& during, bool is_error, std::string_view text) {
  guest_->enter(during);
  during.owe(text.size());
  if (guest_->print(is_error ? host::Stream::kStderr : host::Stream::kStdout, text)) return true;
  stop_.outcome = Outcome::kOutOfOutput;
  return false;
}

bool Body::sleep(engine::HostCall& during, double ns) {
  asked_others_ = true;
  guest_->enter(during);
  constexpr double kMost = 9e18;
  if (system_->sleep(static_cast<uint64_t>(std::min(ns, kMost)))) return true;
  if (around_.must_stop) stop_.outcome = around_.must_stop();
  return false;
}

// While a vector grows, its old elements exist beside twice as many new ones.
bool Body::note(std::initializer_list<uint32_t> numbers) {
  constexpr uint64_t kForms = 3;
  if (!guest_->host_memory().keep(host::HostMemory::Holder::kNotes,
                                  (notes_.size() + numbers.size()) * sizeof(uint32_t) * kForms)) {
    stop_.outcome = Outcome::kOutOfMemory;
    return false;
  }
  notes_.insert(notes_.end(), numbers);
  return true;
}

std::vector<uint32_t> Body::take_notes() {
  static_cast<void>(guest_->host_memory().keep(host::HostMemory::Holder::kNotes, 0));
  return std::exchange(notes_, {});
}

// -- running ------------------------------------------------------------------------------------------------------

void Body::start_run(const engine::ExecutionLimits& limits, uint64_t fuel,
                     std::optional<uint64_t> pause_at_fuel) {
  limits_ = limits;
  limits_.poll = [this] {
    if (runs_on_) return std::chrono::steady_clock::now() > runs_on_until_;
    if (around_.must_stop && !stop_.outcome) stop_.outcome = around_.must_stop();
    return stop_.outcome.has_value();
  };
  fuel_left_ = fuel;
  fuel_used_ = 0;
  pause_at_fuel_ = pause_at_fuel;
  stop_ = {};
  exits_ = waits_ = is_of_program_ = is_paused_ = runs_on_ = asked_others_ = false;
  stacks_.clear();
  static_cast<void>(take_notes());
  progress_.clear();
  dispatcher_.emplace(*guest_, *around_.broker);
  door_.emplace(*guest_, *dispatcher_, around_.session);
}

bool Body::refuse(Error error) {
  stop_.outcome = Outcome::kFailed;
  stop_.message = std::move(error.message);
  return false;
}

bool Body::start(std::string_view name, std::span<const engine::Value> arguments) {
  engine::FunctionInstance* const function = instance_->find_function(name);
  if (function == nullptr)
    return refuse({ErrorCode::kNotFound, "the module exports no function \"" + std::string(name) + "\"", {}});
  execution_ = std::make_unique<engine::Execution>(limits_);
  counted_ = 0;
  if (Status started = execution_->start(function, arguments); !started)
    return refuse(std::move(started).error());
  return true;
}

bool Body::set_global(std::string_view name, uint32_t value) {
  const auto found = instance_->find_export(name);
  engine::GlobalInstance* const global = found ? found->global : nullptr;
  if (global == nullptr || !global->type.is_mutable || global->type.type != wasm::ValType::kI32) return false;
  global->bits = value;
  return true;
}

bool Body::trap(engine::TrapKind kind, std::string message) {
  stop_.state = engine::RunState::kTrapped;
  stop_.trap = {.kind = kind, .message = std::move(message), .backtrace = {}};
  return false;
}

bool Body::call(std::string_view name, std::span<const engine::Value> arguments) {
  is_of_program_ = false;
  return start(name, arguments) && take_result(run());
}

bool Body::call_program(std::string_view name, std::span<const engine::Value> arguments) {
  is_of_program_ = true;
  return start(name, arguments) && take_result(run());
}

bool Body::take_result(bool returned) {
  if (returned) result_ = execution_->results().empty() ? 0 : execution_->results()[0].bits;
  using enum engine::RunState;
  const bool can_run_on = stop_.state == kOutOfFuel || stop_.state == kInterrupted;
  if (returned || !can_run_on) execution_.reset();
  return returned;
}

// False when the run did not finish; the reason has been recorded.
bool Body::run() {
  uint64_t most = fuel_left_;
  if (is_of_program_ && pause_at_fuel_)
    most = std::min(most, *pause_at_fuel_ - std::min(fuel_used_, *pause_at_fuel_));
  // fuel_used_ already includes the debt, which is paid first; the remaining fuel counts.
  execution_->add_fuel(most + execution_->fuel_owed() - std::min(execution_->fuel_left(), most));
  waits_ = is_paused_ = awaits_answer_ = false;
  stop_.state = execution_->resume();
  const uint64_t counted = execution_->fuel_used() + execution_->fuel_owed();
  const uint64_t used = std::min(fuel_left_, counted - counted_);
  counted_ = counted;
  fuel_left_ -= used;
  fuel_used_ += used;
  if (stop_.state == engine::RunState::kFinished) return true;
  is_paused_ = stop_.state == engine::RunState::kOutOfFuel && (awaits_answer_ || most < fuel_left_ + used) &&
               !waits_ && !stop_.outcome;
  if (is_paused_) return false;
  if (execution_->fell_short()) fuel_used_ += std::exchange(fuel_left_, 0);  // spent by a host call
  if (stop_.state == engine::RunState::kTrapped) stop_.trap = execution_->trap();
  else if (stop_.state != engine::RunState::kExited && !waits_) stop_.backtrace = execution_->backtrace();
  return false;
}

bool Body::begin_reading(std::string_view name, std::string_view input) {
  system_->give_stdin(input);
  return start(name, {}) && run_until_it_waits();
}

bool Body::go_on_reading(std::string_view input) {
  system_->give_stdin(input);
  execution_ = std::make_unique<engine::Execution>(limits_);
  if (Status thawed = engine::thaw_frames(waiting_->frames, *execution_, *instance_, *known()); !thawed)
    return refuse(std::move(thawed).error());
  counted_ = execution_->fuel_used() + execution_->fuel_owed();
  is_of_program_ = true;
  return run_until_it_waits();
}

Status Body::check(const Waiting& waiting, const engine::ExecutionLimits& limits) {
  engine::Execution trial(limits);
  return engine::thaw_frames(waiting.frames, trial, *instance_, *waiting.known);
}

bool Body::run_to_end(std::string_view name, std::string_view input) {
  if (waiting_ != nullptr) {
    static_cast<void>(go_on_reading(input));
  } else {
    system_->give_stdin(input);
    is_of_program_ = true;
    if (!start(name, {})) return false;
    static_cast<void>(run_until_it_waits());
  }
  return has_ended();
}

bool Body::has_ended() const {
  using enum engine::RunState;
  return !is_paused_ && !stop_.outcome && (stop_.state == kFinished || stop_.state == kExited);
}

const std::shared_ptr<engine::KnownPlaces>& Body::known() {
  if (known_ == nullptr) known_ = around_.known;
  if (known_ == nullptr)
    known_ = waiting_ != nullptr ? waiting_->known
                                 : std::make_shared<engine::KnownPlaces>(instance_->share_compiled());
  return known_;
}

bool Body::go_on(uint64_t fuel, std::optional<uint64_t> pause_at_fuel) {
  fuel_left_ = fuel;
  pause_at_fuel_ = pause_at_fuel;
  stop_ = {};
  return around_.interpreter->reads() ? run_until_it_waits() : take_result(run());
}

Result<Paused> Body::pause() {
  MEMBRANE_ASSIGN(auto frames, engine::freeze_frames(*execution_, *instance_, *known()));
  return Paused{std::move(frames), notes_, progress_, guest_->heap_next(), fuel_used_, known()};
}

Status Body::resume_at(const Paused& paused) {
  known_ = paused.known;
  execution_ = std::make_unique<engine::Execution>(limits_);
  MEMBRANE_TRY(engine::thaw_frames(paused.frames, *execution_, *instance_, *known_));
  counted_ = execution_->fuel_used() + execution_->fuel_owed();
  notes_ = paused.notes;
  static_cast<void>(guest_->host_memory().keep_what_is_there(host::HostMemory::Holder::kNotes,
                                                             notes_.size() * sizeof(uint32_t)));
  progress_ = paused.progress;
  guest_->set_heap_next(paused.heap_next);
  fuel_used_ = paused.fuel_used;
  is_of_program_ = is_paused_ = true;
  return {};
}

// From then on the program's frames are kept as bytes, so that a turn starts the same way in a session and in its
// forks.
bool Body::run_until_it_waits() {
  static_cast<void>(run());
  const bool is_waiting = waits_ && stop_.state == engine::RunState::kOutOfFuel && !stop_.outcome;
  if (!is_waiting) {
    if (!is_paused_) execution_.reset();
    return false;
  }
  auto frames = engine::freeze_frames(*execution_, *instance_, *known());
  execution_.reset();
  if (!frames) return refuse(std::move(frames).error());
  waiting_ = std::make_shared<const Waiting>(Waiting{*std::move(frames), guest_->heap_next(), known()});
  return true;
}

// -- the place of a stopped program --------------------------------------------------------------------------------

namespace {
constexpr uint64_t kFuelToRunOn = 20'000'000;
// A run that was out of time may also use the rest of its fuel.
constexpr std::chrono::milliseconds kTimeToRunOn{500};
}  // namespace

void Body::begin_running_on() {
  if (!std::exchange(runs_on_, true)) runs_on_until_ = std::chrono::steady_clock::now() + kTimeToRunOn;
}

std::optional<uint64_t> Body::call_beside(std::string_view name, std::span<const engine::Value> arguments) {
  engine::FunctionInstance* const function = instance_->find_function(name);
  begin_running_on();
  engine::Execution beside(limits_);
  if (function == nullptr || !beside.start(function, arguments)) return std::nullopt;
  beside.add_fuel(kFuelToRunOn);
  if (beside.resume() != engine::RunState::kFinished) return std::nullopt;
  return beside.results().empty() ? 0 : beside.results()[0].bits;
}

bool Body::run_on() {
  if (execution_ == nullptr) return false;
  begin_running_on();
  execution_->add_fuel(kFuelToRunOn + execution_->fuel_owed());
  const bool returned = execution_->resume() == engine::RunState::kFinished;
  if (returned) result_ = execution_->results().empty() ? 0 : execution_->results()[0].bits;
  execution_.reset();
  return returned;
}

std::optional<uint64_t> Body::call_back(engine::HostCall& during, std::string_view name,
                                        std::span<const engine::Value> arguments) {
  constexpr uint32_t kMostCallsBack = 64;  // each takes some of the host's own stack
  engine::FunctionInstance* const function = instance_->find_function(name);
  if (function == nullptr) return std::nullopt;
  if (calls_back_ >= kMostCallsBack) {
    during.trap_message = "the host's calls back into the program are nested too deeply";
    return std::nullopt;
  }
  engine::Execution inner(limits_);
  if (!inner.start(function, arguments)) return std::nullopt;
  // A callback cannot pause inside the host: so it may use all fuel of the turn, and its caller owes what it used.
  uint64_t fuel = during.execution.fuel_left();
  if (&during.execution == execution_.get() && !runs_on_)
    fuel = fuel_left_ - std::min(fuel_left_, execution_->fuel_used() + execution_->fuel_owed() - counted_);
  inner.add_fuel(fuel);
  ++calls_back_;
  const engine::RunState state = inner.resume();
  --calls_back_;
  called_back_ = state;
  if (state == engine::RunState::kTrapped) during.trap_message = inner.trap().message;
  during.owe(std::min(fuel, inner.fuel_used() + inner.fuel_owed()));
  guest_->enter(during);
  if (state != engine::RunState::kFinished) return std::nullopt;
  return inner.results().empty() ? 0 : inner.results()[0].bits;
}

}  // namespace membrane::sandbox
