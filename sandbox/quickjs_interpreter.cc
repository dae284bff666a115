// QuickJS-ng, as exported by the module of quickjs-wasi. Values cross the boundary as addresses of boxes in the
// module's memory; the receiver of a box frees it. The JavaScript environment besides the language, and the handling
// of a turn, are in Membrane's own prelude (lang/javascript/guest).
//
//   a turn:  begin() ─▶ code ─▶ qjs_eval ─▶ settle(promise) or fail(error)
//            then jobs, rejections that nobody handled, and step(), until step() says that there is no more

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <fstream>
#include <sstream>
#include <vector>

#include "base/compress_hash.h"
#include "base/utf8.h"
#include "lang/guest_files.h"
#include "sandbox/interpreters.h"

namespace membrane::sandbox {
namespace {

using engine::HostAction;
using engine::HostCall;
using engine::Value;

// In order; "node/" stands for all files there, each of which defines modules without running them.
constexpr std::string_view kPrelude[] = {
    "inspect.js", "url.js",     "web.js",  "streams.js", "bodies.js",  "fetch.js",     "rewrite.js",
    "node/",      "modules.js", "zone.js", "intl.js",    "process.js", "functions.js", "session.js"};
constexpr const char* kHostFunctions[] = {"__membrane_door",     "__membrane_write", "__membrane_sleep",
                                          "__membrane_evaluate", "__membrane_utf8",  "__membrane_text",
                                          "__membrane_compress", "__membrane_place", "__membrane_promise"};
// Of the module's 1 MiB: QuickJS makes some calls without checking the limit, and they need the rest.
constexpr uint32_t kJsStackBytes = 786'432;
constexpr uint64_t kUtf8BytesPerFuel = 8;  // for text that the host examines
constexpr uint64_t kFuelPerHashedByte = 4;
// Flags of qjs_eval.
constexpr uint32_t kModule = 1, kCompileOnly = 32, kBacktraceBarrier = 64, kAsync = 128;
enum class Evaluation : uint32_t { kScript = 0, kModule = 1, kCompiledModule = kModule | kCompileOnly };

// Boxes that stay alive, as addresses in the image.
struct Kept {
  uint32_t undefined = 0, truth = 0, falsehood = 0;
  uint32_t begin = 0, settle = 0, fail = 0, rejected = 0, step = 0, resolve = 0, load = 0;
  uint32_t where = 0;
  uint32_t polls_left =
      0;  // not a box: the address of the countdown of loops and calls until the engine next polls
};

// Which call of the program has returned is the first element of Calls::progress(); the second is the turn's box,
// and the boxes to free follow.
enum Progress : uint32_t { kEvaluated, kJobDone, kStepped };

Value i32(uint32_t value) { return Value::i32(value); }

// Calls of the module's functions. Each returns nothing when the call did not return: the run has ended then.
class Js {
 public:
  explicit Js(Calls& calls) : calls_(calls) {}

  [[nodiscard]] std::optional<uint32_t> call(std::string_view name,
                                             std::initializer_list<uint32_t> arguments) {
    std::vector<Value> values;
    for (const uint32_t argument : arguments) values.push_back(i32(argument));
    if (!calls_.call(name, values)) return std::nullopt;
    return static_cast<uint32_t>(calls_.result());
  }
  [[nodiscard]] bool free(uint32_t box) { return call("qjs_free_value", {box}).has_value(); }

