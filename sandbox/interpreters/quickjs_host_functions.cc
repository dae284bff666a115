#include "sandbox/interpreters/quickjs_host_functions.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/compress_hash.h"
#include "base/utf8.h"
#include "host/limits/host_memory.h"
#include "sandbox/interpreters/quickjs_module.h"

namespace membrane::sandbox {
namespace {

using engine::HostAction;
using engine::HostCall;

constexpr uint64_t kUtf8BytesPerFuel = 8;  // that the host reads
constexpr uint64_t kFuelPerHashedByte = 4;
constexpr std::string_view kPlace = "__membrane_place";

// One call, with its arguments, while it runs.
class Asked {
 public:
  Asked(Calls& of, HostCall& during) : calls(of), call(during), js(QuickJsModule::inside(during, of)) {}

  Calls& calls;
  HostCall& call;
  const QuickJsModule js;

  [[nodiscard]] std::string_view name() const {
    return js.bytes(static_cast<uint32_t>(call.arguments[0]), static_cast<uint32_t>(call.arguments[1]));
  }
  // The box of an argument; 0 when there are fewer.
  [[nodiscard]] uint32_t box(uint32_t index) const {
    const auto count = static_cast<uint32_t>(call.arguments[3]);
    const auto at = static_cast<uint32_t>(call.arguments[4]) + uint64_t{4} * index;
    uint32_t box = 0;
    const std::span<const uint8_t> memory = calls.memory();
    if (index < count && at + 4 <= memory.size()) std::memcpy(&box, memory.data() + at, sizeof box);
    return box;
  }
  [[nodiscard]] std::optional<std::string> text(uint32_t index) const {
    return js.text_of_string(box(index));
  }
  // The same in place; js.free_string() frees it.
  [[nodiscard]] std::optional<QuickJsModule::Place> string(uint32_t index) const {
    return js.string_of_string(box(index));
  }
  [[nodiscard]] std::optional<double> number(uint32_t index) const { return js.number(box(index)); }
  [[nodiscard]] std::optional<std::string_view> bytes(uint32_t index) const {
    return js.bytes_of_array(box(index));
  }

