#include "service/schema.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "base/diagnostic.h"
#include "base/utf8.h"

namespace membrane::service {
namespace {

using Json = nlohmann::json;

constexpr double kMostExact =
    9'007'199'254'740'992;       // 2^53: 1e3 is an integer, 1e300 is none that a caller means
constexpr int kMostLevels = 32;  // of schemas inside each other

constexpr std::string_view kKeywords[] = {
    "type",          "properties",    "required",      "additionalProperties",
    "propertyNames", "minProperties", "maxProperties", "items",
    "minItems",      "maxItems",      "uniqueItems",   "enum",
    "minimum",       "maximum",       "minLength",     "maxLength",
    "$ref",          "title",         "description",   "default",
    "examples",      "format"};

// The schema itself, if it is not a reference. References were followed once, when the schema was made.
const Json* followed(const Json& schema, const Json& document) {
  const Json* at = &schema;
  for (int steps = 0; at->is_object() && at->contains("$ref"); ++steps) {
    const auto& to = (*at)["$ref"].get_ref<const std::string&>();
    if (steps == kMostLevels || !to.starts_with("#/")) return nullptr;
    const Json::json_pointer pointer(to.substr(1));
    if (!document.contains(pointer)) return nullptr;
    at = &document[pointer];
  }
  return at;
}

Status check_keywords(const Json& schema, const Json& document, int levels) {
  if (schema.is_boolean()) return {};
  const Json* const at = levels < kMostLevels ? followed(schema, document) : nullptr;
  if (at == nullptr || !at->is_object())
    return fail(ErrorCode::kInvalidInput, "a reference in openapi.json is not resolved: " + schema.dump());
  for (const auto& [keyword, value] : at->items()) {
    if (std::ranges::find(kKeywords, keyword) == std::end(kKeywords))
      return fail(ErrorCode::kInvalidInput, "openapi.json has a keyword that is not checked: " + keyword);
    if (keyword == "items" || keyword == "additionalProperties")
      MEMBRANE_TRY(check_keywords(value, document, levels + 1));
    if (keyword == "properties")
      for (const auto& [name, property] : value.items())
        MEMBRANE_TRY(check_keywords(property, document, levels + 1));
  }
  return {};
}

bool is_of_type(const Json& value, std::string_view type) {
  if (type == "string") return value.is_string();
  if (type == "integer") {
    if (!value.is_number_float()) return value.is_number_integer();
    const double number = value.get<double>();
    return std::abs(number) <= kMostExact && std::trunc(number) == number;
  }
  if (type == "number") return value.is_number();
  if (type == "boolean") return value.is_boolean();
  if (type == "array") return value.is_array();
  if (type == "object") return value.is_object();
  return type == "null" && value.is_null();
}

std::string with_article(std::string_view type) {
  const bool has_vowel = type == "integer" || type == "array" || type == "object";
  return (has_vowel ? "an " : "a ") + std::string(type);
}

std::string types_of(const Json& type) {
  if (type.is_string()) return with_article(type.get_ref<const std::string&>());
  std::string all;
  for (const Json& each : type) {
    const auto& name = each.get_ref<const std::string&>();
    all += (all.empty() ? "" : " or ") + (name == "null" ? name : with_article(name));
  }
  return all;
}

size_t characters_of(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(text, begins_character));
}

class Checker {
 public:
  explicit Checker(const Json& document) : document_(document) {}

  std::optional<Violation> check(const Json& schema, const Json& value, const std::string& field) const {
    if (schema.is_boolean())
      return schema.get<bool>() ? std::nullopt : std::optional(Violation{field, "is not known"});
    const Json& rules = *followed(schema, document_);
    if (const auto type = rules.find("type"); type != rules.end() && !has_type(value, *type))
      return Violation{field, "must be " + types_of(*type) + ", and is " + kind_of(value)};
    if (const auto known = rules.find("enum"); known != rules.end())
      if (std::ranges::find(*known, value) == known->end())
        return Violation{field, "must be one of " + known->dump(), meant_by(value, *known)};
    if (value.is_string()) return check_string(rules, value, field);
    if (value.is_number()) return check_number(rules, value, field);
    if (value.is_array()) return check_array(rules, value, field);
    if (value.is_object()) return check_object(rules, value, field);
    return std::nullopt;
  }