  // Copies bytes to the module's memory, followed by a 0; free them with wasm_free.
  [[nodiscard]] std::optional<uint32_t> place(std::string_view text) {
    const auto at = call("wasm_malloc", {static_cast<uint32_t>(text.size() + 1)});
    if (!at || *at == 0 || *at + text.size() + 1 > calls_.memory().size()) return std::nullopt;
    uint8_t* const to = calls_.memory().data() + *at;
    std::memcpy(to, text.data(), text.size());
    to[text.size()] = 0;
    return at;
  }
  [[nodiscard]] std::optional<uint32_t> eval(std::string_view code, std::string_view name, uint32_t flags) {
    const auto at = place(code), name_at = place(name);
    if (!at || !name_at) return std::nullopt;
    const auto value = call("qjs_eval", {*at, static_cast<uint32_t>(code.size()), *name_at, flags});
    if (!value || !call("wasm_free", {*at}) || !call("wasm_free", {*name_at})) return std::nullopt;
    return value;
  }
  [[nodiscard]] std::optional<uint32_t> property(uint32_t object, std::string_view name) {
    const auto at = place(name);
    if (!at) return std::nullopt;
    const auto value = call("qjs_get_prop_string", {object, *at});
    if (!value || !call("wasm_free", {*at})) return std::nullopt;
    return value;
  }
  // With `this` undefined.
  [[nodiscard]] std::optional<uint32_t> apply(uint32_t function, uint32_t undefined,
                                              std::initializer_list<uint32_t> arguments) {
    std::string boxes;
    for (const uint32_t box : arguments) boxes.append(reinterpret_cast<const char*>(&box), sizeof box);
    const auto at = place(boxes);
    if (!at) return std::nullopt;
    const auto value = call("qjs_call", {function, undefined, static_cast<uint32_t>(arguments.size()), *at});
    if (!value || !call("wasm_free", {*at})) return std::nullopt;
    return value;
  }
  [[nodiscard]] std::optional<std::string> text(uint32_t box) {
    const auto length_at = call("wasm_malloc", {4});
    if (!length_at || *length_at == 0) return std::nullopt;
    const auto at = call("qjs_get_string_len", {box, *length_at});
    if (!at) return std::nullopt;
    std::string text;
    const std::span<const uint8_t> memory = calls_.memory();
    if (*at != 0 && *length_at + 4 <= memory.size()) {
      uint32_t length = 0;
      std::memcpy(&length, memory.data() + *length_at, sizeof length);
      if (*at <= memory.size() && length <= memory.size() - *at)
        text.assign(reinterpret_cast<const char*>(memory.data()) + *at, length);
      if (!call("qjs_free_cstring", {*at})) return std::nullopt;
    }
    if (!call("wasm_free", {*length_at})) return std::nullopt;
    return text;
  }
  [[nodiscard]] std::optional<bool> is(std::string_view what, uint32_t box) {
    const auto answer = call("qjs_is_" + std::string(what), {box});
    return answer ? std::optional(*answer != 0) : std::nullopt;
  }

 private:
  Calls& calls_;
};

// -- imports ------------------------------------------------------------------------------------------------------

// The arguments of env.host_call, read while it runs.
class Callback {
 public:
  Callback(Calls& calls, HostCall& during) : calls_(calls), during_(during) {}

