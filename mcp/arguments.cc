#include "mcp/arguments.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "base/utf8.h"
#include "lang/language_names.h"
#include "policy/names.h"

namespace membrane::mcp {
namespace {

std::string list_of(std::span<const std::string> words) {
  return policy::enumerate(std::vector<std::string_view>(words.begin(), words.end()));
}

// "a string", "one of js, python and wat", "an integer from 1 to 8".
std::string expected(const Parameter& parameter) {
  switch (parameter.type) {
    case ParameterType::kText:
    case ParameterType::kLanguage:
      return parameter.choices.empty() ? "a string" : "one of " + list_of(parameter.choices);
    case ParameterType::kInteger:
      return "an integer from " + std::to_string(parameter.least) + " to " + std::to_string(parameter.most);
    case ParameterType::kTexts: return "a list of strings";
    case ParameterType::kFlag: return "true or false";
  }
  return "";
}

// The value that was sent, short enough for a sentence.
std::string shown(const Json& value) {
  constexpr size_t kMost = 60;
  if (value.is_structured()) return value.is_array() ? "a list" : "an object";
  if (value.is_string() && value.get_ref<const std::string&>().size() > kMost) return "a longer text";
  const std::string text = json_text(value);
  return text.size() > kMost ? text.substr(0, utf8_cut(text, kMost)) + "…" : text;
}

bool fits(const Parameter& parameter, Json& value) {
  switch (parameter.type) {
    case ParameterType::kText:
      return value.is_string() &&
             (parameter.choices.empty() ||
              std::ranges::find(parameter.choices, value.get_ref<const std::string&>()) !=
                  parameter.choices.end());
    case ParameterType::kLanguage: {
      if (!value.is_string()) return false;
      std::string name = chosen_language(value.get_ref<const std::string&>(), parameter.choices);
      if (name.empty()) return false;
      value = std::move(name);
      return true;
    }
    case ParameterType::kInteger:
      if (value.is_number_unsigned()) {
        const auto number = value.get<uint64_t>();
        return parameter.least <= 0 ? number <= static_cast<uint64_t>(parameter.most)
                                    : number >= static_cast<uint64_t>(parameter.least) &&
                                          number <= static_cast<uint64_t>(parameter.most);
      }
      return value.is_number_integer() && value.get<int64_t>() >= parameter.least &&
             value.get<int64_t>() <= parameter.most;
    case ParameterType::kTexts:
      return value.is_array() &&
             std::ranges::all_of(value, [](const Json& each) { return each.is_string(); });
    case ParameterType::kFlag: return value.is_boolean();
  }
  return false;
}

OrderedJson schema_of(const Parameter& parameter) {
  OrderedJson schema;
  switch (parameter.type) {
    case ParameterType::kText:
    case ParameterType::kLanguage:
      schema["type"] = "string";
      if (!parameter.choices.empty()) schema["enum"] = parameter.choices;
      break;
    case ParameterType::kInteger:
      schema["type"] = "integer";
      schema["minimum"] = parameter.least;
      schema["maximum"] = parameter.most;
      break;
    case ParameterType::kTexts:
      schema["type"] = "array";
      schema["items"] = {{"type", "string"}};
      break;
    case ParameterType::kFlag: schema["type"] = "boolean"; break;
  }
  schema["description"] = parameter.description;
  return schema;
}

}  // namespace

std::string chosen_language(std::string_view word, std::span<const std::string> choices) {
  const std::string lower = lower_case(word);
  const auto has = [&](std::string_view name) { return std::ranges::find(choices, name) != choices.end(); };
  if (has(lower)) return lower;
  if (lang::is_typescript(lower)) return has("typescript") ? "typescript" : "";
  if (std::string name = lang::language_named(lower); has(name)) return name;
  return has(word) ? std::string(word) : "";
}

OrderedJson schema_of(std::span<const Parameter> parameters) {
  OrderedJson schema = {{"type", "object"}, {"properties", OrderedJson::object()}};
  OrderedJson required = OrderedJson::array();
  for (const Parameter& parameter : parameters) {
    schema["properties"][parameter.name] = schema_of(parameter);
    if (parameter.is_required) required.push_back(parameter.name);
  }
  if (!required.empty()) schema["required"] = std::move(required);
  schema["additionalProperties"] = false;
  return schema;
}

Result<Arguments> Arguments::check(Json sent, std::span<const Parameter> parameters) {
  constexpr size_t kMostUnknown = 8;
  std::string wrong;
  size_t unknown = 0;
  std::vector<std::string_view> names;
  for (const Parameter& parameter : parameters) names.emplace_back(parameter.name);
  for (const auto& [name, value] : sent.items()) {
    if (std::ranges::find(names, name) != names.end() || ++unknown > kMostUnknown) continue;
    wrong += "There is no argument " + shown(Json(name)) + ": " +
             (names.empty() ? "this tool takes none." : policy::suggest(name, names)) + "\n";
  }
  for (const Parameter& parameter : parameters) {
    const auto found = sent.find(parameter.name);
    const bool is_given = found != sent.end() && !found->is_null();
    if (!is_given) {
      if (found != sent.end()) sent.erase(found);
      if (parameter.is_required)
        wrong += "\"" + parameter.name + "\" is missing, and must be " + expected(parameter) + " (" +
                 parameter.description + ").\n";
      continue;
    }
    if (!fits(parameter, *found))
      wrong +=
          "\"" + parameter.name + "\" is " + shown(*found) + ", and must be " + expected(parameter) + ".\n";
  }
  if (wrong.empty()) return Arguments(std::move(sent));
  wrong.pop_back();
  return fail(ErrorCode::kInvalidArgument, std::move(wrong), "Fix this and call the tool again.");
}

std::string Arguments::text(std::string_view name, std::string_view otherwise) const {
  const auto found = values_.find(name);
  return found == values_.end() ? std::string(otherwise) : found->get<std::string>();
}

std::optional<int64_t> Arguments::integer(std::string_view name) const {
  const auto found = values_.find(name);
  if (found == values_.end()) return std::nullopt;
  return found->get<int64_t>();
}

bool Arguments::flag(std::string_view name) const {
  const auto found = values_.find(name);
  return found != values_.end() && found->get<bool>();
}

std::vector<std::string> Arguments::texts(std::string_view name) const {
  const auto found = values_.find(name);
  if (found == values_.end()) return {};
  return found->get<std::vector<std::string>>();
}

}  // namespace membrane::mcp
