#include "service/operations.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/json.h"
#include "base/json_grammar.h"
#include "base/text.h"
#include "base/utf8.h"
#include "service/schema.h"

namespace membrane::service {

using Json = nlohmann::json;

namespace {

constexpr JsonLimits kBodyLimits = {
    .bytes = 64u << 20, .depth = 64, .values = 100'000, .memory_bytes = 256u << 20};
constexpr const char* kMethods[] = {"get", "put", "post", "patch", "delete"};

struct Parameter {
  std::string name;
  bool is_required = false;
  bool is_prefix = false;  // for names that the request chooses: "metadata." of "metadata.NAME"
  Schema schema;

  [[nodiscard]] bool has(std::string_view given) const {
    return is_prefix ? given.starts_with(name) && given.size() > name.size() : given == name;
  }
};

struct Rules {
  std::vector<Parameter> query;
  std::optional<Schema> body;
};

bool is_parameter(std::string_view segment) { return segment.starts_with('{') && segment.ends_with('}'); }

std::vector<std::string> segments_of(std::string_view path) {
  std::vector<std::string> segments;
  while (path.starts_with('/')) {
    path.remove_prefix(1);
    const size_t end = std::min(path.find('/'), path.size());
    segments.emplace_back(path.substr(0, end));
    path.remove_prefix(end);
  }
  return segments;
}

// "application/json; charset=utf-8" is JSON.
bool is_json_type(std::string_view type) {
  const std::string name = lower_case(trimmed(type.substr(0, type.find(';'))));
  return name == "application/json" || name.ends_with("+json");
}

// Describes where a body stops being JSON; for a body that is JSON but invalid, "".
std::string json_hint(std::string_view body) {
  if (body.empty()) return "It is empty; send an object, as {}.";
  if (is_json(body)) return "";
  if (!is_utf8(body)) return "It is not UTF-8.";
  const size_t at = json_bytes(body);
  const std::string_view before = body.substr(0, at);
  const auto line = std::ranges::count(before, '\n') + 1;
  const size_t column = at - (before.rfind('\n') + 1) + 1;  // npos + 1 is 0
  return (at == body.size() ? "It ends too early, in line " : "It stops being JSON in line ") +
         std::to_string(line) + ", column " + std::to_string(column) +
         ". Names and texts are in double quotes.";
}

// "host_call" of the report's definitions is "ReportHostCall" among the document's schemas.
std::string component_named(std::string_view definition) {
  std::string name = "Report";
  bool is_first = true;
  for (const char c : definition) {
    if (c != '_') name += is_first && c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
    is_first = c == '_';
  }
  return name;
}

// Makes the report's schema one of the document's, and updates its own references.
void move_references(Json& schema) {
  if (schema.is_array())
    for (Json& each : schema) move_references(each);
  if (!schema.is_object()) return;
  for (auto& [name, value] : schema.items()) {
    constexpr std::string_view kOwn = "#/$defs/";
    if (name == "$ref" && value.is_string() && value.get_ref<const std::string&>().starts_with(kOwn))
      value = "#/components/schemas/" + component_named(value.get<std::string>().substr(kOwn.size()));
    else move_references(value);
  }
}

// Report, and each of its named parts: client generators follow no reference into a schema. It is open,
// since ExecReport adds fields to it, and closes the whole.
void add_report(Json report, nlohmann::ordered_json& schemas) {
  report.erase("$schema");
  report.erase("additionalProperties");
  Json& outcome = report["properties"]["outcome"];
  report["$defs"]["outcome"] = std::exchange(outcome, Json::object({{"$ref", "#/$defs/outcome"}}));
  move_references(report);
  for (auto& [name, part] : report["$defs"].items()) schemas[component_named(name)] = std::move(part);
  report.erase("$defs");
  schemas["Report"] = std::move(report);
}

}  // namespace

struct Operations::Impl {
  Json json;
  std::string text;
  std::vector<Operation> operations;
  std::vector<std::vector<std::string>> segments;  // of each operation
  std::vector<Rules> rules;                        // of each operation

