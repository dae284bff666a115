// The engine's face: modules, instances and calls that can pause.

#include <algorithm>
#include <utility>

#include "engine/execution/execution.h"
#include "engine/execution/module.h"
#include "engine/freeze/snapshot.h"
#include "face/convert.h"
#include "face/report.h"
#include "lang/load_program.h"
#include "sandbox/run/guest_instance.h"
#include "sandbox/run/host_import.h"
#include "sandbox/run/kept_call.h"
#include "sandbox/run/own_function.h"
#include "wasm/explain.h"

namespace membrane {

using face::failure_of;
using face::invalid_argument;

void set_memory_ceiling(uint64_t bytes) { engine::set_memory_ceiling(bytes); }
uint64_t memory_in_use_bytes() { return engine::memory_in_use_bytes(); }

// -- Module ---------------------------------------------------------------------------------------

struct Module::State {
  std::string source;  // `loaded` points into it
  lang::Loaded loaded;
  std::shared_ptr<engine::CompiledModule> compiled;
};

std::expected<Module, std::vector<Failure>> Module::compile(std::string_view source, std::string_view name) {
  auto state = std::make_shared<State>();
  state->source = source;
  auto loaded = lang::load_program(state->source, lang::SourceFormat::kAuto, name);
  if (!loaded) {
    std::vector<Failure> failures;
    for (const Diagnostic& diagnostic : loaded.error()) failures.push_back(failure_of(diagnostic));
    return std::unexpected(std::move(failures));
  }
  state->loaded = std::move(*loaded);
  auto compiled = engine::compile_module(std::move(state->loaded.module), state->loaded.text());
  if (!compiled) return std::unexpected(std::vector{failure_of(state->loaded.to_author(compiled.error()))});
  state->compiled = std::move(*compiled);
  return Module(std::move(state));
}

std::vector<Module::Export> Module::exports() const {
  std::vector<Export> found;
  const wasm::Module& module = state_->compiled->module();
  for (const wasm::Export& e : module.exports) {
    if (e.kind != wasm::ExternKind::kFunc) continue;
    if (auto signature = face::signature_of(module.type_of_function(e.index)))
      found.push_back({e.name, std::move(*signature)});
  }
  return found;
}

// -- Instance ---------------------------------------------------------------------------------------

struct Instance::State {
  State(Module of, InstanceOptions with) : module(std::move(of)), options(std::move(with)) {}

  Module module;
  InstanceOptions options;
  std::vector<sandbox::OwnFunction> functions;  // those of the options
  engine::Store store;
  engine::Instance* instance = nullptr;
  sandbox::Conversation nothing_said;
  std::optional<sandbox::GuestInstance> guest;

  uint32_t running = 0;  // its calls that the thread is inside of
  // For the running call: the answer that its next host call gets in place of the function's; then
  // null.
  const sandbox::OwnAnswer* answer = nullptr;
  bool answer_was_paid = true;
  // And the call that stopped for an answer.
  struct Wait {
    const sandbox::OwnFunction* function;
    sandbox::WaitingCall call;
  };
  std::optional<Wait> waits;

