#include "sandbox/guest_functions.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>

#include "base/hex.h"
#include "base/json.h"
#include "host/read_json.h"

namespace membrane::sandbox {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostCalls = 1'000;  // per request
constexpr size_t kHashText = 32;      // in a digest: of the functions, before that of the values

// "price", "shop.price": the identifiers of the program's language, so that gates, reports and traces agree on the
// name. Non-ASCII bytes may be letters.
bool is_name(std::string_view text) {
  constexpr size_t kLongest = 256;
  const auto is_of_name = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '$' || (c & 0x80) != 0;
  };
  bool is_part = false;
  for (const char c : text) {
    if (c == '.' ? !is_part : !is_of_name(c)) return false;
    is_part = c != '.';
  }
  return is_part && text.size() <= kLongest;
}

host::HostResult<FunctionCall> call_of(const Json& json) {
  const auto malformed = [](const char* what) { return host::refuse(host::Errno::kInvalid, what); };
  if (!json.is_object()) return malformed("a call of a function is not an object");
  FunctionCall call{.name = {}, .arguments = "[]", .keywords = "{}", .object = {}};
  for (const auto& [name, value] : json.items()) {
    if (name == "call" && value.is_string()) call.name = value.get<std::string>();
    else if (name == "arguments" && value.is_array()) call.arguments = json_text(value);
    else if (name == "keywords" && value.is_object()) call.keywords = json_text(value);
    else if (name == "object" && value.is_number_unsigned()) call.object = json_text(value);
    else return malformed("a call of a function has a name, arguments, keywords and an object");
  }
  if (!is_name(call.name)) return malformed("a call of a function has no name");
  return call;
}

// Starts with its bracket; summary_of() strips both brackets.
bool is_bare(std::string_view json, char bracket) { return json.size() >= 2 && json.front() == bracket; }

// The arguments, as JSON without the brackets.
std::string summary_of(const FunctionCall& call) {
  std::string text = call.arguments.substr(1, call.arguments.size() - 2);
  if (call.keywords.size() > 2)
    text += (text.empty() ? "" : ", ") + call.keywords.substr(1, call.keywords.size() - 2);
  return host::bounded_summary(std::move(text));
}

}  // namespace

bool is_identifier(std::string_view name) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  return !name.empty() && is_letter(name.front()) &&
         std::ranges::all_of(name, [&](char c) { return is_letter(c) || is_digit(c); });
}

// The digest of the functions, followed by that of the values, if there are any.
std::string digest_of(const std::string& description) {
  const auto hash_of = [](std::string_view text) {
    XXH128_canonical_t bytes;
    XXH128_canonicalFromHash(&bytes, XXH3_128bits(text.data(), text.size()));
    return hex_of(bytes.digest);
  };
  if (description.empty()) return "";
  auto parsed = read_json(description, "the functions");
  if (!parsed || !parsed->is_object()) return hash_of(description);
  std::string of_values;
  if (const auto values = parsed->find("values"); values != parsed->end()) {
    of_values = hash_of(json_text(*values));
    parsed->erase(values);
  }
  return hash_of(json_text(*parsed)) + of_values;
}

bool describes_values(std::string_view digest) { return digest.size() > kHashText; }

bool covers_description(std::string_view known, std::string_view given) {
  return (given.empty() || known.substr(0, kHashText) == given.substr(0, kHashText)) &&
         (describes_values(known) || !describes_values(given));
}

std::string add_description(std::string_view known, std::string_view given) {
  std::string all(given.substr(0, kHashText));
  if (const std::string_view values = describes_values(known) ? known : given; describes_values(values))
    all += values.substr(kHashText);
  return all;
}

bool is_waiting(const KeptCalls& calls) {
  return std::ranges::any_of(calls.answers, [](const FunctionAnswer& answer) {
    return answer.kind == FunctionAnswer::Kind::kLater;
  });
}

std::vector<FunctionCall> waiting_of(const std::optional<KeptCalls>& calls) {
  std::vector<FunctionCall> waiting;
  for (size_t i = 0; calls && i < calls->calls.size(); ++i)
    if (calls->answers[i].kind == FunctionAnswer::Kind::kLater) waiting.push_back(calls->calls[i]);
  return waiting;
}

