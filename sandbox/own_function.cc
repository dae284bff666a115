#include "sandbox/own_function.h"

#include <algorithm>
#include <utility>

#include "sandbox/values.h"

namespace membrane::sandbox {
namespace {

std::string listed(const auto& types, auto type_of) {
  std::string out = "[";
  for (const auto& each : types)
    out += (out.size() > 1 ? " " : "") + std::string(wasm::name_of(type_of(each)));
  return out + "]";
}

}  // namespace

Status OwnAnswer::check(const OwnFunction& function) const {
  if (call || error) return {};
  const std::vector<wasm::ValType>& expected = function.type.results;
  if (std::ranges::equal(values, expected, {}, &engine::Value::type)) return {};
  return fail(ErrorCode::kInvalidArgument,
              function.full_name() + " gives " + listed(expected, std::identity()) +
                  ", and was answered with " +
                  listed(values, [](const engine::Value& value) { return value.type; }),
              "Give as many values as its signature has results, of those types.");
}

OwnEnd OwnAnswer::give(const OwnFunction& function, host::Guest& guest, engine::HostCall& to) const {
  if (call) return call(function, guest, to);
  if (error) {
    to.trap_message = function.full_name() + ": " + *error;
    return {engine::HostAction::kTrap};
  }
  size_t slot = 0;
  for (const engine::Value& value : values) {
    to.results[slot++] = value.bits;
    if (wasm::slots_of(value.type) == 2) to.results[slot++] = value.high_bits;
  }
  return {};
}

WaitingCall waiting_call(const OwnFunction& function, const engine::HostCall& call, std::string note) {
  WaitingCall waiting;
  waiting.name = function.full_name();
  size_t slot = 0;
  for (const wasm::ValType type : function.type.params) {
    const size_t slots = wasm::slots_of(type);
    waiting.values.push_back(
        show_value({type, call.arguments[slot], slots == 2 ? call.arguments[slot + 1] : 0}));
    slot += slots;
  }
  waiting.arguments = json_of(waiting.values);
  waiting.keywords = "{}";
  waiting.note = std::move(note);
  return waiting;
}

}  // namespace membrane::sandbox
