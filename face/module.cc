// The engine's face: modules, instances and calls that can pause.

#include <algorithm>

#include "face/convert.h"
#include "lang/language.h"
#include "sandbox/guest_instance.h"
#include "sandbox/host_import.h"
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
  auto loaded = lang::load_program(state->source, lang::Language::kAuto, name);
  if (!loaded) {
    std::vector<Failure> failures;
    for (const Diagnostic& diagnostic : loaded.error()) failures.push_back(failure_of(diagnostic));
    return std::unexpected(std::move(failures));
  }
  state->loaded = std::move(*loaded);
  auto compiled = engine::CompiledModule::compile(std::move(state->loaded.module), state->loaded.text());
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
  engine::Store store;
  engine::Instance* instance = nullptr;
  sandbox::Conversation nothing_said;
  std::optional<sandbox::GuestInstance> guest;

  std::optional<sandbox::HostImport> find_import(const wasm::Import& import);
  [[nodiscard]] engine::ExecutionLimits limits() const;
};

std::optional<sandbox::HostImport> Instance::State::find_import(const wasm::Import& import) {
  const auto function = std::ranges::find_if(options.functions, [&](const HostFunction& f) {
    return f.module == import.module && f.name == import.name;
  });
  if (function == options.functions.end()) return std::nullopt;
  return sandbox::HostImport{face::wasm_type_of(function->signature),
                             [this, function = &*function](engine::HostCall& call) {
                               guest->enter(call);
                               return face::invoke(*function, *guest, call);
                             }};
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

  [[nodiscard]] Failure::Place show(const engine::CodePlace& place) const;
};

Failure::Place Call::State::show(const engine::CodePlace& place) const {
  Failure::Place shown;
  shown.function = wasm::place_of_function(instance->module.state()->compiled->module(), place.function);
  shown.offset = place.code_offset;
  if (place.text_offset != UINT32_MAX) {
    const Place in_text = instance->module.state()->loaded.author_place(place.text_offset);
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
  state_->execution.resume();
  return status();
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
  }
  for (const engine::CodePlace& place : state_->execution.backtrace())
    failure.backtrace.push_back(state_->show(place));
  if (!failure.backtrace.empty()) failure.place = failure.backtrace.front();
  return failure;
}

uint64_t Call::fuel_used() const { return state_->execution.fuel_used(); }
uint64_t Call::fuel_left() const { return state_->execution.fuel_left(); }

// -- making instances and calls ------------------------------------------------------------------------

Expected<Instance> Instance::create(const Module& module, InstanceOptions options) {
  for (const HostFunction& function : options.functions)
    if (auto wrong = face::check(function)) return std::unexpected(std::move(*wrong));
  auto state = std::make_shared<State>(module, std::move(options));
  engine::InstanceLimits limits;
  limits.memory_bytes = state->options.memory_bytes;
  auto made = state->store.instantiate(
      module.state()->compiled,
      sandbox::resolver_of(state->store,
                           [&](const wasm::Import& import) { return state->find_import(import); }),
      limits);
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
  state->execution.resume();
  return Call(std::move(state));
}

Expected<Call> Instance::call(std::string_view name, std::initializer_list<Value> arguments, uint64_t fuel) {
  return call(name, std::span(arguments.begin(), arguments.size()), fuel);
}

std::span<uint8_t> Instance::memory() { return state_->guest->memory(); }

}  // namespace membrane