  [[nodiscard]] std::string name() const {
    return std::string(
        bytes(static_cast<uint32_t>(during_.arguments[0]), static_cast<uint32_t>(during_.arguments[1])));
  }
  // The box of an argument; 0 when there are fewer arguments.
  [[nodiscard]] uint32_t box(uint32_t index) const {
    const auto count = static_cast<uint32_t>(during_.arguments[3]);
    const auto at = static_cast<uint32_t>(during_.arguments[4]) + uint64_t{4} * index;
    uint32_t box = 0;
    const std::span<const uint8_t> memory = calls_.memory();
    if (index < count && at + 4 <= memory.size()) std::memcpy(&box, memory.data() + at, sizeof box);
    return box;
  }
  // Only for a value that is a string already: no code of the program runs.
  [[nodiscard]] std::optional<std::string> text(uint32_t index) { return text_of(box(index)); }
  [[nodiscard]] std::optional<double> number(uint32_t index) {
    const uint32_t value = box(index);
    if (value == 0 || back("qjs_is_number", {value}).value_or(0) == 0) return std::nullopt;
    const auto bits = calls_.call_back(during_, "qjs_get_float64", std::array{i32(value)});
    return bits ? std::optional(std::bit_cast<double>(*bits)) : std::nullopt;
  }
  // The string in a box that is not an argument; nothing if it is not a string.
  [[nodiscard]] std::optional<std::string> text_of(uint32_t value) {
    if (value == 0 || back("qjs_is_string", {value}).value_or(0) == 0) return std::nullopt;
    const auto length_at = back("wasm_malloc", {4});
    if (!length_at || *length_at == 0) return std::nullopt;
    const auto at = back("qjs_get_string_len", {value, *length_at});
    std::string text;
    if (at && *at != 0) {
      uint32_t length = 0;
      const std::string_view raw = bytes(*length_at, 4);
      if (raw.size() == 4) std::memcpy(&length, raw.data(), sizeof length);
      text = bytes(*at, length);
      static_cast<void>(back("qjs_free_cstring", {*at}));
    }
    static_cast<void>(back("wasm_free", {*length_at}));
    return text;
  }
  // Up to the terminating 0.
  [[nodiscard]] std::string c_string(uint32_t at) const {
    const std::span<const uint8_t> memory = calls_.memory();
    if (at >= memory.size()) return {};
    const std::span<const uint8_t> from = memory.subspan(at);
    const auto* const end = static_cast<const uint8_t*>(std::memchr(from.data(), 0, from.size()));
    return {reinterpret_cast<const char*>(from.data()),
            end == nullptr ? 0 : static_cast<size_t>(end - from.data())};
  }
  // Copies bytes to the module's memory, followed by a 0; the caller must free them; 0 when there is no memory.
  [[nodiscard]] uint32_t place(std::string_view text) {
    const auto at = back("wasm_malloc", {static_cast<uint32_t>(text.size() + 1)});
    if (!at || *at == 0 || *at + text.size() + 1 > calls_.memory().size()) return 0;
    uint8_t* const to = calls_.memory().data() + *at;
    std::memcpy(to, text.data(), text.size());
    to[text.size()] = 0;
    return *at;
  }
  // Calls a function of the prelude with strings and returns its string, "" if the result is not a string. Nothing
  // when the call did not return.
  [[nodiscard]] std::optional<std::string> apply(uint32_t function, uint32_t undefined,
                                                 std::initializer_list<std::string_view> texts) {
    std::vector<uint32_t> boxes;
    std::string arguments;
    for (const std::string_view text : texts) {
      const uint32_t box = boxes.emplace_back(make(text));
      if (box == 0) return std::nullopt;
      arguments.append(reinterpret_cast<const char*>(&box), sizeof box);
    }
    const uint32_t at = place(arguments);
    if (at == 0) return std::nullopt;
    const auto value = back("qjs_call", {function, undefined, static_cast<uint32_t>(boxes.size()), at});
    if (!value) return std::nullopt;
    std::string text = text_of(*value).value_or("");
    for (const uint32_t box : boxes) static_cast<void>(back("qjs_free_value", {box}));
    static_cast<void>(back("qjs_free_value", {*value}));
    static_cast<void>(back("wasm_free", {at}));
    return text;
  }
  // The bytes of an argument that is a byte array. Nothing for another type, or when there is no memory.
  [[nodiscard]] std::optional<std::string_view> bytes_of(uint32_t index) {
    const uint32_t value = box(index), at = place(std::string(16, '\0'));
    if (value == 0 || at == 0) return std::nullopt;
    const auto buffer = back("qjs_get_typed_array_buffer", {value, at, at + 4, at + 8});
    std::optional<std::string_view> found;
    if (buffer && back("qjs_is_exception", {*buffer}).value_or(1) == 0) {
      const auto from = back("qjs_get_array_buffer", {*buffer, at + 12});
      uint32_t numbers[2] = {};  // the offset and the length
      const std::string_view raw = bytes(at, sizeof numbers);
      if (raw.size() == sizeof numbers) std::memcpy(numbers, raw.data(), sizeof numbers);
      if (from && *from <= UINT32_MAX - numbers[0]) found = bytes(*from + numbers[0], numbers[1]);
      if (found && found->size() != numbers[1]) found.reset();
    }
    if (buffer) static_cast<void>(back("qjs_free_value", {*buffer}));
    static_cast<void>(back("wasm_free", {at}));
    return found;
  }
  // A new byte array; 0 when there is no memory.
  [[nodiscard]] uint32_t make_bytes(std::string_view content) {
    const uint32_t at = place(content);
    if (at == 0) return 0;
    const auto made = back("qjs_new_uint8_array", {at, static_cast<uint32_t>(content.size())});
    static_cast<void>(back("wasm_free", {at}));
    return made.value_or(0);
  }
  // The value of a script, whose names are global, or the promise of a module; undefined for a module that is only
  // compiled. 0 when it threw, or the promise has been rejected, and the exception is rethrown. Nothing when the
  // call did not return.
  [[nodiscard]] std::optional<uint32_t> evaluate(std::string_view code, std::string_view name,
                                                 Evaluation kind) {
    const uint32_t at = place(code), name_at = place(name);
    if (at == 0 || name_at == 0) return std::nullopt;
    const auto value =
        back("qjs_eval", {at, static_cast<uint32_t>(code.size()), name_at, static_cast<uint32_t>(kind)});
    if (!value) return std::nullopt;
    static_cast<void>(back("wasm_free", {at}));
    static_cast<void>(back("wasm_free", {name_at}));
    constexpr uint32_t kRejected = 2;
    const bool is_rejected = kind == Evaluation::kModule &&
                             back("qjs_is_promise", {*value}).value_or(0) != 0 &&
                             back("qjs_promise_state", {*value}).value_or(0) == kRejected;
    if (is_rejected) static_cast<void>(back("qjs_promise_mark_as_handled", {*value}));
    else if (back("qjs_is_exception", {*value}).value_or(0) == 0) {
      if (kind != Evaluation::kCompiledModule) return value;
      // The program has no use for the compiled module's value.
      static_cast<void>(back("qjs_free_value", {*value}));
      return undefined();
    }
    const auto error = is_rejected ? back("qjs_promise_result", {*value}) : back("qjs_get_exception", {});
    if (!error || !back("qjs_throw", {*error})) return std::nullopt;
    static_cast<void>(back("qjs_free_value", {*error}));
    static_cast<void>(back("qjs_free_value", {*value}));
    return 0;
  }