  Status read_operation(const std::string& path, const char* method, const Json& described);
  Status read_parameters(const Json& described, Rules& rules) const;
  Status read_request_body(const Json& body, Operation& operation, Rules& rules) const;
  [[nodiscard]] const Json& at(const Json& reference) const {
    return reference.contains("$ref")
               ? json[Json::json_pointer(reference["$ref"].get_ref<const std::string&>().substr(1))]
               : reference;
  }
};

Status Operations::Impl::read_parameters(const Json& described, Rules& rule) const {
  for (const Json& reference : described) {
    const Json& parameter = at(reference);
    if (parameter["in"] != "query") continue;
    MEMBRANE_ASSIGN(Schema schema, Schema::make(parameter["schema"], json));
    std::string name = parameter["name"];
    const bool is_prefix = parameter.value("x-any-name", false);
    if (is_prefix) name.resize(name.find('.') + 1);
    rule.query.push_back({std::move(name), parameter.value("required", false), is_prefix, std::move(schema)});
  }
  return {};
}

Status Operations::Impl::read_request_body(const Json& body, Operation& operation, Rules& rule) const {
  operation.needs_body = body.value("required", false);
  operation.most_body_bytes = body.value("x-most-body-bytes", uint64_t{1} << 20);
  const Json& content = body["content"];
  if (const auto as_json = content.find("application/json"); as_json != content.end()) {
    operation.body = BodyForm::kJson;
    MEMBRANE_ASSIGN(rule.body, Schema::make((*as_json)["schema"], json));
  } else {
    operation.body = BodyForm::kBytes;
  }
  return {};
}

Status Operations::Impl::read_operation(const std::string& path, const char* method, const Json& described) {
  constexpr uint64_t kMostIgnoredBytes = 64u << 10;
  Operation operation;
  operation.most_body_bytes = kMostIgnoredBytes;
  Rules rule;
  operation.id = described["operationId"];
  operation.method = method;
  std::ranges::transform(operation.method, operation.method.begin(),
                         [](char c) { return static_cast<char>(c - 32); });
  operation.path = path;
  operation.number = operations.size();
  const Json& security = described.contains("security") ? described["security"] : json["security"];
  if (!security.empty()) {
    const Json& scopes = security[0]["token"];
    operation.scope = scopes.empty() ? std::string() : scopes[0].get<std::string>();
  }
  if (described.contains("parameters")) MEMBRANE_TRY(read_parameters(described["parameters"], rule));
  if (described.contains("requestBody"))
    MEMBRANE_TRY(read_request_body(at(described["requestBody"]), operation, rule));
  operations.push_back(std::move(operation));
  segments.push_back(segments_of(path));
  rules.push_back(std::move(rule));
  return {};
}

Operations::Operations(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Operations::Operations(Operations&&) noexcept = default;
Operations::~Operations() = default;

Result<Operations> Operations::read(std::string_view openapi, std::string_view report_schema) {
  auto impl = std::make_unique<Impl>();
  MEMBRANE_ASSIGN(auto ordered, read_ordered_json(openapi, "openapi.json"));
  MEMBRANE_ASSIGN(Json report, read_json(report_schema, "report.schema.json"));
  add_report(std::move(report), ordered["components"]["schemas"]);
  impl->text = json_text(ordered);
  MEMBRANE_ASSIGN(impl->json, read_json(impl->text, "openapi.json"));
  for (const auto& [path, methods] : impl->json["paths"].items())
    for (const char* const method : kMethods)
      if (methods.contains(method)) MEMBRANE_TRY(impl->read_operation(path, method, methods[method]));
  return Operations(std::move(impl));
}

const std::vector<Operation>& Operations::all() const { return impl_->operations; }
const std::string& Operations::document() const { return impl_->text; }

Operations::Match Operations::match(std::string_view method, const std::vector<std::string>& segments) const {
  Match match;
  size_t fewest_parameters = SIZE_MAX;  // "/keys/rotate" does not match "/keys/{key}", whatever the method
  const std::string_view wanted = method == "HEAD" ? "GET" : method;
  for (const Operation& operation : impl_->operations) {
    const std::vector<std::string>& pattern = impl_->segments[operation.number];
    const auto fits = [](const std::string& expected, const std::string& given) {
      return is_parameter(expected) ? !given.empty() : expected == given;
    };
    if (!std::ranges::equal(pattern, segments, fits)) continue;
    const auto parameters = static_cast<size_t>(std::ranges::count_if(pattern, is_parameter));
    if (parameters > fewest_parameters) continue;
    if (parameters < fewest_parameters) match = {};
    fewest_parameters = parameters;
    match.allowed_methods += (match.allowed_methods.empty() ? "" : ", ") + operation.method;
    if (operation.method != wanted) continue;
    match.operation = &operation;
    match.parameters.clear();
    for (size_t i = 0; i < pattern.size(); ++i)
      if (is_parameter(pattern[i]))
        match.parameters.emplace_back(pattern[i].substr(1, pattern[i].size() - 2), segments[i]);
  }
  return match;
}

Answer<void> Operations::check_query(const Operation& operation, const RequestHead& head) const {
  const Rules& rule = impl_->rules[operation.number];
  std::map<std::string_view, int> given;
  for (const auto& [name, text] : head.query) {
    const auto known =
        std::ranges::find_if(rule.query, [&](const Parameter& parameter) { return parameter.has(name); });
    if (known == rule.query.end())
      return refuse(ApiCode::kInvalidRequest, "there is no query parameter \"" + name + "\"",
                    "GET /openapi.json describes " + operation.id + ".");
    if (++given[name] > 1)
      return refuse(ApiCode::kInvalidRequest, "the query parameter \"" + name + "\" is given twice",
                    "Give it once.");
    if (const auto wrong = known->schema.check(known->schema.read_text(text)))
      return refuse(ApiCode::kInvalidValue, "the query parameter \"" + name + "\" " + wrong->message, "");
  }
  for (const Parameter& parameter : rule.query)
    if (parameter.is_required && !given.contains(parameter.name))
      return refuse(ApiCode::kInvalidRequest, "the query parameter \"" + parameter.name + "\" is missing",
                    "GET /openapi.json describes " + operation.id + ".");
  return {};
}

Answer<Json> Operations::read_body(const Operation& operation, const Request& request) const {
  if (request.body.empty() && !operation.needs_body) return Json();
  if (operation.body == BodyForm::kNone) {
    const auto given = read_json(request.body, "the body", kBodyLimits);
    if (given && given->is_object() && given->empty()) return Json();
    return refuse(ApiCode::kInvalidRequest, operation.method + " " + operation.path + " takes no body",
                  "Send none, or {}.");
  }
  const auto type = request.headers.find("Content-Type");
  if (type && !is_json_type(*type))
    return refuse(ApiCode::kUnsupportedMediaType,
                  "the body is read as JSON, and its type is " + std::string(*type),
                  "Send it with Content-Type: application/json.");
  auto json = read_json(request.body, "the body", kBodyLimits);
  if (!json) {
    const bool is_long = json.error().code == ErrorCode::kTooLong;
    return refuse(
        is_long ? ApiCode::kTooLarge : ApiCode::kInvalidRequest, json.error().message,
        json.error().message.ends_with("is not JSON") ? json_hint(request.body) : json.error().hint);
  }
  const std::optional<Schema>& schema = impl_->rules[operation.number].body;
  if (!schema) return *std::move(json);
  if (const auto wrong = schema->check(*json))
    return refuse(ApiCode::kInvalidValue,
                  (wrong->field.empty() ? "the body" : "\"" + wrong->field + "\"") + " " + wrong->message,
                  (wrong->meant.empty() ? "" : "Did you mean " + wrong->meant + "? ") +
                      "GET /openapi.json describes " + operation.id + ".");
  return *std::move(json);
}

}  // namespace membrane::service
