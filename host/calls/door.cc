#include "host/calls/door.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/base64.h"
#include "base/freed_memory.h"
#include "base/text.h"
#include "base/utf8.h"
#include "host/calls/registry.h"
#include "host/capabilities/read_json.h"

namespace membrane::host {
namespace {

using nlohmann::json;

// Above it a double does not represent every integer.
constexpr int64_t kMaxPlainInteger = 1ll << 53;
// {"call":…, "arguments":[{"base64":…}]} is not nested more deeply, and has no more values.
constexpr JsonLimits kCallLimits{.bytes = Door::kMaxRequestBytes, .depth = 3, .values = 64};
// Nor is {"session":…, "path":…}.
constexpr JsonLimits kAskLimits{.bytes = 64u << 10, .depth = 1, .values = 8};

// --- reading -----------------------------------------------------------------------------

// The kind of a request: the first member's name, and its value if that is a string.
struct Kind {
  std::string name;
  std::string text;
};

// Takes the character from the start of the text, after white space.
bool take(std::string_view& text, char c) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t\n\r"), text.size()));
  if (!text.starts_with(c)) return false;
  text.remove_prefix(1);
  return true;
}

// Takes a short string from the start of the text; "" for anything else.
std::string take_string(std::string_view& text) {
  constexpr size_t kMaxBytes = 32;
  if (!take(text, '"')) return "";
  const size_t end = text.substr(0, kMaxBytes).find('"');
  if (end == std::string_view::npos) return "";
  const std::string_view content = text.substr(0, end);
  text.remove_prefix(end + 1);
  return std::string(content);
}

// Reads only the beginning: the code that handles the request reads the rest. The words have no escapes.
Kind kind_of(std::string_view request) {
  Kind kind;
  if (!take(request, '{')) return kind;
  kind.name = take_string(request);
  if (take(request, ':')) kind.text = take_string(request);
  return kind;
}

HostResult<json> parse_call(std::string_view request, uint64_t memory_bytes) {
  JsonLimits limits = kCallLimits;
  limits.memory_bytes = memory_bytes;
  MEMBRANE_ASSIGN(json parsed, read_json_for_guest(request, "the request", limits));
  if (!parsed.is_object()) return refuse(Errno::kInvalid, "the request is not an object");
  for (const auto& [name, value] : parsed.items()) {
    if (name != "call" && name != "arguments")
      return refuse(Errno::kInvalid, "a call has no '" + utf8_repair(name) + "'");
  }
  return parsed;
}

// The string in {"base64":"…"} and similar: an object with only this member.
const std::string* only_member(const json& value, const char* name) {
  if (!value.is_object() || value.size() != 1 || !value.contains(name)) return nullptr;
  return value[name].get_ptr<const std::string*>();
}

// Moves it out of the value.
HostResult<std::string> string_of(json& value) {
  if (auto* text = value.get_ptr<std::string*>()) return std::move(*text);
  if (const std::string* encoded = only_member(value, "base64")) {
    if (auto bytes = base64_decode(*encoded)) return std::move(*bytes);
    return refuse(Errno::kInvalid, "is not base64");
  }
  return refuse(Errno::kInvalid, "is not a string");
}

HostResult<int64_t> integer_of(const json& value, int64_t least, int64_t most) {
  int64_t number = 0;
  if (const std::string* digits = only_member(value, "integer")) {
    const auto [end, error] = std::from_chars(digits->data(), digits->data() + digits->size(), number);
    if (error != std::errc() || end != digits->data() + digits->size())
      return refuse(Errno::kInvalid, "is not an integer of 64 bits");
  } else if (value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(most)) {
    return refuse(Errno::kInvalid, "is too large");
  } else if (value.is_number_integer()) {
    number = value.get<int64_t>();
  } else {
    return refuse(Errno::kInvalid, "is not an integer");
  }
  if (number < least || number > most) return refuse(Errno::kInvalid, "does not fit into its type");
  return number;
}

HostResult<double> double_of(const json& value) {
  if (value.is_number()) return value.get<double>();
  const std::string* name = only_member(value, "number");
  if (name != nullptr && *name == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (name != nullptr && *name == "inf") return std::numeric_limits<double>::infinity();
  if (name != nullptr && *name == "-inf") return -std::numeric_limits<double>::infinity();
  return refuse(Errno::kInvalid, "is not a number");
}

// The slot of a number, in the engine's form; for a string its bytes, in `string`.
HostResult<uint64_t> slot_of(Type type, json& value, std::string& string) {
  switch (type) {
    case Type::kText:
    case Type::kBytes: {
      MEMBRANE_ASSIGN(string, string_of(value));
      return 0;
    }
    case Type::kI32: {
      using Limits = std::numeric_limits<int32_t>;
      MEMBRANE_ASSIGN(const int64_t number, integer_of(value, Limits::min(), Limits::max()));
      return static_cast<uint32_t>(number);
    }
    case Type::kI64: {
      using Limits = std::numeric_limits<int64_t>;
      MEMBRANE_ASSIGN(const int64_t number, integer_of(value, Limits::min(), Limits::max()));
      return static_cast<uint64_t>(number);
    }
    case Type::kF64: {
      MEMBRANE_ASSIGN(const double number, double_of(value));
      return std::bit_cast<uint64_t>(number);
    }
  }
  return refuse(Errno::kInvalid, "has no type");
}

// The strings live in `strings`, as long as the call.
HostResult<Arguments> arguments_of(const FunctionSpec& function, json& values,
                                   std::array<std::string, kMaxParams>& strings) {
  if (!values.is_array()) return refuse(Errno::kInvalid, "the arguments are not an array");
  if (values.size() != function.params.size())
    return refuse(Errno::kInvalid, signature_of(function) + " takes " +
                                       count_of(function.params.size(), "argument") + ", not " +
                                       std::to_string(values.size()));
  Arguments arguments;
  for (size_t i = 0; i < function.params.size(); ++i) {
    auto slot = slot_of(function.params[i].type, values[i], strings[i]);
    if (!slot)
      return refuse(slot.error().code, std::string(function.params[i].name) + " " + slot.error().reason);
    arguments.bits[i] = *slot;
    arguments.strings[i] = strings[i];
  }
  return arguments;
}

// --- writing -----------------------------------------------------------------------------

json json_of(Value value) {
  if (auto* text = std::get_if<std::string>(&value)) {
    if (is_utf8(*text)) return std::move(*text);
    return {{"base64", base64_encode(*text)}};
  }
  if (const auto* number = std::get_if<int32_t>(&value)) return *number;
  if (const auto* number = std::get_if<int64_t>(&value)) {
    if (*number >= -kMaxPlainInteger && *number <= kMaxPlainInteger) return *number;
    return {{"integer", std::to_string(*number)}};
  }
  if (const auto* number = std::get_if<double>(&value)) {
    if (std::isfinite(*number)) return *number;
    return {{"number", std::isnan(*number) ? "nan" : *number > 0 ? "inf" : "-inf"}};
  }
  return nullptr;
}

// Messages quote a program's data, which may be long.
std::string shortly(std::string_view text, size_t most_bytes) {
  return std::string(text.substr(0, utf8_cut(text, most_bytes))) + (text.size() > most_bytes ? "…" : "");
}

std::string error_answer(const HostError& error) {
  constexpr size_t kMaxMessageBytes = 1'000;
  return json_text(json{{"error",
                         {{"errno", name_of(error.code)},
                          {"number", static_cast<int>(error.code)},
                          {"message", shortly(error.reason, kMaxMessageBytes)},
                          {"grant", shortly(error.grant, kMaxMessageBytes)}}}});
}

// The unknown name, and what was probably meant.
HostError unknown(const std::string& asked) {
  constexpr size_t kMaxNameBytes = 64;  // a longer name is not similar to any known one
  const std::string name = shortly(asked, kMaxNameBytes);
  const auto selection = select(name);
  if (selection && selection->capability->is_of_memory)
    return {Errno::kUnsupported, name + " works on a program's own memory: take what the language has", {}};
  if (selection) return {Errno::kInvalid, name + " is a capability, and not a function of it", {}};
  return {Errno::kNotFound, selection.error().message + ". " + selection.error().hint, {}};
}

// Null also for one that works on the program's own memory: callers here have no addresses.
const FunctionSpec* function_named(std::string_view name) {
  const size_t dot = name.find('.');
  const Capability* capability = find_capability(name.substr(0, dot));
  const bool is_of_memory = capability != nullptr && capability->is_of_memory;
  return dot == std::string_view::npos || is_of_memory
             ? nullptr
             : find_function(name.substr(0, dot), name.substr(dot + 1));
}

}  // namespace

std::string Door::answer(std::string_view request, bool may_wait) {
  end_ = CallEnd::kReturn;
  was_of_turn_ = false;
  const uint64_t price = kCost.base + kCost.per_byte * request.size();
  const bool is_prepaid = request.size() > kMaxOwedBytes;
  if (is_prepaid && !guest_.charge(price)) {
    end_ = CallEnd::kOutOfFuel;
    return "";
  }
  std::string answer;
  // Libraries throw when there is no memory.
  try {
    answer = answer_any(request, may_wait);
  } catch (const std::bad_alloc&) {
    answer = error_answer(HostError{Errno::kNoMemory, "the host has no memory for the request", {}});
  }
  if (request.size() >= HostMemory::kLargeBytes) return_freed_memory();
  // A request that was not done is not paid for: it is repeated.
  if (end_ != CallEnd::kOutOfFuel && end_ != CallEnd::kWaits)
    guest_.owe((is_prepaid ? 0 : price) + kCost.per_byte * answer.size());
  return answer;
}

// The value as JSON, if there is room for it: while it is made, and until the program has read it.
std::string Door::answer_of(Value value) {
  if (const auto* text = std::get_if<std::string>(&value)) {
    const uint64_t size = std::max(json_text_bytes(*text), text->size() / 3 * 4 + 4);
    const uint64_t left = guest_.host_memory().left_for_call();
    if (size > guest_.host_memory().left_to_keep() || kPrintGrowth * size + text->size() > left)
      return error_answer(HostError{
          Errno::kNoMemory, "the answer of " + count_of(text->size(), "byte") + " has no room", {}});
  }
  const json whole{{"value", json_of(std::move(value))}};
  return json_text(whole);
}

std::string Door::answer_any(std::string_view request, bool may_wait) {
  if (request.size() > kMaxRequestBytes)
    return error_answer(HostError{
        Errno::kTooBig, "the request is larger than " + std::to_string(kMaxRequestBytes) + " bytes", {}});
  // The caller may have made a copy of it.
  const HostMemory::Use use(guest_.host_memory(), request.size());
  const Kind kind = kind_of(request);
  if (kind.name == "call" || kind.name == "arguments") return answer_call(request);
  if (kind.name == "session") return answer_session(kind.text, request);
  if (kind.name == "files") return answer_files(request);
  if (kind.name == "functions") return answer_functions(request, may_wait);
  if (kind.name == "registry" &&
      read_json(request, "the request", kAskLimits).value_or(nullptr) == json{{"registry", true}})
    return capabilities_json_of_values();
  return error_answer(HostError{
      Errno::kInvalid,
      R"(a request is {"call":…,"arguments":[…]}, {"registry":true}, {"session":…}, {"files":…} or {"functions":…})",
      {}});
}

std::string Door::answer_call(std::string_view request) {
  HostResult<json> parsed = parse_call(request, guest_.host_memory().left_for_call());
  if (!parsed) return error_answer(parsed.error());
  const auto name = parsed->find("call");
  if (name == parsed->end() || !name->is_string())
    return error_answer(HostError{Errno::kInvalid, "the name of the call is not a string", {}});
  const FunctionSpec* function = function_named(name->get_ref<const std::string&>());
  if (function == nullptr) return error_answer(unknown(name->get_ref<const std::string&>()));
  std::array<std::string, kMaxParams> strings;
  json none = json::array();
  const auto values = parsed->find("arguments");
  const HostResult<Arguments> arguments =
      arguments_of(*function, values == parsed->end() ? none : *values, strings);
  const HostMemory::Use use(guest_.host_memory(), request.size());  // the strings
  ValueOutcome outcome = dispatcher_.call(*function, arguments);
  end_ = outcome.end;
  if (end_ != CallEnd::kReturn) return "";
  return outcome.value ? answer_of(std::move(*outcome.value)) : error_answer(outcome.value.error());
}

std::string Door::answer_session(std::string_view what, std::string_view request) {
  const auto refused = [](const HostError& error) { return error_answer(error); };
  if (session_ == nullptr)
    return refused({Errno::kUnsupported, "there is no session: the program runs by itself", {}});
  was_of_turn_ = what == "next" || what == "result";
  if (what == "next") {
    HostResult<std::string> turn = session_->next();
    return turn ? std::move(*turn) : refused(turn.error());
  }
  if (what == "result") {
    const HostResult<void> taken = session_->take_result(request, guest_.host_memory());
    return taken ? answer_of(Value()) : refused(taken.error());
  }
  if (what == "file") {
    const auto parsed = read_json_for_guest(request, "the request", kAskLimits);
    if (!parsed) return refused(parsed.error());
    const auto path = parsed->find("path");
    if (path == parsed->end() || !path->is_string())
      return refused({Errno::kInvalid, "the path of the file is not a string", {}});
    HostResult<std::string> text = session_->read_file(path->get_ref<const std::string&>());
    return text ? answer_of(*std::move(text)) : refused(text.error());
  }
  if (what == "input") {
    HostResult<std::string> bytes = session_->read_input();
    return bytes ? answer_of(*std::move(bytes)) : refused(bytes.error());
  }
  if (what == "memory") return answer_of(static_cast<int64_t>(guest_.memory().size()));
  return refused(
      {Errno::kInvalid,
       "a session can be asked for its 'next', its 'input', a 'file' or its 'memory', or be given a 'result'",
       {}});
}

std::string Door::answer_files(std::string_view request) {
  auto answer = session_ == nullptr ? std::nullopt : session_->ask_files(request);
  if (!answer)
    return error_answer(
        HostError{Errno::kUnsupported, "the program's files are those of its WASI functions", {}});
  end_ = answer->end;
  return end_ == CallEnd::kReturn ? std::move(answer->json) : "";
}

std::string Door::answer_functions(std::string_view request, bool may_wait) {
  if (session_ == nullptr)
    return error_answer(HostError{Errno::kUnsupported, "there are no functions of the embedder", {}});
  was_of_turn_ = true;
  auto answer = session_->call_functions(request, may_wait);
  if (!answer) return error_answer(answer.error());
  end_ = answer->end;
  return end_ == CallEnd::kReturn ? std::move(answer->json) : "";
}

}  // namespace membrane::host