  // A new string; 0 when there is no memory.
  [[nodiscard]] uint32_t make(std::string_view text) {
    const auto at = back("wasm_malloc", {static_cast<uint32_t>(text.size() + 1)});
    if (!at || *at == 0 || *at + text.size() > calls_.memory().size()) return 0;
    std::memcpy(calls_.memory().data() + *at, text.data(), text.size());
    const auto made = back("qjs_new_string", {*at, static_cast<uint32_t>(text.size())});
    static_cast<void>(back("wasm_free", {*at}));
    return made.value_or(0);
  }
  uint32_t undefined() { return back("qjs_get_undefined", {}).value_or(0); }
  std::optional<uint32_t> back(std::string_view name, std::initializer_list<uint32_t> arguments) {
    std::vector<Value> values;
    for (const uint32_t argument : arguments) values.push_back(i32(argument));
    const auto result = calls_.call_back(during_, name, values);
    return result ? std::optional(static_cast<uint32_t>(*result)) : std::nullopt;
  }

 private:
  [[nodiscard]] std::string_view bytes(uint32_t at, uint32_t count) const {
    const std::span<const uint8_t> memory = calls_.memory();
    if (at > memory.size() || count > memory.size() - at) return {};
    return {reinterpret_cast<const char*>(memory.data()) + at, count};
  }

  Calls& calls_;
  HostCall& during_;
};

// (hash kind, its state as 32-bit words, whole blocks): the state after them; undefined for invalid arguments.
uint32_t compress(Callback& callback, HostCall& call) {
  const auto number = callback.number(0);
  const auto found = callback.bytes_of(1);
  if (!number || !found || *number < 0 || *number > static_cast<double>(HashKind::kSha512))
    return callback.undefined();
  const auto kind = static_cast<HashKind>(*number);
  std::vector<uint32_t> state(hash_state_words(kind));
  if (found->size() != state.size() * sizeof(uint32_t)) return callback.undefined();
  std::memcpy(state.data(), found->data(), found->size());
  const auto blocks = callback.bytes_of(2);
  if (!blocks || blocks->size() % hash_block_bytes(kind) != 0) return callback.undefined();
  call.owe(blocks->size() * kFuelPerHashedByte);
  compress_hash(kind, state, *blocks);
  return callback.make_bytes({reinterpret_cast<const char*>(state.data()), state.size() * sizeof(uint32_t)});
}

// (promise): its state, as a string; (promise, true): the value that it is settled with. Undefined if it is not a
// promise.
uint32_t look_into_promise(Callback& callback) {
  constexpr const char* kStates[] = {"pending", "fulfilled", "rejected"};
  const uint32_t promise = callback.box(0);
  if (promise == 0 || callback.back("qjs_is_promise", {promise}).value_or(0) == 0)
    return callback.undefined();
  if (callback.box(1) != 0) return callback.back("qjs_promise_result", {promise}).value_or(0);
  const uint32_t state = callback.back("qjs_promise_state", {promise}).value_or(0);
  return callback.make(kStates[std::min<size_t>(state, std::size(kStates) - 1)]);
}

// -- the place of a stopped program: `where` of the prelude reports it through __membrane_place

// The program makes a host request: this is its place.
HostAction note_place(Callback& callback, Calls& calls, std::string_view name, const Kept& kept) {
  std::string& place = *calls.places_text();
  if (name == kHostFunctions[7]) place = callback.text(0).value_or("");
  else if (std::exchange(place, " ").empty())
    static_cast<void>(callback.back("qjs_call", {kept.where, kept.undefined, 0, callback.place("")}));
  return HostAction::kTrap;
}

// A promise is rejected, possibly by the interruption.
HostAction note_place_of(uint32_t error, Calls& calls, HostCall& call, const Kept& kept) {
  Callback callback(calls, call);
  const uint32_t at = callback.place({reinterpret_cast<const char*>(&error), sizeof error});
  static_cast<void>(callback.back("qjs_call", {kept.where, kept.undefined, 1, at}));
  return calls.places_text()->empty() ? HostAction::kContinue : HostAction::kTrap;
}

// "    at f (/x.js:3:5)", or "    at /x.js:3:5".
std::optional<ReportPlace> place_in_line(std::string_view line) {
  constexpr std::string_view kAt = "at ";
  const size_t at = line.find_first_not_of(' ');
  if (at == std::string_view::npos || !line.substr(at).starts_with(kAt)) return std::nullopt;
  line.remove_prefix(at + kAt.size());
  ReportPlace place;
  if (const size_t open = line.rfind(" ("); line.ends_with(')') && open != std::string_view::npos) {
    place.function = line.substr(0, open);
    line = line.substr(open + 2, line.size() - open - 3);
  }
  for (uint32_t* const number : {&place.column, &place.line}) {
    const size_t colon = line.rfind(':');
    if (colon == std::string_view::npos) return std::nullopt;
    const std::string_view digits = line.substr(colon + 1);
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), *number);
    if (read.ec != std::errc() || read.ptr != digits.data() + digits.size()) return std::nullopt;
    line = line.substr(0, colon);
  }
  place.file = line;
  return place;
}