  HostAction give(std::optional<uint32_t> box) const {
    call.results[0] = box.value_or(0);
    if (call.results[0] != 0) return HostAction::kContinue;
    if (call.trap_message.empty())
      call.trap_message = "the program's memory has no room for what " + std::string(name()) + " gives";
    return HostAction::kTrap;
  }
  HostAction give_undefined() const { return give(js.call("qjs_get_undefined", {})); }
};

HostAction ask_door(Asked& asked) {
  const auto text = asked.string(0);
  if (!text) return asked.give_undefined();
  host::HostMemory& memory = asked.calls.host_memory();
  const bool fits = text->size <= memory.left_for_call();
  const host::HostMemory::Use use(memory, fits ? text->size : 0);
  std::optional<std::string> answer;
  if (fits) {
    const std::string request(asked.js.bytes(*text));
    if (!asked.js.free_string(*text)) return HostAction::kTrap;
    answer = asked.calls.ask(asked.call, request);
  } else {  // is refused
    answer = asked.calls.ask(asked.call, asked.js.bytes(*text));
    if (answer && !asked.js.free_string(*text)) return HostAction::kTrap;
  }
  if (!answer) return HostAction::kTrap;  // the session knows why
  return asked.give(asked.js.make_string(*answer));
}

// (stream, text or bytes).
HostAction write(Asked& asked) {
  const auto text = asked.string(1);
  const auto bytes = text ? text : asked.js.place_of_array(asked.box(1));
  const auto stream = asked.number(0);
  if (bytes && !asked.calls.print(asked.call, stream == 2.0, asked.js.bytes(*bytes)))
    return HostAction::kTrap;
  if (text && !asked.js.free_string(*text)) return HostAction::kTrap;
  return asked.give_undefined();
}

// (milliseconds).
HostAction sleep(Asked& asked) {
  const auto ms = asked.number(0);
  if (ms && *ms > 0 && !asked.calls.sleep(asked.call, *ms * 1e6)) return HostAction::kTrap;
  return asked.give_undefined();
}

// (code, name of its file, kind): the value of a script, whose names are global, or the promise of a module; undefined for
// a module that is only compiled. An exception, or the reason with which its promise is already rejected, is
// thrown in the caller.
HostAction evaluate(Asked& asked) {
  constexpr uint32_t kScript = 0, kModule = 1, kCompiledModule = 33;  // flags of qjs_eval
  constexpr uint32_t kRejected = 2;
  const QuickJsModule& js = asked.js;
  const auto code = asked.string(0), file = asked.string(1);
  if (!code || !file || code->at == 0 || file->at == 0) return asked.give_undefined();
  const double number = asked.number(2).value_or(0);
  const uint32_t kind = number == 1 ? kModule : number == 2 ? kCompiledModule : kScript;
  const auto value = js.eval(*code, *file, kind);
  if (!value || !js.free_string(*code) || !js.free_string(*file)) return HostAction::kTrap;
  const bool is_rejected = kind == kModule && js.is("promise", *value).value_or(false) &&
                           js.call("qjs_promise_state", {*value}).value_or(0) == kRejected;
  if (is_rejected) static_cast<void>(js.call("qjs_promise_mark_as_handled", {*value}));
  else if (!js.is("exception", *value).value_or(true)) {
    if (kind != kCompiledModule) return asked.give(value);
    // The program must not get the value of a compiled module.
    static_cast<void>(js.free(*value));
    return asked.give_undefined();
  }
  const auto error = is_rejected ? js.call("qjs_promise_result", {*value}) : js.call("qjs_get_exception", {});
  if (!error || !js.call("qjs_throw", {*error})) return HostAction::kTrap;
  static_cast<void>(js.free(*error));
  static_cast<void>(js.free(*value));
  asked.call.results[0] = 0;
  return HostAction::kContinue;
}

// (text): its bytes.
HostAction encode_utf8(Asked& asked) {
  const auto text = asked.string(0);
  if (!text) return asked.give_undefined();
  const auto array = text->at == 0 ? std::nullopt : asked.js.make_array(*text);
  return asked.give(array && asked.js.free_string(*text) ? array : std::nullopt);
}

// (bytes): their text; undefined for another value.
HostAction decode_utf8(Asked& asked) {
  const auto bytes = asked.js.place_of_array(asked.box(0));
  if (!bytes) return asked.give_undefined();
  asked.call.owe(bytes->size / kUtf8BytesPerFuel);
  if (!is_utf8(asked.js.bytes(*bytes))) return asked.give_undefined();
  return asked.give(asked.js.make_string(*bytes));
}

// (which hash, its state as words of 32 bits, whole blocks): the state after them; undefined for wrong arguments.
HostAction compress(Asked& asked) {
  const auto number = asked.number(0);
  const auto found = asked.bytes(1);
  if (!number || !found || !(*number >= 0 && *number <= static_cast<double>(HashKind::kSha512)))
    return asked.give_undefined();
  const auto kind = static_cast<HashKind>(*number);
  std::vector<uint32_t> state(hash_state_words(kind));
  if (found->size() != state.size() * sizeof(uint32_t)) return asked.give_undefined();
  std::memcpy(state.data(), found->data(), found->size());
  const auto blocks = asked.bytes(2);
  if (!blocks || blocks->size() % hash_block_bytes(kind) != 0) return asked.give_undefined();
  asked.call.owe(blocks->size() * kFuelPerHashedByte);
  compress_hash(kind, state, *blocks);
  return asked.give(
      asked.js.make_array({reinterpret_cast<const char*>(state.data()), state.size() * sizeof(uint32_t)}));
}

// (text): where a stopped program is; only note_place() below reads it.
HostAction say_place(Asked& asked) { return asked.give_undefined(); }

// (promise): its state, as a text; (promise, true): what it is settled with. Undefined for another value.
HostAction look_into_promise(Asked& asked) {
  constexpr const char* kStates[] = {"pending", "fulfilled", "rejected"};
  const uint32_t promise = asked.box(0);
  if (promise == 0 || !asked.js.is("promise", promise).value_or(false)) return asked.give_undefined();
  if (asked.box(1) != 0) return asked.give(asked.js.call("qjs_promise_result", {promise}));
  const uint32_t state = asked.js.call("qjs_promise_state", {promise}).value_or(0);
  return asked.give(asked.js.make_string(kStates[std::min<size_t>(state, std::size(kStates) - 1)]));
}

struct HostFunction {
  std::string_view name;
  HostAction (*act)(Asked& asked);
};
constexpr HostFunction kFunctions[] = {{"__membrane_door", ask_door},
                                       {"__membrane_write", write},
                                       {"__membrane_sleep", sleep},
                                       {"__membrane_evaluate", evaluate},
                                       {"__membrane_utf8", encode_utf8},
                                       {"__membrane_text", decode_utf8},
                                       {"__membrane_compress", compress},
                                       {kPlace, say_place},
                                       {"__membrane_promise", look_into_promise}};

constexpr size_t kMostStacks = 4;

void ask_for_place(std::vector<std::string>& stacks, const QuickJsModule& js, const QuickJsWhere& where) {
  stacks.emplace_back();  // once; polls and calls of `where` itself are not places
  static_cast<void>(js.apply(where.function, where.undefined, {}));
}

// A stopped program is inside a call of the host. `where` gives its place.
HostAction note_place(Asked& asked, std::string_view name, const QuickJsWhere& where) {
  std::vector<std::string>& stacks = *asked.calls.stacks();
  if (name == kPlace) {
    if (stacks.size() < kMostStacks) stacks.push_back(asked.text(0).value_or(""));
    return asked.give_undefined();
  }
  if (stacks.empty()) ask_for_place(stacks, asked.js, where);
  return HostAction::kTrap;
}

}  // namespace

std::span<const std::string_view> quickjs_host_functions() {
  static const auto kNames = [] {
    std::array<std::string_view, std::size(kFunctions)> names;
    std::ranges::transform(kFunctions, names.begin(), &HostFunction::name);
    return names;
  }();
  return kNames;
}

HostAction call_quickjs_host_function(Calls& calls, HostCall& call, const QuickJsWhere& where) {
  Asked asked(calls, call);
  const std::string_view name = asked.name();
  if (calls.stacks() != nullptr) return note_place(asked, name, where);
  const auto* const function = std::ranges::find(kFunctions, name, &HostFunction::name);
  return function == std::end(kFunctions) ? asked.give_undefined() : function->act(asked);
}

HostAction note_place_of_rejection(uint32_t error, Calls& calls, HostCall& call, const QuickJsWhere& where) {
  const size_t before = calls.stacks()->size();
  static_cast<void>(
      QuickJsModule::inside(call, calls).apply(where.function, where.undefined, std::array{error}));
  return calls.stacks()->size() == before ? HostAction::kContinue : HostAction::kTrap;
}

void note_place_of_poll(Calls& calls, HostCall& call, const QuickJsWhere& where) {
  ask_for_place(*calls.stacks(), QuickJsModule::inside(call, calls), where);
}

}  // namespace membrane::sandbox
