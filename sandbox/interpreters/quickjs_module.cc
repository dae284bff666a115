#include "sandbox/interpreters/quickjs_module.h"

#include <array>
#include <bit>
#include <cstring>
#include <vector>

namespace membrane::sandbox {
namespace {

using engine::Value;

template <typename T>
std::string_view as_bytes(std::span<const T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

}  // namespace

QuickJsModule QuickJsModule::between_turns(Calls& calls) {
  return {calls, [&calls](std::string_view name, std::span<const Value> arguments) {
            return calls.call(name, arguments) ? std::optional(calls.result()) : std::nullopt;
          }};
}

QuickJsModule QuickJsModule::inside(engine::HostCall& during, Calls& calls) {
  return {calls, [&calls, &during](std::string_view name, std::span<const Value> arguments) {
            return calls.call_back(during, name, arguments);
          }};
}

QuickJsModule QuickJsModule::beside_what_was_stopped(Calls& calls) {
  return {calls, [&calls](std::string_view name, std::span<const Value> arguments) {
            return calls.call_beside(name, arguments);
          }};
}

std::optional<uint32_t> QuickJsModule::call(std::string_view name,
                                            std::initializer_list<uint32_t> arguments) const {
  constexpr size_t kMostArguments = 4;
  std::array<Value, kMostArguments> values;
  size_t count = 0;
  for (const uint32_t argument : arguments) values.at(count++) = Value::i32(argument);
  const auto result = invoke_(name, std::span(values).first(count));
  return result ? std::optional(static_cast<uint32_t>(*result)) : std::nullopt;
}

std::optional<uint32_t> QuickJsModule::eval(std::string_view code, std::string_view name,
                                            uint32_t flags) const {
  const auto at = place(code), name_at = place(name);
  if (!at || !name_at) return std::nullopt;
  const auto value = eval(Place{*at, static_cast<uint32_t>(code.size())},
                          Place{*name_at, static_cast<uint32_t>(name.size())}, flags);
  if (!value || !free_bytes(*at) || !free_bytes(*name_at)) return std::nullopt;
  return value;
}

std::optional<uint32_t> QuickJsModule::eval(Place code, Place name, uint32_t flags) const {
  return call("qjs_eval", {code.at, code.size, name.at, flags});
}

std::optional<uint32_t> QuickJsModule::apply(uint32_t function, uint32_t undefined,
                                             std::span<const uint32_t> boxes) const {
  const auto at = place(as_bytes(boxes));
  if (!at) return std::nullopt;
  const auto value = call("qjs_call", {function, undefined, static_cast<uint32_t>(boxes.size()), *at});
  if (!value || !free_bytes(*at)) return std::nullopt;
  return value;
}

std::optional<uint32_t> QuickJsModule::property(uint32_t object, std::string_view name) const {
  const auto at = place(name);
  if (!at) return std::nullopt;
  const auto value = call("qjs_get_prop_string", {object, *at});
  if (!value || !free_bytes(*at)) return std::nullopt;
  return value;
}

std::optional<bool> QuickJsModule::is(std::string_view what, uint32_t box) const {
  const auto answer = call("qjs_is_" + std::string(what), {box});
  return answer ? std::optional(*answer != 0) : std::nullopt;
}

std::optional<QuickJsModule::Place> QuickJsModule::string_of(uint32_t box) const {
  const auto length_at = call("wasm_malloc", {4});
  if (!length_at || *length_at == 0) return std::nullopt;
  const auto at = call("qjs_get_string_len", {box, *length_at});
  if (!at) return std::nullopt;
  Place text = {.at = *at};
  const std::string_view raw = bytes(*length_at, sizeof text.size);
  if (*at != 0 && raw.size() == sizeof text.size) std::memcpy(&text.size, raw.data(), sizeof text.size);
  if (!free_bytes(*length_at)) return std::nullopt;
  return text;
}

std::optional<QuickJsModule::Place> QuickJsModule::string_of_string(uint32_t box) const {
  return box != 0 && is("string", box).value_or(false) ? string_of(box) : std::nullopt;
}

bool QuickJsModule::free_string(Place text) const {
  return text.at == 0 || call("qjs_free_cstring", {text.at}).has_value();
}

std::optional<std::string> QuickJsModule::text(uint32_t box) const {
  const auto found = string_of(box);
  if (!found) return std::nullopt;
  std::string text(bytes(*found));
  if (!free_string(*found)) return std::nullopt;
  return text;
}

std::optional<std::string> QuickJsModule::text_of_string(uint32_t box) const {
  return box != 0 && is("string", box).value_or(false) ? text(box) : std::nullopt;
}

std::optional<double> QuickJsModule::number(uint32_t box) const {
  if (box == 0 || !is("number", box).value_or(false)) return std::nullopt;
  const auto bits = invoke_("qjs_get_float64", std::array{Value::i32(box)});
  return bits ? std::optional(std::bit_cast<double>(*bits)) : std::nullopt;
}

std::optional<QuickJsModule::Place> QuickJsModule::place_of_array(uint32_t box) const {
  struct Found {  // as qjs_get_typed_array_buffer and qjs_get_array_buffer write it
    uint32_t offset = 0, length = 0, bytes_per_element = 0, buffer_length = 0;
  } numbers;
  const auto at = place(as_bytes(std::span<const Found>(&numbers, 1)));
  if (box == 0 || !at) return std::nullopt;
  const auto buffer = call("qjs_get_typed_array_buffer", {box, *at, *at + 4, *at + 8});
  std::optional<Place> found;
  if (buffer && !is("exception", *buffer).value_or(true)) {
    const auto from = call("qjs_get_array_buffer", {*buffer, *at + 12});
    const std::string_view raw = bytes(*at, sizeof numbers);
    if (raw.size() == sizeof numbers) std::memcpy(&numbers, raw.data(), sizeof numbers);
    if (from && *from <= UINT32_MAX - numbers.offset) found = {*from + numbers.offset, numbers.length};
    if (found && bytes(*found).size() != found->size) found.reset();
  }
  if (buffer) static_cast<void>(free(*buffer));
  static_cast<void>(free_bytes(*at));
  return found;
}

std::optional<std::string_view> QuickJsModule::bytes_of_array(uint32_t box) const {
  const auto found = place_of_array(box);
  return found ? std::optional(bytes(*found)) : std::nullopt;
}

std::optional<uint32_t> QuickJsModule::make_string(Place text) const {
  return call("qjs_new_string", {text.at, text.size});
}

std::optional<uint32_t> QuickJsModule::make_array(Place bytes) const {
  return call("qjs_new_uint8_array", {bytes.at, bytes.size});
}

std::optional<uint32_t> QuickJsModule::make_string(std::string_view text) const {
  const auto at = place(text);
  if (!at) return std::nullopt;
  const auto made = make_string(Place{*at, static_cast<uint32_t>(text.size())});
  if (!made || !free_bytes(*at)) return std::nullopt;
  return made;
}

std::optional<uint32_t> QuickJsModule::make_array(std::string_view bytes) const {
  const auto at = place(bytes);
  if (!at) return std::nullopt;
  const auto made = make_array(Place{*at, static_cast<uint32_t>(bytes.size())});
  if (!made || !free_bytes(*at)) return std::nullopt;
  return made;
}

std::optional<uint32_t> QuickJsModule::place(std::string_view bytes) const {
  const auto at = call("wasm_malloc", {static_cast<uint32_t>(bytes.size() + 1)});
  const std::span<uint8_t> memory = calls_.memory();
  if (!at || *at == 0 || *at + bytes.size() + 1 > memory.size()) return std::nullopt;
  uint8_t* const to = memory.data() + *at;
  if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
  to[bytes.size()] = 0;
  return at;
}

std::string QuickJsModule::c_string(uint32_t at) const {
  const std::span<const uint8_t> memory = calls_.memory();
  if (at >= memory.size()) return {};
  const std::span<const uint8_t> from = memory.subspan(at);
  const auto* const end = static_cast<const uint8_t*>(std::memchr(from.data(), 0, from.size()));
  return {reinterpret_cast<const char*>(from.data()),
          end == nullptr ? 0 : static_cast<size_t>(end - from.data())};
}

std::string_view QuickJsModule::bytes(uint32_t at, uint32_t count) const {
  const std::span<const uint8_t> memory = calls_.memory();
  if (at > memory.size() || count > memory.size() - at) return {};
  return {reinterpret_cast<const char*>(memory.data()) + at, count};
}

}  // namespace membrane::sandbox