  Expected<void> take_functions();
  std::optional<sandbox::HostImport> find_import(const wasm::Import& import);
  engine::HostAction call_own(const sandbox::OwnFunction& function, engine::HostCall& call);
  [[nodiscard]] engine::Resolver resolver();
  [[nodiscard]] engine::InstanceLimits instance_limits() const;
  [[nodiscard]] engine::ExecutionLimits limits() const;
};

Expected<void> Instance::State::take_functions() {
  for (HostFunction& function : options.functions) {
    if (auto wrong = face::check(function)) return std::unexpected(std::move(*wrong));
    functions.push_back(face::own_function(std::move(function)));
  }
  options.functions.clear();
  return {};
}

std::optional<sandbox::HostImport> Instance::State::find_import(const wasm::Import& import) {
  const auto function = std::ranges::find_if(functions, [&](const sandbox::OwnFunction& f) {
    return f.module == import.module && f.name == import.name;
  });
  if (function == functions.end()) return std::nullopt;
  return sandbox::HostImport{function->type, [this, function = &*function](engine::HostCall& call) {
                               return call_own(*function, call);
                             }};
}

engine::HostAction Instance::State::call_own(const sandbox::OwnFunction& function, engine::HostCall& call) {
  guest->enter(call);
  const sandbox::OwnAnswer* const given = std::exchange(answer, nullptr);
  sandbox::OwnEnd end = given != nullptr ? given->give(function, *guest, call) : function.call(*guest, call);
  if (end.waits) {
    waits = Wait{&function, sandbox::waiting_call(function, call, *std::move(end.waits))};
    return engine::HostAction::kOutOfFuel;
  }
  if (given != nullptr) answer_was_paid = end.action != engine::HostAction::kOutOfFuel;
  return end.action;
}

engine::Resolver Instance::State::resolver() {
  return sandbox::resolver_of(store, [this](const wasm::Import& import) { return find_import(import); });
}

engine::InstanceLimits Instance::State::instance_limits() const {
  engine::InstanceLimits limits;
  limits.memory_bytes = options.memory_bytes;
  return limits;
}

engine::ExecutionLimits Instance::State::limits() const {
  engine::ExecutionLimits limits;
  limits.stack_bytes = options.stack_bytes;
  limits.call_depth = options.call_depth;
  if (options.interrupt != nullptr)
    limits.poll = [flag = options.interrupt] { return flag->load(std::memory_order_relaxed); };
  return limits;
}

// -- Call ------------------------------------------------------------------------------------------------

struct Call::State {
  explicit State(std::shared_ptr<Instance::State> of)
      : instance(std::move(of)), execution(instance->limits()) {}

  std::shared_ptr<Instance::State> instance;
  engine::Execution execution;
  uint64_t fuel_before = 0;  // that it had used when it was dumped
  std::optional<Instance::State::Wait> waits;
  bool answer_was_paid = true;  // else it still waits

