// Host functions that the embedder defines: from the engine's slots to typed values and back.

#include <exception>

#include "face/convert.h"

namespace membrane {

struct HostCall::State {
  host::Guest& guest;
  const Signature& signature;
  std::vector<Value> arguments;
  bool out_of_fuel = false;
  std::optional<std::string> waits = {};  // the note
};

std::span<const Value> HostCall::arguments() const { return state_.arguments; }

const Signature& HostCall::signature() const { return state_.signature; }

std::span<uint8_t> HostCall::memory() const { return state_.guest.memory(); }

std::optional<std::string_view> HostCall::read_string(int32_t address) const {
  const auto text = state_.guest.read_string(static_cast<uint32_t>(address));
  return text ? std::optional(*text) : std::nullopt;
}

std::optional<int32_t> HostCall::write_string(std::string_view bytes) {
  const auto address = state_.guest.write_string(bytes);
  return address ? std::optional(static_cast<int32_t>(*address)) : std::nullopt;
}

bool HostCall::charge(uint64_t fuel) {
  if (state_.guest.charge(fuel)) return true;
  state_.out_of_fuel = true;
  return false;
}

void HostCall::answer_later(std::string note) { state_.waits = std::move(note); }

namespace face {
namespace {

sandbox::OwnEnd trap(engine::HostCall& call, const HostFunction& function, std::string_view why) {
  call.trap_message = function.module + "." + function.name + ": " + std::string(why);
  return {engine::HostAction::kTrap};
}

bool fits(const std::vector<Value>& values, const std::vector<ValueType>& types) {
  bool same = values.size() == types.size();
  for (size_t i = 0; same && i < types.size(); ++i) same = values[i].index() == static_cast<size_t>(types[i]);
  return same;
}

}  // namespace

std::optional<Failure> check(const HostFunction& function) {
  if (function.call) return std::nullopt;
  return invalid_argument(
      "the host function " + function.module + "." + function.name + " has nothing to call",
      "Set HostFunction::call.");
}

sandbox::OwnEnd invoke(const HostFunction& function, host::Guest& guest, engine::HostCall& call) {
  HostCall::State state{guest, function.signature, {}};
  for (size_t i = 0; i < call.arguments.size(); ++i)
    state.arguments.push_back(value_of(function.signature.parameters[i], call.arguments[i]));
  HostCall seen(state);
  try {
    const HostResults results = function.call(seen);
    if (state.out_of_fuel) return {engine::HostAction::kOutOfFuel};
    if (state.waits) return {.waits = std::move(state.waits)};
    if (!results) return trap(call, function, results.error());
    if (!fits(*results, function.signature.results))
      return trap(call, function, "it returned other values than its signature says");
    for (size_t i = 0; i < results->size(); ++i) call.results[i] = bits_of((*results)[i]);
    return {};
  } catch (const std::exception& thrown) {  // must not unwind through the interpreter
    return trap(call, function, thrown.what());
  } catch (...) {
    return trap(call, function, "it threw");
  }
}

sandbox::OwnFunction own_function(HostFunction function) {
  sandbox::OwnFunction own{function.module, function.name, wasm_type_of(function.signature), {}};
  own.call = [function = std::move(function)](host::Guest& guest, engine::HostCall& call) {
    return invoke(function, guest, call);
  };
  return own;
}

sandbox::OwnAnswer own_answer(const HostResults& results) {
  if (!results) return {.error = results.error()};
  sandbox::OwnAnswer answer;
  for (const Value& value : *results) answer.values.push_back(engine_value_of(value));
  return answer;
}

sandbox::OwnAnswer own_answer(std::function<HostResults(HostCall&)> function) {
  return {.call = [function = std::move(function)](const sandbox::OwnFunction& own, host::Guest& guest,
                                                   engine::HostCall& call) {
    const HostFunction in_its_place{own.module, own.name, signature_of(own.type).value_or(Signature{}),
                                    function};
    return invoke(in_its_place, guest, call);
  }};
}

}  // namespace face
}  // namespace membrane