 private:
  static std::string nearest_of(std::string_view name, const Json& properties) {
    std::vector<std::string> names;
    for (const auto& [known, rules] : properties.items()) names.push_back(known);
    return std::string(nearest(name, {names.begin(), names.end()}));
  }
  static std::string meant_by(const Json& value, const Json& choices) {
    std::vector<std::string_view> names;
    for (const Json& each : choices)
      if (each.is_string()) names.emplace_back(each.get_ref<const std::string&>());
    return value.is_string() ? std::string(nearest(value.get_ref<const std::string&>(), names)) : "";
  }

  static std::string kind_of(const Json& value) {
    return value.is_null() ? "null" : with_article(value.type_name());
  }

  static bool has_type(const Json& value, const Json& type) {
    if (type.is_string()) return is_of_type(value, type.get_ref<const std::string&>());
    return std::ranges::any_of(
        type, [&](const Json& each) { return is_of_type(value, each.get_ref<const std::string&>()); });
  }

  // For a bounded count: "must have 1 to 64 characters".
  static std::optional<Violation> check_count(const Json& rules, const char* least, const char* most,
                                              size_t count, const std::string& field,
                                              const std::string& unit) {
    if (const auto bound = rules.find(least); bound != rules.end() && count < bound->get<size_t>())
      return Violation{field, "must have at least " + bound->dump() + " " + unit};
    if (const auto bound = rules.find(most); bound != rules.end() && count > bound->get<size_t>())
      return Violation{field, "must have at most " + bound->dump() + " " + unit};
    return std::nullopt;
  }

  static std::optional<Violation> check_string(const Json& rules, const Json& value,
                                               const std::string& field) {
    return check_count(rules, "minLength", "maxLength", characters_of(value.get_ref<const std::string&>()),
                       field, "characters");
  }

  static std::optional<Violation> check_number(const Json& rules, const Json& value,
                                               const std::string& field) {
    if (const auto bound = rules.find("minimum"); bound != rules.end() && value < *bound)
      return Violation{field, "must be at least " + bound->dump()};
    if (const auto bound = rules.find("maximum"); bound != rules.end() && value > *bound)
      return Violation{field, "must be at most " + bound->dump()};
    return std::nullopt;
  }

  std::optional<Violation> check_array(const Json& rules, const Json& value, const std::string& field) const {
    if (auto wrong = check_count(rules, "minItems", "maxItems", value.size(), field, "items")) return wrong;
    if (rules.value("uniqueItems", false) &&
        std::set<Json>(value.begin(), value.end()).size() != value.size())
      return Violation{field, "must not have the same item twice"};
    const auto items = rules.find("items");
    if (items == rules.end()) return std::nullopt;
    for (size_t i = 0; i < value.size(); ++i)
      if (auto wrong = check(*items, value[i], field + "[" + std::to_string(i) + "]")) return wrong;
    return std::nullopt;
  }

  std::optional<Violation> check_object(const Json& rules, const Json& value,
                                        const std::string& field) const {
    if (auto wrong = check_count(rules, "minProperties", "maxProperties", value.size(), field, "members"))
      return wrong;
    const auto inside = [&](const std::string& name) { return field.empty() ? name : field + "." + name; };
    if (const auto required = rules.find("required"); required != rules.end())
      for (const Json& name : *required)
        if (!value.contains(name.get_ref<const std::string&>()))
          return Violation{inside(name.get_ref<const std::string&>()), "is missing"};
    const auto properties = rules.find("properties");
    const auto names = rules.find("propertyNames");
    const auto others = rules.find("additionalProperties");
    for (const auto& [name, member] : value.items()) {
      if (names != rules.end())
        if (auto wrong = check_string(*names, name, inside("(a name)"))) return wrong;
      const bool is_known = properties != rules.end() && properties->contains(name);
      if (!is_known && others == rules.end()) continue;
      auto wrong = check(is_known ? (*properties)[name] : *others, member, inside(name));
      if (wrong && !is_known && *others == Json(false) && properties != rules.end())
        wrong->meant = nearest_of(name, *properties);
      if (wrong) return wrong;
    }
    return std::nullopt;
  }

  const Json& document_;
};

}  // namespace

Result<Schema> Schema::make(const Json& schema, const Json& document) {
  MEMBRANE_TRY(check_keywords(schema, document, 0));
  return Schema(schema, document);
}

std::optional<Violation> Schema::check(const Json& value) const {
  return Checker(*document_).check(*schema_, value, "");
}

Json Schema::read_text(std::string_view text) const {
  const std::string type = followed(*schema_, *document_)->value("type", "string");
  if (type == "boolean" && (text == "true" || text == "false")) return text == "true";
  if (type == "integer") {
    int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error == std::errc() && end == text.data() + text.size()) return number;
  }
  return std::string(text);
}

}  // namespace membrane::service
