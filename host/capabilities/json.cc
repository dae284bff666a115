// json: reading and building JSON without a parser in the program.
//
// Each call parses the document again; its size and its depth are bounded, so that neither memory nor the stack can
// be exhausted.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "host/capabilities/all.h"
#include "host/capabilities/call.h"
#include "host/capabilities/read_json.h"
#include "host/text/json_path.h"

namespace membrane::host {
namespace {

using json = nlohmann::ordered_json;  // the output keeps the order of the input

HostResult<json> parse(const Call& call, size_t argument, std::string_view what = "the text") {
  const std::string_view text = call.text(argument);
  HostResult<json> document = as_host_result(read_ordered_json(text, what, json_limits(call)));
  if (!document && document.error().code == Errno::kInvalid && measure_json(text).depth <= kMaxJsonDepth)
    document.error().reason += "; it starts: " + (text.empty() ? "(empty)" : std::string(text.substr(0, 40)));
  return document;
}

std::string text_of(const json& value) {
  return value.is_string() ? value.get<std::string>() : json_text(value);
}

// The index that the step selects in an array of this size; `size` or more when there is none.
size_t index_in(const PathStep& step, size_t size) {
  const int64_t index =
      step.index < 0 && step.is_index ? step.index + static_cast<int64_t>(size) : step.index;
  return index < 0 ? std::numeric_limits<size_t>::max() : static_cast<size_t>(index);
}

// Null when it does not exist.
json* child_of(json& value, const PathStep& step) {
  if (value.is_object() && !step.is_index) {
    const auto found = value.find(step.name);
    return found == value.end() ? nullptr : &*found;
  }
  if (value.is_array() && step.has_index) {
    const size_t index = index_in(step, value.size());
    return index < value.size() ? &value[index] : nullptr;
  }
  return nullptr;
}

std::unexpected<HostError> missing(const PathStep& step, const json& in) {
  return refuse(Errno::kNotFound, "there is no '" + step.name + "' in the " + in.type_name());
}

HostResult<json*> find(json& document, const std::vector<PathStep>& steps) {
  json* value = &document;
  for (const PathStep& step : steps) {
    json* child = child_of(*value, step);
    if (child == nullptr) return missing(step, *value);
    value = child;
  }
  return value;
}

// The value that arguments 0 (document) and 1 (path) select.
struct Located {
  json document;
  json* value = nullptr;
};
HostResult<std::unique_ptr<Located>> locate_argument(const Call& call) {
  MEMBRANE_ASSIGN(const std::vector<PathStep> steps, parse_json_path(call.text(1)));
  auto located = std::make_unique<Located>();
  MEMBRANE_ASSIGN(located->document, parse(call, 0));
  MEMBRANE_ASSIGN(located->value, find(located->document, steps));
  return located;
}

HostResult<Value> get(Call& call) {
  MEMBRANE_ASSIGN(const auto located, locate_argument(call));
  return text_of(*located->value);
}

HostResult<Value> at(Call& call) {
  MEMBRANE_ASSIGN(const auto located, locate_argument(call));
  const json& array = *located->value;
  if (!array.is_array())
    return refuse(Errno::kInvalid, std::string("the value is not an array but of type ") + array.type_name());
  const PathStep step{
      .name = std::to_string(call.i32(2)), .is_index = true, .index = call.i32(2), .has_index = true};
  const size_t index = index_in(step, array.size());
  if (index >= array.size())
    return refuse(Errno::kNotFound,
                  "there is no item " + step.name + " in an array of " + std::to_string(array.size()));
  return text_of(array[index]);
}

template <typename Integer>
HostResult<Value> integer(const Call& call, const char* kind) {
  MEMBRANE_ASSIGN(const auto located, locate_argument(call));
  const json& value = *located->value;
  if (value.is_number_unsigned() &&
      value.get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<Integer>::max()))
    return static_cast<Integer>(value.get<uint64_t>());
  if (value.is_number_integer() && !value.is_number_unsigned() &&
      value.get<int64_t>() >= std::numeric_limits<Integer>::min() &&
      value.get<int64_t>() <= std::numeric_limits<Integer>::max())
    return static_cast<Integer>(value.get<int64_t>());
  if (value.is_number_float()) {
    // 2^31 and 2^63 are doubles, the largest i64 is not: compare below the bound.
    const double number = value.get<double>();
    const double bound = std::ldexp(1.0, std::numeric_limits<Integer>::digits);
    if (number >= -bound && number < bound && number == std::trunc(number))
      return static_cast<Integer>(number);
  }
  return refuse(Errno::kInvalid, "the value " + json_text(value).substr(0, 40) +
                                     " is not a whole number in the range of " + kind);
}

HostResult<Value> get_i32(Call& call) { return integer<int32_t>(call, "i32"); }
HostResult<Value> get_i64(Call& call) { return integer<int64_t>(call, "i64"); }

HostResult<Value> get_f64(Call& call) {
  MEMBRANE_ASSIGN(const auto located, locate_argument(call));
  if (!located->value->is_number())
    return refuse(Errno::kInvalid,
                  "the value " + json_text(*located->value).substr(0, 40) + " is not a number");
  return located->value->get<double>();
}

HostResult<Value> length(Call& call) {
  MEMBRANE_ASSIGN(const auto located, locate_argument(call));
  const json& value = *located->value;
  if (value.is_string()) return static_cast<int32_t>(value.get_ref<const std::string&>().size());
  if (value.is_array() || value.is_object()) return static_cast<int32_t>(value.size());
  return refuse(Errno::kInvalid, std::string("a ") + value.type_name() + " has no length");
}

HostResult<Value> keys(Call& call) {
  MEMBRANE_ASSIGN(const auto located, locate_argument(call));
  if (!located->value->is_object())
    return refuse(Errno::kInvalid,
                  std::string("the value is not an object but a ") + located->value->type_name());
  std::vector<std::string_view> names;
  for (const auto& [name, value] : located->value->get_ref<const json::object_t&>()) names.push_back(name);
  std::ranges::sort(names);
  return json_text(json(names));
}

HostResult<Value> type(Call& call) {
  MEMBRANE_ASSIGN(const auto located, locate_argument(call));
  return std::string(located->value->type_name());
}

HostResult<Value> has(Call& call) {
  MEMBRANE_ASSIGN(const std::vector<PathStep> steps, parse_json_path(call.text(1)));
  MEMBRANE_ASSIGN(json document, parse(call, 0));
  return truth(find(document, steps).has_value());
}

HostResult<Value> valid(Call& call) { return truth(parse(call, 0).has_value()); }

HostResult<Value> quote(Call& call) {
  MEMBRANE_TRY(call.check_size(json_text_bytes(call.text(0))));
  return json_text(json(std::string(call.text(0))));
}

// Sets what the path selects; missing objects on the way are created, and an array grows by one at its end.
HostResult<void> put(json& document, const std::vector<PathStep>& steps, json value) {
  json* target = &document;
  for (size_t i = 0; i < steps.size(); ++i) {
    const PathStep& step = steps[i];
    json* child = child_of(*target, step);
    if (child == nullptr && target->is_object() && !step.is_index) {
      child = &((*target)[step.name] = json::object());
    } else if (child == nullptr && target->is_array() && step.has_index &&
               index_in(step, target->size()) == target->size()) {
      child = &target->emplace_back(json::object());
    }
    if (child == nullptr) return missing(step, *target);
    target = child;
  }
  *target = std::move(value);
  return {};
}

// Whether a value of this depth fits at the path. The library prints and frees by recursion, so this is checked
// before the value is stored.
HostResult<void> check_depth(const std::vector<PathStep>& steps, size_t depth) {
  if (steps.size() + depth <= kMaxJsonDepth) return {};
  return refuse(Errno::kInvalid,
                "the result would be nested more than " + std::to_string(kMaxJsonDepth) + " deep");
}

HostResult<Value> store(Call& call, json value, size_t depth) {
  MEMBRANE_ASSIGN(const std::vector<PathStep> steps, parse_json_path(call.text(1)));
  MEMBRANE_TRY(check_depth(steps, depth));
  MEMBRANE_ASSIGN(json document, parse(call, 0));
  MEMBRANE_TRY(put(document, steps, std::move(value)));
  return json_text(document);
}

HostResult<Value> set(Call& call) {
  MEMBRANE_ASSIGN(json value, parse(call, 2, "the value"));
  return store(call, std::move(value), measure_json(call.text(2)).depth);
}

HostResult<Value> set_text(Call& call) { return store(call, json(std::string(call.text(2))), 0); }

HostResult<Value> append(Call& call) {
  MEMBRANE_ASSIGN(json value, parse(call, 2, "the value"));
  MEMBRANE_ASSIGN(const std::vector<PathStep> steps, parse_json_path(call.text(1)));
  MEMBRANE_TRY(check_depth(steps, 1 + measure_json(call.text(2)).depth));
  MEMBRANE_ASSIGN(const auto located, locate_argument(call));
  if (!located->value->is_array())
    return refuse(Errno::kInvalid,
                  std::string("the value is not an array but of type ") + located->value->type_name());
  located->value->push_back(std::move(value));
  return json_text(located->document);
}

HostResult<Value> remove(Call& call) {
  MEMBRANE_ASSIGN(std::vector<PathStep> steps, parse_json_path(call.text(1)));
  MEMBRANE_ASSIGN(json document, parse(call, 0));
  if (steps.empty()) return refuse(Errno::kInvalid, "the whole document cannot be removed from itself");
  const PathStep last = steps.back();
  steps.pop_back();
  MEMBRANE_ASSIGN(json* const parent, find(document, steps));
  if (child_of(*parent, last) == nullptr) return missing(last, *parent);
  if (parent->is_object()) {
    parent->erase(last.name);
  } else {
    parent->erase(index_in(last, parent->size()));
  }
  return json_text(document);
}

constexpr Param kJson{"json", Type::kText};
constexpr Param kPath{"path", Type::kText};
constexpr Cost kCost{.base = 50, .per_byte = 4};
constexpr Failure kNone{Errno::kNotFound, "the path names nothing"};
constexpr Failure kMalformed{
    Errno::kInvalid, "the text is not JSON or is nested more than 200 deep, or the path is malformed"};
constexpr Failure kTooBig{Errno::kTooBig,
                          "the text is larger than 16 MiB, has more than 1000000 values and names, or needs "
                          "more memory than is left"};
constexpr std::string_view kPaths =
    "A path is names and indices: `papers[0].title`; it may begin with an index (`[0].title`); a negative "
    "index counts "
    "from the end (`papers[-1]`); "
    "names with a dot or "
    "brackets are written `[\"a.b\"]`; the empty path is the whole document.";

constexpr FunctionSpec kFunctions[] = {
    {.module = "json",
     .name = "get",
     .params = {kJson, kPath},
     .result = Type::kText,
     .result_name = "text",
     .can_fail = true,
     .cost = kCost,
     .summary =
         R"(The value at the path (a.b[0].c, "" for all): a string without its quotes, anything else as JSON; ENOENT when there is none.)",
     .details = kPaths,
     .failures = {kNone, kMalformed, kTooBig},
     .example =
         R"((call $io.print (call $json.get! (string "{\"papers\":[{\"title\":\"Wasm\"}]}") (string "papers[0].title"))))",
     .prints = "Wasm",
     .handler = get},
    {.module = "json",
     .name = "at",
     .params = {kJson, kPath, {"index", Type::kI32}},
     .result = Type::kText,
     .result_name = "text",
     .can_fail = true,
     .cost = kCost,
     .summary = "The item at the index of the array at the path, as json.get returns it; for loops; a "
                "negative index counts from the end.",
     .details = kPaths,
     .failures = {{Errno::kNotFound, "the path names nothing, or there is no such item"},
                  {Errno::kInvalid,
                   "the value is not an array, the text is not JSON, or the path is malformed"},
                  kTooBig},
     .example = R"((call $io.print (call $json.at! (string "[\"a\",\"b\"]") (string "") (i32.const 1))))",
     .prints = "b",
     .handler = at},
    {.module = "json",
     .name = "get_i32",
     .params = {kJson, kPath},
     .result = Type::kI32,
     .result_name = "value",
     .can_fail = true,
     .cost = kCost,
     .summary =
         R"(The whole number at the path; EINVAL for anything else: a string like "7", a fraction, a number out of range.)",
     .details = kPaths,
     .failures =
         {kNone,
          {Errno::kInvalid,
           "the value is not a whole number of this range, the text is not JSON, or the path is malformed"},
          kTooBig},
     .example = R"((call $io.print_i32 (call $json.get_i32! (string "{\"year\":2017}") (string "year"))))",
     .prints = "2017",
     .handler = get_i32},
    {.module = "json",
     .name = "get_i64",
     .params = {kJson, kPath},
     .result = Type::kI64,
     .result_name = "value",
     .can_fail = true,
     .cost = kCost,
     .summary = "As json.get_i32, for an i64.",
     .details = kPaths,
     .failures =
         {kNone,
          {Errno::kInvalid,
           "the value is not a whole number of this range, the text is not JSON, or the path is malformed"},
          kTooBig},
     .example = R"((call $io.print_i64 (call $json.get_i64! (string "[9007199254740993]") (string "[0]"))))",
     .prints = "9007199254740993",
     .handler = get_i64,
     .is_rare = true},
    {.module = "json",
     .name = "get_f64",
     .params = {kJson, kPath},
     .result = Type::kF64,
     .result_name = "value",
     .can_fail = true,
     .cost = kCost,
     .summary = "The number at the path.",
     .details = kPaths,
     .failures = {kNone,
                  {Errno::kInvalid,
                   "the value is not a number, the text is not JSON, or the path is malformed"},
                  kTooBig},
     .example = R"((call $io.print_f64 (call $json.get_f64! (string "{\"score\":0.5}") (string "score"))))",
     .prints = "0.5",
     .handler = get_f64},
    {.module = "json",
     .name = "length",
     .params = {kJson, kPath},
     .result = Type::kI32,
     .result_name = "count",
     .can_fail = true,
     .cost = kCost,
     .summary = "The number of items of an array, members of an object or bytes of a string; EINVAL for "
                "anything else.",
     .details = kPaths,
     .failures = {kNone,
                  {Errno::kInvalid,
                   "the value has no length, the text is not JSON, or the path is malformed"},
                  kTooBig},
     .example = R"((call $io.print_i32 (call $json.length! (string "[10,20,30]") (string ""))))",
     .prints = "3",
     .handler = length},
    {.module = "json",
     .name = "keys",
     .params = {kJson, kPath},
     .result = Type::kText,
     .result_name = "json",
     .can_fail = true,
     .cost = kCost,
     .summary = "The names in an object, sorted, as a JSON array.",
     .details = kPaths,
     .failures = {kNone,
                  {Errno::kInvalid,
                   "the value is not an object, the text is not JSON, or the path is malformed"},
                  kTooBig},
     .example = R"((call $io.print (call $json.keys! (string "{\"b\":1,\"a\":2}") (string ""))))",
     .prints = R"(["a","b"])",
     .handler = keys},
    {.module = "json",
     .name = "type",
     .params = {kJson, kPath},
     .result = Type::kText,
     .result_name = "name",
     .can_fail = true,
     .cost = kCost,
     .summary = "null, boolean, number, string, array or object.",
     .details = kPaths,
     .failures = {kNone, kMalformed, kTooBig},
     .example = R"((call $io.print (call $json.type! (string "[1]") (string "[0]"))))",
     .prints = "number",
     .handler = type,
     .is_rare = true},
    {.module = "json",
     .name = "has",
     .params = {kJson, kPath},
     .result = Type::kI32,
     .result_name = "found",
     .can_fail = true,
     .cost = kCost,
     .summary = "1 when there is a value at the path (also null), else 0.",
     .details = kPaths,
     .failures = {kMalformed, kTooBig},
     .example = R"((call $io.print_i32 (call $json.has! (string "{\"a\":null}") (string "a"))))",
     .prints = "1",
     .handler = has},
    {.module = "json",
     .name = "valid",
     .params = {{"text", Type::kBytes}},
     .result = Type::kI32,
     .result_name = "valid",
     .cost = kCost,
     .summary = "1 when the text is JSON (16 MiB and 200 levels at most), else 0.",
     .example = R"((call $io.print_i32 (call $json.valid (string "{oops"))))",
     .prints = "0",
     .handler = valid,
     .is_rare = true},
    {.module = "json",
     .name = "quote",
     .params = {{"text", Type::kBytes}},
     .result = Type::kText,
     .result_name = "json",
     .cost = {.base = 20, .per_byte = 2},
     .summary = "The text as a JSON string, with quotes and escapes.",
     .details = "Bytes that are not UTF-8 become U+FFFD.",
     .example = R"((call $io.print (call $json.quote (string "say \"hi\""))))",
     .prints = R"("say \"hi\"")",
     .handler = quote},
    {.module = "json",
     .name = "set",
     .params = {kJson, kPath, {"value", Type::kText}},
     .result = Type::kText,
     .result_name = "json",
     .can_fail = true,
     .cost = kCost,
     .summary = "A new document with the value, which is JSON, at the path. Members keep their order; "
                "missing objects are made; the index one past the end of an array appends.",
     .details = kPaths,
     .failures = {{Errno::kNotFound, "a step of the path does not exist and cannot be made"},
                  kMalformed,
                  kTooBig},
     .example = R"((call $io.print (call $json.set! (string "{}") (string "a.b") (string "[1,2]"))))",
     .prints = R"({"a":{"b":[1,2]}})",
     .handler = set},
    {.module = "json",
     .name = "set_text",
     .params = {kJson, kPath, {"text", Type::kText}},
     .result = Type::kText,
     .result_name = "json",
     .can_fail = true,
     .cost = kCost,
     .summary = "As json.set, for a text, which it quotes.",
     .details = kPaths,
     .failures = {{Errno::kNotFound, "a step of the path does not exist and cannot be made"},
                  kMalformed,
                  kTooBig},
     .example =
         R"((call $io.print (call $json.set_text! (string "{}") (string "title") (string "A \"new\" one"))))",
     .prints = R"({"title":"A \"new\" one"})",
     .handler = set_text},
    {.module = "json",
     .name = "append",
     .params = {kJson, kPath, {"value", Type::kText}},
     .result = Type::kText,
     .result_name = "json",
     .can_fail = true,
     .cost = kCost,
     .summary = "A new document with the value, which is JSON, appended to the array at the path.",
     .details = kPaths,
     .failures = {kNone,
                  {Errno::kInvalid,
                   "the value at the path is not an array, a text is not JSON, or the path is malformed"},
                  kTooBig},
     .example = R"((call $io.print (call $json.append! (string "[1]") (string "") (string "{\"n\":2}"))))",
     .prints = R"([1,{"n":2}])",
     .handler = append},
    {.module = "json",
     .name = "remove",
     .params = {kJson, kPath},
     .result = Type::kText,
     .result_name = "json",
     .can_fail = true,
     .cost = kCost,
     .summary = "A new document without the value at the path; ENOENT when there is none.",
     .details = kPaths,
     .failures = {kNone, kMalformed, kTooBig},
     .example = R"((call $io.print (call $json.remove! (string "{\"a\":1,\"b\":2}") (string "a"))))",
     .prints = R"({"b":2})",
     .handler = remove,
     .is_rare = true},
};

}  // namespace

std::span<const FunctionSpec> json_functions() { return kFunctions; }

}  // namespace membrane::host