std::vector<ReportPlace> places_in(std::string_view text) {
  constexpr size_t kMostPlaces = 64, kMostBytes = 16u << 10;
  text = text.substr(0, kMostBytes);
  std::vector<ReportPlace> places;
  while (!text.empty() && places.size() < kMostPlaces) {
    const size_t end = std::min(text.find('\n'), text.size());
    if (auto place = place_in_line(text.substr(0, end))) places.push_back(*std::move(place));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return places;
}

HostAction host_call(Calls& calls, HostCall& call, const Kept& kept) {
  Callback callback(calls, call);
  const std::string name = callback.name();
  if (calls.places_text() != nullptr) return note_place(callback, calls, name, kept);
  const auto give = [&](uint32_t box) {
    call.results[0] = box;
    if (box != 0) return HostAction::kContinue;
    if (call.trap_message.empty())
      call.trap_message = "the program's memory has no room for what " + name + " gives";
    return HostAction::kTrap;
  };
  if (name == kHostFunctions[0]) {
    const auto request = callback.text(0);
    if (!request) return give(callback.undefined());
    const auto answer = calls.ask(call, *request);
    if (!answer) return HostAction::kTrap;  // the session knows the reason
    return give(callback.make(*answer));
  }
  if (name == kHostFunctions[1]) {
    const auto text = callback.text(1);
    const auto stream = callback.number(0);
    if (text && !calls.print(call, stream == 2.0, *text)) return HostAction::kTrap;
    return give(callback.undefined());
  }
  if (name == kHostFunctions[2]) {
    const auto ms = callback.number(0);
    if (ms && *ms > 0 && !calls.sleep(call, *ms * 1e6)) return HostAction::kTrap;
    return give(callback.undefined());
  }
  if (name == kHostFunctions[3]) {
    const auto code = callback.text(0), file = callback.text(1);
    if (!code || !file) return give(callback.undefined());
    const double asked = callback.number(2).value_or(0);
    const Evaluation kind = asked == 1   ? Evaluation::kModule
                            : asked == 2 ? Evaluation::kCompiledModule
                                         : Evaluation::kScript;
    const auto value = callback.evaluate(*code, *file, kind);
    if (!value) return HostAction::kTrap;
    call.results[0] = *value;
    return HostAction::kContinue;
  }
  if (name == kHostFunctions[4]) {
    const auto text = callback.text(0);
    return give(text ? callback.make_bytes(*text) : callback.undefined());
  }
  if (name == kHostFunctions[5]) {
    const auto bytes = callback.bytes_of(0);
    if (!bytes || !is_utf8(*bytes)) return give(callback.undefined());
    call.owe(bytes->size() / kUtf8BytesPerFuel);
    return give(callback.make(std::string(*bytes)));
  }
  if (name == kHostFunctions[6]) return give(compress(callback, call));
  if (name == kHostFunctions[8]) return give(look_into_promise(callback));
  return give(callback.undefined());
}

class QuickJsInterpreter final : public Interpreter {
 public:
  [[nodiscard]] std::optional<Import> import(std::string_view module, std::string_view name) const override {
    constexpr auto kI32 = wasm::ValType::kI32;
    if (module != "env") return std::nullopt;
    if (name == "host_call")
      return Import{{{kI32, kI32, kI32, kI32, kI32}, {kI32}},
                    [this](Calls& calls, HostCall& call) { return host_call(calls, call, kept_); }};
    if (name == "host_promise_rejection")
      return Import{{{kI32, kI32, kI32}, {}}, [this](Calls& calls, HostCall& call) {
                      const auto box = [&](size_t i) { return static_cast<uint32_t>(call.arguments[i]); };
                      if (calls.places_text() != nullptr) return note_place_of(box(1), calls, call, kept_);
                      if (calls.note({box(0), box(1), box(2)})) return HostAction::kContinue;
                      call.trap_message =
                          "promises that were rejected, and not handled yet, take all the memory";
                      return HostAction::kTrap;
                    }};
    const auto zero = [](Calls&, HostCall& call) {
      call.results[0] = 0;
      return HostAction::kContinue;
    };
    if (name == "host_get_timezone_offset") return Import{{{kI32, kI32}, {kI32}}, zero};
    if (name == "host_module_normalize")
      return Import{{{kI32, kI32}, {kI32}},
                    [this](Calls& calls, HostCall& call) { return resolve_module(calls, call); }};
    if (name == "host_module_load")
      return Import{{{kI32, kI32}, {kI32}},
                    [this](Calls& calls, HostCall& call) { return load_module(calls, call); }};
    if (name == "host_interrupt")
      return Import{{{}, {kI32}}, [](Calls& calls, HostCall& call) {
                      call.results[0] = calls.places_text() != nullptr ? 1 : 0;
                      return HostAction::kContinue;
                    }};
    return std::nullopt;
  }

  Result<bool> warm(Calls& calls, const lang::Package& package) override;

  [[nodiscard]] std::vector<uint8_t> state() const override {
    std::vector<uint8_t> bytes(sizeof kept_);
    std::memcpy(bytes.data(), &kept_, sizeof kept_);
    return bytes;
  }
  void set_state(std::span<const uint8_t> state) override {
    if (state.size() == sizeof kept_) std::memcpy(&kept_, state.data(), sizeof kept_);
  }

  [[nodiscard]] bool asks_for_files() const override { return true; }
  [[nodiscard]] bool checks() const override { return true; }
  [[nodiscard]] bool completes() const override { return true; }
  [[nodiscard]] bool turn(Calls& calls, std::string_view) const override;
  [[nodiscard]] bool go_on(Calls& calls) const override;
  [[nodiscard]] std::vector<ReportPlace> places(Calls& calls) const override;

 private:
  [[nodiscard]] bool find_polls_left(Js& js, Calls& calls);
  [[nodiscard]] bool define_host_functions(Js& js);
  [[nodiscard]] bool run_jobs(Js& js, Calls& calls) const;
  [[nodiscard]] bool report_rejections(Js& js, Calls& calls) const;
  [[nodiscard]] bool take_value(Js& js, Calls& calls) const;
  [[nodiscard]] std::optional<bool> take_step(Js& js, Calls& calls) const;
  HostAction resolve_module(Calls& calls, HostCall& call) const;
  HostAction load_module(Calls& calls, HostCall& call) const;

  Kept kept_;
};

// -- modules: the prelude resolves names, and finds sources
// ----------------------------------------------------------

// (base, name) as C strings. 0: there is no such module.
HostAction QuickJsInterpreter::resolve_module(Calls& calls, HostCall& call) const {
  Callback callback(calls, call);
  const auto c_string = [&](size_t i) { return callback.c_string(static_cast<uint32_t>(call.arguments[i])); };
  const auto name = callback.apply(kept_.resolve, kept_.undefined, {c_string(0), c_string(1)});
  if (!name) return HostAction::kTrap;
  call.results[0] = name->empty() ? 0 : callback.place(*name);
  return HostAction::kContinue;
}

// (name, address for the length).
HostAction QuickJsInterpreter::load_module(Calls& calls, HostCall& call) const {
  Callback callback(calls, call);
  const auto name = callback.c_string(static_cast<uint32_t>(call.arguments[0]));
  const auto source = callback.apply(kept_.load, kept_.undefined, {name});
  if (!source) return HostAction::kTrap;
  const auto length = static_cast<uint32_t>(source->size());
  const uint64_t length_at = static_cast<uint32_t>(call.arguments[1]);
  call.results[0] = 0;
  if (source->empty() || length_at + sizeof length > calls.memory().size()) return HostAction::kContinue;
  call.results[0] = callback.place(*source);
  std::memcpy(calls.memory().data() + length_at, &length, sizeof length);
  return HostAction::kContinue;
}

// -- the template -------------------------------------------------------------------------------------------------

bool QuickJsInterpreter::define_host_functions(Js& js) {
  const auto global = js.call("qjs_get_global", {});
  if (!global) return false;
  for (const char* const name : kHostFunctions) {
    const auto at = js.place(name);
    if (!at) return false;
    const auto function =
        js.call("qjs_new_host_function", {*at, static_cast<uint32_t>(std::strlen(name)), 2});
    if (!function || !js.call("qjs_set_prop_string", {*global, *at, *function}) || !js.free(*function) ||
        !js.call("wasm_free", {*at}))
      return false;
  }
  return js.free(*global);
}

Result<bool> QuickJsInterpreter::warm(Calls& calls, const lang::Package& package) {
  Js js(calls);
  if (!calls.call("_initialize", {})) return false;
  const auto begun = js.call("qjs_init", {});
  if (!begun || !js.call("qjs_set_max_stack_size", {kJsStackBytes}) ||
      !js.call("qjs_set_promise_rejection_handler", {1}) || !js.call("qjs_set_module_loader", {1}))
    return false;
  const auto undefined = js.call("qjs_get_undefined", {}), truth = js.call("qjs_get_true", {}),
             falsehood = js.call("qjs_get_false", {});
  if (*begun != 0 || !undefined || !truth || !falsehood || !define_host_functions(js)) return false;
  kept_.undefined = *undefined;
  kept_.truth = *truth;
  kept_.falsehood = *falsehood;

  const auto evaluate = [&](std::string_view code,
                            const std::string& name) -> Result<std::optional<uint32_t>> {
    const auto value = js.eval(code, "membrane:" + name, 0);
    if (!value) return std::optional<uint32_t>();
    const auto failed = js.is("exception", *value);
    if (failed && *failed)
      return fail(ErrorCode::kUnsupported, "JavaScript's own part " + name + " failed", "");
    return failed ? value : std::nullopt;
  };
  for (const lang::PackageFile& file : package.files) {  // libraries such as TypeScript's
    std::ifstream in(file.path, std::ios::binary);
    std::ostringstream text;
    text << in.rdbuf();
    MEMBRANE_ASSIGN(const auto value, evaluate(text.str(), file.guest));
    if (!value || !js.free(*value)) return false;
  }
  std::optional<uint32_t> session;
  for (const std::string_view entry : kPrelude)
    for (const lang::GuestFile& file : lang::guest_files()) {
      const bool matches = entry.ends_with('/') ? file.path.starts_with(entry) : file.path == entry;
      if (file.language != "javascript" || !matches) continue;
      if (session && !js.free(*session)) return false;
      MEMBRANE_ASSIGN(session, evaluate({reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size()},
                                        std::string(file.path)));
      if (!session) return false;
    }
  if (!session) return fail(ErrorCode::kUnsupported, "JavaScript's own part is not in this program", "");
  const std::pair<const char*, uint32_t*> functions[] = {
      {"begin", &kept_.begin},       {"settle", &kept_.settle}, {"fail", &kept_.fail},
      {"rejected", &kept_.rejected}, {"step", &kept_.step},     {"resolve", &kept_.resolve},
      {"load", &kept_.load},         {"where", &kept_.where}};
  for (const auto& [name, box] : functions) {
    const auto found = js.property(*session, name);
    if (!found) return false;
    *box = *found;
  }
  return find_polls_left(js, calls) && run_jobs(js, calls);
}

// Finds the engine's countdown that loops decrement. Without it, a place may be some thousand loops late.
bool QuickJsInterpreter::find_polls_left(Js& js, Calls& calls) {
  constexpr uint32_t kLoops = 1000, kBesides = 20;
  std::array<uint32_t, 512> before{}, after{};
  const auto context = js.call("qjs_get_context_ptr", {});
  if (!context) return false;
  const auto read = [&](std::array<uint32_t, 512>& words) {
    const std::span<const uint8_t> memory = calls.memory();
    if (*context <= memory.size() && sizeof words <= memory.size() - *context)
      std::memcpy(words.data(), memory.data() + *context, sizeof words);
  };
  read(before);
  const auto value =
      js.eval("for (let i = 0; i < " + std::to_string(kLoops) + "; ++i);", "membrane:loops", 0);
  if (!value || !js.free(*value)) return false;
  read(after);
  for (uint32_t i = 0; i < before.size(); ++i)
    if (before[i] - after[i] - kLoops < kBesides)
      kept_.polls_left = *context + static_cast<uint32_t>(i * sizeof(uint32_t));
  return true;
}

// -- a turn -------------------------------------------------------------------------------------------------------

bool QuickJsInterpreter::run_jobs(Js& js, Calls& calls) const {
  for (;;) {
    const auto is_pending = js.call("qjs_is_job_pending", {});
    if (!is_pending) return false;
    if (*is_pending == 0) break;
    if (!js.call("qjs_execute_pending_job", {})) return false;
  }
  return report_rejections(js, calls);
}

bool QuickJsInterpreter::report_rejections(Js& js, Calls& calls) const {
  const std::vector<uint32_t> notes = calls.take_notes();
  for (size_t i = 0; i + 2 < notes.size(); i += 3) {
    const auto reported =
        js.apply(kept_.rejected, kept_.undefined,
                 {notes[i], notes[i + 1], notes[i + 2] != 0 ? kept_.truth : kept_.falsehood});
    if (!reported || !js.free(*reported) || !js.free(notes[i]) || !js.free(notes[i + 1])) return false;
  }
  return true;
}

bool QuickJsInterpreter::turn(Calls& calls, std::string_view) const {
  Js js(calls);
  const auto turn = js.apply(kept_.begin, kept_.undefined, {});
  if (!turn) return false;
  const auto is_over = js.is("undefined", *turn);
  if (!is_over) return false;
  if (!*is_over) {
    const auto code_box = js.property(*turn, "code"), name_box = js.property(*turn, "name"),
               module_box = js.property(*turn, "isModule");
    if (!code_box || !name_box || !module_box) return false;
    const auto code = js.text(*code_box), name = js.text(*name_box);
    const auto is_module = js.call("qjs_get_bool", {*module_box});
    if (!code || !name || !is_module || !js.free(*code_box) || !js.free(*name_box) || !js.free(*module_box))
      return false;
    const auto code_at = js.place(*code), name_at = js.place(*name);
    if (!code_at || !name_at) return false;
    calls.progress() = {kEvaluated, *turn, *code_at, *name_at};
    const uint32_t flags = *is_module != 0 ? kModule : kAsync | kBacktraceBarrier;
    return calls.call_program("qjs_eval", std::array{i32(*code_at), i32(static_cast<uint32_t>(code->size())),
                                                     i32(*name_at), i32(flags)}) &&
           go_on(calls);
  }
  return js.free(*turn);
}

bool QuickJsInterpreter::go_on(Calls& calls) const {
  Js js(calls);
  for (;;) {
    const uint32_t turn = calls.progress()[1];
    switch (calls.progress()[0]) {
      case kEvaluated:
        if (!take_value(js, calls)) return false;
        break;
      case kStepped: {
        const auto is_more = take_step(js, calls);
        if (!is_more) return false;
        if (!*is_more) return js.free(turn);
        break;
      }
      default: break;  // a job is finished
    }
    const auto is_pending = js.call("qjs_is_job_pending", {});
    if (!is_pending) return false;
    if (*is_pending != 0) {
      calls.progress() = {kJobDone, turn};
      if (!calls.call_program("qjs_execute_pending_job", {})) return false;
      continue;
    }
    if (!report_rejections(js, calls)) return false;
    const auto none_at = js.place("");
    if (!none_at) return false;
    calls.progress() = {kStepped, turn, *none_at};
    if (!calls.call_program("qjs_call",
                            std::array{i32(kept_.step), i32(kept_.undefined), i32(0), i32(*none_at)}))
      return false;
  }
}

// Runs on until the engine next polls, and is interrupted there; or until the program makes a host request.
std::vector<ReportPlace> QuickJsInterpreter::places(Calls& calls) const {
  const auto beside = [&](std::string_view name, std::initializer_list<uint32_t> arguments) -> uint32_t {
    std::vector<Value> values;
    for (const uint32_t argument : arguments) values.push_back(i32(argument));
    return static_cast<uint32_t>(calls.call_beside(name, values).value_or(0));
  };
  static_cast<void>(beside("qjs_set_interrupt_handler", {1}));
  constexpr uint32_t kOne = 1;
  if (kept_.polls_left != 0 && kept_.polls_left + sizeof kOne <= calls.memory().size())
    std::memcpy(calls.memory().data() + kept_.polls_left, &kOne, sizeof kOne);
  if (calls.run_on() && beside("qjs_is_exception", {static_cast<uint32_t>(calls.result())}) != 0) {
    const uint32_t error = beside("qjs_get_exception", {}), at = beside("wasm_malloc", {sizeof error});
    if (at == 0 || at + sizeof error > calls.memory().size()) return {};
    std::memcpy(calls.memory().data() + at, &error, sizeof error);
    static_cast<void>(beside("qjs_call", {kept_.where, kept_.undefined, 1, at}));
  }
  const std::string* const text = calls.places_text();
  return text == nullptr ? std::vector<ReportPlace>() : places_in(*text);
}

// The result of the evaluation: a promise, or an exception.
bool QuickJsInterpreter::take_value(Js& js, Calls& calls) const {
  const auto value = static_cast<uint32_t>(calls.result());
  if (!js.call("wasm_free", {calls.progress()[2]}) || !js.call("wasm_free", {calls.progress()[3]}))
    return false;
  const auto threw = js.is("exception", value);
  if (!threw) return false;
  std::optional<uint32_t> taken;
  if (*threw) {
    const auto error = js.call("qjs_get_exception", {});
    if (!error) return false;
    taken = js.apply(kept_.fail, kept_.undefined, {*error});
    if (!taken || !js.free(*error)) return false;
  } else {
    taken = js.apply(kept_.settle, kept_.undefined, {value});
  }
  return taken && js.free(*taken) && js.free(value);
}

// Whether there is more to wait for. Throws when the program broke the objects that this relies on: then there is no
// answer.
std::optional<bool> QuickJsInterpreter::take_step(Js& js, Calls& calls) const {
  const auto more = static_cast<uint32_t>(calls.result());
  if (!js.call("wasm_free", {calls.progress()[2]}) || js.is("exception", more).value_or(true))
    return std::nullopt;
  if (!calls.call("qjs_get_float64", std::array{i32(more)})) return std::nullopt;
  const bool is_more = std::bit_cast<double>(calls.result()) != 0;
  return js.free(more) ? std::optional(is_more) : std::nullopt;
}

}  // namespace

std::unique_ptr<Interpreter> make_quickjs() { return std::make_unique<QuickJsInterpreter>(); }

}  // namespace membrane::sandbox
