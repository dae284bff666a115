#include "host/door.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/base64.h"
#include "base/utf8.h"
#include "host/json_size.h"

namespace membrane::host {
namespace {

using nlohmann::json;

// Past it a double has no place for every integer.
constexpr int64_t kMaxPlainInteger = 1ll << 53;
// {"call":…, "arguments":[{"base64":…}]} is no deeper, and has no more values.
constexpr size_t kMaxCallDepth = 3;
constexpr size_t kMaxCallValues = 64;

// --- reading -----------------------------------------------------------------------------

// Which kind of request it is: the first member's name, and its value where that is a text.
struct Kind {
  std::string name;
  std::string text;
};

// Stops at the first member's value, so that a session's result is parsed by who wants it.
class FirstMember : public json::json_sax_t {
 public:
  Kind kind;

  bool start_object(size_t) override { return ++depth_ == 1; }
  bool key(string_t& name) override {
    kind.name = std::move(name);
    return true;
  }
  bool string(string_t& text) override {
    if (depth_ == 1) kind.text = std::move(text);
    return false;
  }
  bool null() override { return false; }
  bool boolean(bool) override { return false; }
  bool number_integer(number_integer_t) override { return false; }
  bool number_unsigned(number_unsigned_t) override { return false; }
  bool number_float(number_float_t, const string_t&) override { return false; }
  bool binary(binary_t&) override { return false; }
  bool end_object() override { return false; }
  bool start_array(size_t) override { return false; }
  bool end_array() override { return false; }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

 private:
  int depth_ = 0;
};

HostResult<json> parse_call(std::string_view request) {
  const JsonSize size = measure_json(request);
  if (size.depth > kMaxCallDepth || size.values > kMaxCallValues)
    return refuse(Errno::kInvalid, "the request has more in it than a call has");
  json parsed = json::parse(request, nullptr, false);
  if (parsed.is_discarded()) return refuse(Errno::kInvalid, "the request is not JSON");
  for (const auto& [name, value] : parsed.items()) {
    if (name != "call" && name != "arguments")
      return refuse(Errno::kInvalid, "a call has no '" + utf8_repair(name) + "'");
  }
  return parsed;
}

// The text of {"base64":"…"} and the like: an object with this one member.
const std::string* only_member(const json& value, const char* name) {
  if (!value.is_object() || value.size() != 1 || !value.contains(name)) return nullptr;
  return value[name].get_ptr<const std::string*>();
}

HostResult<std::string> string_of(const json& value) {
  if (const auto* text = value.get_ptr<const std::string*>()) return *text;
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

// The slot of a number, as the engine has it; of a string its bytes, in `string`.
HostResult<uint64_t> slot_of(Type type, const json& value, std::string& string) {
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
HostResult<Arguments> arguments_of(const FunctionSpec& function, const json& values,
                                   std::array<std::string, kMaxParams>& strings) {
  if (!values.is_array()) return refuse(Errno::kInvalid, "the arguments are not an array");
  if (values.size() != function.params.size())
    return refuse(Errno::kInvalid, signature_of(function) + " takes " +
                                       std::to_string(function.params.size()) + " arguments, not " +
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

std::string answer_of(json value) { return json{{"value", std::move(value)}}.dump(); }

std::string answer_of(const HostError& error) {
  return json{{"error",
               {{"errno", name_of(error.code)},
                {"number", static_cast<int>(error.code)},
                {"message", utf8_repair(error.reason)},
                {"grant", utf8_repair(error.grant)}}}}
      .dump();
}

// What is not there, and what was probably meant.
HostError unknown(const std::string& name) {
  const auto selection = select(name);
  if (selection) return {Errno::kInvalid, name + " is a capability, and not a function of it", {}};
  return {Errno::kNotFound, selection.error().message + ". " + selection.error().hint, {}};
}

const FunctionSpec* function_named(std::string_view name) {
  const size_t dot = name.find('.');
  return dot == std::string_view::npos ? nullptr : find_function(name.substr(0, dot), name.substr(dot + 1));
}

}  // namespace

std::string Door::answer(std::string_view request) {
  end_ = CallEnd::kReturn;
  std::string answer;
  // Parsing takes memory, and libraries throw where there is none.
  try {
    answer = answer_any(request);
  } catch (const std::bad_alloc&) {
    answer = answer_of(HostError{Errno::kNoMemory, "the host has no memory for the request", {}});
  }
  // What was not done is not paid for: it is asked again.
  if (end_ != CallEnd::kOutOfFuel) guest_.owe(kCost.base + kCost.per_byte * (request.size() + answer.size()));
  return answer;
}

std::string Door::answer_any(std::string_view request) {
  if (request.size() > kMaxRequestBytes)
    return answer_of(HostError{Errno::kTooBig, "the request is larger than 128 MiB", {}});
  FirstMember first;
  json::sax_parse(request, &first);
  if (first.kind.name == "call" || first.kind.name == "arguments") return answer_call(request);
  if (first.kind.name == "session") return answer_session(first.kind.text, request);
  if (first.kind.name == "registry" && json::parse(request, nullptr, false) == json{{"registry", true}})
    return capabilities_json();
  return answer_of(HostError{
      Errno::kInvalid, R"(a request is {"call":…,"arguments":[…]}, {"registry":true} or {"session":…})", {}});
}

std::string Door::answer_call(std::string_view request) {
  const HostResult<json> parsed = parse_call(request);
  if (!parsed) return answer_of(parsed.error());
  const auto name = parsed->find("call");
  if (name == parsed->end() || !name->is_string())
    return answer_of(HostError{Errno::kInvalid, "the name of the call is not a string", {}});
  const FunctionSpec* function = function_named(name->get_ref<const std::string&>());
  if (function == nullptr) return answer_of(unknown(name->get_ref<const std::string&>()));
  std::array<std::string, kMaxParams> strings;
  ValueOutcome outcome = dispatcher_.call(
      *function, arguments_of(*function, parsed->value("arguments", json::array()), strings));
  end_ = outcome.end;
  if (end_ != CallEnd::kReturn) return "";
  return outcome.value ? answer_of(json_of(std::move(*outcome.value))) : answer_of(outcome.value.error());
}

std::string Door::answer_session(std::string_view what, std::string_view request) {
  if (session_ == nullptr)
    return answer_of(HostError{Errno::kUnsupported, "there is no session: the program runs by itself", {}});
  if (what == "next") {
    HostResult<std::string> turn = session_->next();
    return turn ? std::move(*turn) : answer_of(turn.error());
  }
  if (what == "result") {
    const HostResult<void> taken = session_->take_result(request);
    return taken ? answer_of(json()) : answer_of(taken.error());
  }
  if (what == "file") {
    const json parsed = json::parse(request, nullptr, false);
    const auto path = parsed.is_object() ? parsed.find("path") : parsed.end();
    if (path == parsed.end() || !path->is_string())
      return answer_of(HostError{Errno::kInvalid, "the path of the file is not a string", {}});
    HostResult<std::string> text = session_->read_file(path->get_ref<const std::string&>());
    return text ? answer_of(json_of(*std::move(text))) : answer_of(text.error());
  }
  return answer_of(
      HostError{Errno::kInvalid, "a session is asked for its 'next' or a 'file', or told a 'result'", {}});
}

}  // namespace membrane::host