bool fill_in(KeptCalls& calls, std::vector<FunctionAnswer> answers) {
  auto given = answers.begin();
  for (FunctionAnswer& answer : calls.answers)
    if (answer.kind == FunctionAnswer::Kind::kLater && given != answers.end()) answer = std::move(*given++);
  return given == answers.end();
}

std::vector<FunctionAnswer> answer_paid_calls(const GuestFunctions& functions, host::World& world,
                                              std::span<const FunctionCall> calls,
                                              const MustStop& must_stop) {
  size_t paid = 0;
  while (paid < calls.size() && world.take_host_call()) ++paid;
  std::vector<FunctionAnswer> answers;
  if (paid > 0) answers = functions.call(calls.first(paid), must_stop);
  answers.resize(paid, FunctionAnswer::error("", "the function has not answered"));
  answers.resize(calls.size(),
                 FunctionAnswer::error("", std::string(policy::used_up(policy::Resource::kHostCalls))));
  return answers;
}

host::HostResult<std::vector<FunctionCall>> read_function_calls(std::string_view request,
                                                                uint64_t memory_bytes) {
  MEMBRANE_ASSIGN(const Json parsed,
                  host::read_json_for_guest(request, "the request", {.memory_bytes = memory_bytes}));
  const auto calls = parsed.is_object() ? parsed.find("functions") : parsed.end();
  if (calls == parsed.end() || parsed.size() != 1 || !calls->is_array() || calls->empty())
    return host::refuse(host::Errno::kInvalid, R"(calls of functions are {"functions":[{"call":…},…]})");
  if (calls->size() > kMostCalls)
    return host::refuse(host::Errno::kTooBig,
                        "more than " + std::to_string(kMostCalls) + " functions are called at once");
  std::vector<FunctionCall> all;
  for (const Json& each : *calls) {
    MEMBRANE_ASSIGN(FunctionCall call, call_of(each));
    all.push_back(std::move(call));
  }
  return all;
}

bool are_sound(std::span<const FunctionCall> calls) {
  return !calls.empty() && calls.size() <= kMostCalls &&
         std::ranges::all_of(calls, [](const FunctionCall& call) {
           const auto arguments = read_json(call.arguments), keywords = read_json(call.keywords);
           const auto object = call.object.empty() ? Result<Json>(0u) : read_json(call.object);
           return is_name(call.name) && is_bare(call.arguments, '[') && arguments && arguments->is_array() &&
                  is_bare(call.keywords, '{') && keywords && keywords->is_object() && object &&
                  object->is_number_unsigned();
         });
}

std::string write_function_answers(std::span<const FunctionAnswer> answers) {
  std::string text = R"({"answers":[)";
  for (const FunctionAnswer& each : answers) {
    if (text.back() != '[') text += ',';
    const bool is_value = each.kind == FunctionAnswer::Kind::kValue;
    if (is_value && check_json(each.value, "the value", {.bytes = host::kMaxResultBytes})) {
      text += R"({"value":)" + each.value + '}';
      continue;
    }
    const bool is_error = each.kind == FunctionAnswer::Kind::kError;
    const Json error = {{"type", is_error ? each.type : ""},
                        {"message", is_error   ? each.message
                                    : is_value ? "the function's value is not JSON"
                                               : "the function has not answered"}};
    text += R"({"error":)" + json_text(error) + '}';
  }
  return text + "]}";
}

host::CallRecord line_of(const FunctionCall& call, const FunctionAnswer& answer, uint64_t latency_us) {
  const bool has_failed = answer.kind != FunctionAnswer::Kind::kValue;
  return {.name = call.name,
          .code = has_failed ? host::Errno::kHost : host::Errno::kOk,
          .reason = has_failed ? host::bounded_reason(answer.message) : "",
          .arguments = summary_of(call),
          .bytes_in = answer.value.size(),
          .bytes_out = call.arguments.size() + call.keywords.size(),
          .latency_us = latency_us};
}

}  // namespace membrane::sandbox