  void run(const sandbox::OwnAnswer* answer = nullptr);
  Expected<void> run_with(const sandbox::OwnAnswer& answer);
  [[nodiscard]] Failure why_it_waits() const;
  [[nodiscard]] Failure::Place show(const engine::CodePlace& place) const;
};

// Runs as far as it can. With an answer, which is for the call that it waits in.
void Call::State::run(const sandbox::OwnAnswer* answer) {
  Instance::State& in = *instance;
  const sandbox::OwnAnswer* const outer = std::exchange(in.answer, answer);
  in.answer_was_paid = true;
  ++in.running;
  execution.resume();
  --in.running;
  in.answer = outer;
  answer_was_paid = in.answer_was_paid;
  if (answer_was_paid || in.waits) waits = std::exchange(in.waits, std::nullopt);
}

Expected<void> Call::State::run_with(const sandbox::OwnAnswer& answer) {
  if (!waits)
    return std::unexpected(invalid_argument("the call waits for no answer", "Resume it without an answer."));
  if (const auto fits = answer.check(*waits->function); !fits)
    return std::unexpected(failure_of(fits.error()));
  run(&answer);
  return {};
}

Failure Call::State::why_it_waits() const {
  if (!answer_was_paid)
    return {"out_of_fuel",
            "the answer of " + waits->call.name + " could not charge its fuel",
            "Add fuel and answer it again.",
            {},
            {}};
  return {"waiting", "the call waits for the answer of " + waits->call.name, "Answer it.", {}, {}};
}

Failure::Place Call::State::show(const engine::CodePlace& place) const {
  Failure::Place shown;
  shown.function = wasm::place_of_function(instance->module.state()->compiled->module(), place.function);
  shown.offset = place.code_offset;
  if (place.text_offset != UINT32_MAX) {
    const Place in_text = instance->module.state()->loaded.author_place(place.text_offset);
    shown.offset = in_text.offset;
    shown.line = in_text.line;
    shown.column = in_text.column;
  }
  return shown;
}

Call::Call(std::unique_ptr<State> state) : state_(std::move(state)) {}
Call::Call(Call&&) noexcept = default;
Call& Call::operator=(Call&&) noexcept = default;
Call::~Call() = default;

Call::Status Call::status() const {
  if (state_->waits) return Status::kWaiting;
  switch (state_->execution.state()) {
    case engine::RunState::kFinished:
    case engine::RunState::kExited: return Status::kReturned;
    case engine::RunState::kTrapped: return Status::kTrapped;
    case engine::RunState::kReady:  // refuelled, and not yet resumed
    case engine::RunState::kOutOfFuel: return Status::kOutOfFuel;
    case engine::RunState::kInterrupted: return Status::kInterrupted;
  }
  return Status::kTrapped;
}

void Call::add_fuel(uint64_t fuel) { state_->execution.add_fuel(fuel); }

Call::Status Call::resume() {
  if (!state_->waits) state_->run();
  return status();
}

Expected<Call::Status> Call::answer(HostResults results) {
  if (auto done = state_->run_with(face::own_answer(results)); !done)
    return std::unexpected(std::move(done).error());
  return status();
}

Expected<Call::Status> Call::answer(const std::function<HostResults(HostCall&)>& function) {
  if (!function)
    return std::unexpected(invalid_argument("the answer has nothing to call", "Give a function."));
  if (auto done = state_->run_with(face::own_answer(function)); !done)
    return std::unexpected(std::move(done).error());
  return status();
}

std::optional<Report::Waiting> Call::waits_for() const {
  return state_->waits ? std::optional(face::waiting_of(state_->waits->call)) : std::nullopt;
}

std::vector<Value> Call::results() const {
  std::vector<Value> values;
  for (const engine::Value& value : state_->execution.results())
    values.push_back(face::value_of(*face::type_of(value.type), value.bits));
  return values;
}

Failure Call::failure() const {
  Failure failure;
  switch (status()) {
    case Status::kReturned: return failure;
    case Status::kTrapped: {
      const engine::Trap& trap = state_->execution.trap();
      failure = {std::string(name_of(trap.kind)), trap.message, std::string(hint_of(trap.kind)), {}, {}};
      break;
    }
    case Status::kOutOfFuel:
      failure = {"out_of_fuel", "the call used up its fuel", "Add fuel and resume it.", {}, {}};
      break;
    case Status::kInterrupted:
      failure = {"interrupted", "the owner interrupted the call", "Resume it.", {}, {}};
      break;
    case Status::kWaiting: failure = state_->why_it_waits(); break;
  }
  for (const engine::CodePlace& place : state_->execution.backtrace())
    failure.backtrace.push_back(state_->show(place));
  if (!failure.backtrace.empty()) failure.place = failure.backtrace.front();
  return failure;
}

uint64_t Call::fuel_used() const { return state_->fuel_before + state_->execution.fuel_used(); }
uint64_t Call::fuel_left() const { return state_->execution.fuel_left(); }
Instance Call::instance() const { return Instance(state_->instance); }

// -- calls as bytes --------------------------------------------------------------------------------------

Expected<std::vector<uint8_t>> Call::dump() const {
  Instance::State& in = *state_->instance;
  if (in.running != 0)
    return std::unexpected(
        invalid_argument("a call of the instance is running", "Dump the call when it has stopped."));
  sandbox::KeptCall kept{.heap_next = in.guest->heap_next(), .waits = {}};
  if (state_->waits) kept.waits = state_->waits->call.note;
  auto bytes = engine::freeze(state_->execution, *in.instance, sandbox::write_kept_call(std::move(kept)),
                              state_->fuel_before);
  if (!bytes) return std::unexpected(failure_of(bytes.error()));
  return *std::move(bytes);
}

Expected<Call> Call::load(std::span<const uint8_t> bytes, InstanceOptions options, uint64_t fuel) {
  const auto snapshot = engine::Snapshot::read(bytes);
  if (!snapshot) return std::unexpected(failure_of(snapshot.error()));
  const auto kept = sandbox::read_kept_call(snapshot->embedder_state());
  if (!kept) return std::unexpected(failure_of(kept.error()));
  if (kept->waits && !snapshot->awaited())
    return std::unexpected(failure_of({ErrorCode::kInvalidInput,
                                       "the snapshot is damaged: its call waits, but not for a function",
                                       "Dump the call again."}));
  auto module = std::make_shared<Module::State>();
  module->compiled = snapshot->module();
  auto in = std::make_shared<Instance::State>(Module(std::move(module)), std::move(options));
  if (auto taken = in->take_functions(); !taken) return std::unexpected(std::move(taken).error());
  const auto made = snapshot->instantiate(in->store, in->resolver(), in->instance_limits());
  if (!made) return std::unexpected(failure_of(made.error().error));
  in->instance = *made;
  in->guest.emplace(*in->instance, in->nothing_said);
  in->guest->set_heap_next(kept->heap_next);
  auto state = std::make_unique<State>(in);
  state->fuel_before = snapshot->fuel_used();
  if (auto put = snapshot->resume_in(state->execution, *in->instance); !put)
    return std::unexpected(failure_of(put.error()));
  if (kept->waits) {  // so the call reports its arguments, and waits again
    const sandbox::OwnAnswer again{
        .call = [&](const auto&, auto&, auto&) { return sandbox::OwnEnd{.waits = kept->waits}; }};
    state->run(&again);
  }
  state->execution.add_fuel(fuel);
  return Call(std::move(state));
}

// -- making instances and calls ------------------------------------------------------------------------

Expected<Instance> Instance::create(const Module& module, InstanceOptions options) {
  auto state = std::make_shared<State>(module, std::move(options));
  if (auto taken = state->take_functions(); !taken) return std::unexpected(std::move(taken).error());
  auto made = state->store.instantiate(module.state()->compiled, state->resolver(), state->instance_limits());
  if (!made) {
    Failure failure = failure_of(made.error().error);
    if (made.error().kind == engine::LinkError::Kind::kTrap) failure.code = name_of(made.error().trap);
    return std::unexpected(std::move(failure));
  }
  state->instance = *made;
  state->guest.emplace(*state->instance, state->nothing_said);

  const uint32_t start = module.state()->compiled->module().start;
  if (start != UINT32_MAX) {
    Call call(std::make_unique<Call::State>(state));
    engine::Execution& execution = call.state_->execution;
    if (auto begun = execution.start(state->instance->function(start), {}); !begun)
      return std::unexpected(failure_of(begun.error()));
    execution.add_fuel(state->options.start_fuel);
    if (call.resume() != Call::Status::kReturned) return std::unexpected(call.failure());
  }
  return Instance(std::move(state));
}

Expected<Call> Instance::call(std::string_view name, std::span<const Value> arguments, uint64_t fuel) {
  engine::FunctionInstance* const function = state_->instance->find_function(name);
  if (function == nullptr)
    return std::unexpected(Failure{"unknown_entry",
                                   "the module exports no function \"" + std::string(name) + "\"",
                                   "Module::exports() lists those that it has.",
                                   {},
                                   {}});
  if (!face::signature_of(*function->type))
    return std::unexpected(
        invalid_argument("\"" + std::string(name) + "\" takes or gives references or vectors",
                         "Export a function of numbers."));
  std::vector<engine::Value> values;
  for (const Value& argument : arguments) values.push_back(face::engine_value_of(argument));
  auto state = std::make_unique<Call::State>(state_);
  if (auto begun = state->execution.start(function, values); !begun)
    return std::unexpected(failure_of(begun.error()));
  state->execution.add_fuel(fuel);
  state->run();
  return Call(std::move(state));
}

Expected<Call> Instance::call(std::string_view name, std::initializer_list<Value> arguments, uint64_t fuel) {
  return call(name, std::span(arguments.begin(), arguments.size()), fuel);
}

std::span<uint8_t> Instance::memory() { return state_->guest->memory(); }

}  // namespace membrane
