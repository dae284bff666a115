// The registry as text: for the reference page, for a model, for a program.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/diagnostic.h"
#include "host/calls/registry.h"

namespace membrane::host {
namespace {

using nlohmann::ordered_json;

std::string_view name_of(Type type) {
  switch (type) {
    case Type::kText: return "text";
    case Type::kBytes: return "bytes";
    case Type::kI32: return "i32";
    case Type::kI64: return "i64";
    case Type::kF64: return "f64";
  }
  return "";
}

std::string_view name_of(Effect effect) {
  switch (effect) {
    case Effect::kNone: return "none";
    case Effect::kOutput: return "output";
    case Effect::kWorld: return "world";
  }
  return "";
}

std::string full_name(const FunctionSpec& function) {
  return std::string(function.module) + "." + std::string(function.name);
}

// "name" for a string, "name: i32" for a number.
std::string typed(std::string_view name, Type type) {
  std::string text(name);
  if (!is_string(type)) text.append(": ").append(name_of(type));
  return text;
}

// Failures that all functions with an errno share are listed once, in the rules.
constexpr std::string_view kRules =
    R"(A string in memory is a u32 length in bytes, little endian, and then the bytes. Where a function takes or returns
a string, the i32 is the address of the length: `(i32.load p)` is the length, and the bytes start at `p + 4`.
The host puts strings that it returns into the program's memory, after the program's data; they stay until the run ends.
A function that can fail returns an i32 errno as its last result: 0 is success. After a failure the other result is the empty string, or 0.
A function without an errno cannot fail: a pointer outside the memory, or no memory for the result, is a trap.
)";

constexpr std::string_view kSharedFailures =
    "Every function with an errno can also return EFAULT (a pointer or length outside the memory), ENOMEM "
    "(no "
    "memory for the "
    "result) and EINVAL (a text is not UTF-8); those that reach the world also EBUDGET (the run's calls, "
    "bytes or tokens are "
    "used up), EHOST and ECANCELED.";

void append_function(std::string& page, const FunctionSpec& function) {
  page.append("### ")
      .append(full_name(function))
      .append("\n\n```wat\n")
      .append(import_of(function))
      .append("\n```\n\n");
  page.append("`").append(signature_of(function)).append("`\n\n").append(function.summary).append("\n");
  if (!function.details.empty()) page.append("\n").append(function.details).append("\n");
  if (function.failures.size() != 0) page.append("\n| errno | when |\n| --- | --- |\n");
  for (const Failure& failure : function.failures)
    page.append("| ").append(name_of(failure.code)).append(" | ").append(failure.when).append(" |\n");
  page.append("\nCosts ").append(std::to_string(function.cost.base)).append(" fuel");
  if (function.cost.per_byte != 0)
    page.append(" and ")
        .append(std::to_string(function.cost.per_byte))
        .append(" for each byte of strings taken and returned");
  if (function.cost.works) page.append(", besides [the work for it](fuel.md#what-is-done)");
  page.append(function.effect == Effect::kWorld ? "; counts as a host call.\n" : ".\n");
  page.append("\n```wat\n").append(function.example).append("\n```\n");
  if (!function.prints.empty()) {
    page.append("\nprints\n\n```\n").append(function.prints);
    page.append(function.prints.ends_with('\n') ? "```\n" : "\n```\n");
  }
  page.append("\n");
}

}  // namespace

std::string signature_of(const FunctionSpec& function) {
  std::string text = full_name(function) + "(";
  for (size_t i = 0; i < function.params.size(); ++i) {
    if (i != 0) text += ", ";
    text += typed(function.params[i].name, function.params[i].type);
  }
  text += ")";
  if (function.result) text += " -> " + typed(function.result_name, *function.result);
  if (function.can_fail) text += function.result ? ", errno" : " -> errno";
  return text;
}

std::string import_of(const FunctionSpec& function) {
  const wasm::FuncType type = wasm_signature_of(function);
  std::string text = "(import \"" + std::string(function.module) + "\" \"" + std::string(function.name) +
                     "\" (func $" + full_name(function);
  const auto append = [&](std::string_view keyword, const std::vector<wasm::ValType>& types) {
    if (types.empty()) return;
    text.append(" (").append(keyword);
    for (const wasm::ValType item : types) text.append(" ").append(wasm::name_of(item));
    text += ")";
  };
  append("param", type.params);
  append("result", type.results);
  return text + "))";
}

namespace {

std::string granted_by(const Capability& capability) {
  return capability.grant.empty() ? "always there" : "`" + std::string(capability.grant) + "`";
}

// The rules and the tables that every function's description relies on.
void append_rules(std::string& page) {
  page.append(kRules).append("\n").append(kSharedFailures).append("\n\n");
  page +=
      "Examples are the body of a function, in the text that `membrane check --expand` turns into plain WAT: "
      "`(string \"…\")` is the "
      "address of a literal, and `(call $f! …)` traps when the errno is not 0, and leaves the other "
      "result.\n\n"
      "| errno | number | meaning |\n| --- | --- | --- |\n";
#define ERRNO(id, name, number, sentence, remedy) \
  page.append("| ")                               \
      .append(name)                               \
      .append(" | ")                              \
      .append(std::to_string(number))             \
      .append(" | ")                              \
      .append(sentence)                           \
      .append(" |\n");
#include "host/guest/errnos.def"
#undef ERRNO
  page += "\n| capability | what | granted by |\n| --- | --- | --- |\n";
  for (const Capability& capability : capabilities())
    page.append("| [")
        .append(capability.name)
        .append("](#")
        .append(capability.name)
        .append(") | ")
        .append(capability.summary)
        .append(" | ")
        .append(granted_by(capability))
        .append(" |\n");
}

std::string page_with(std::string_view provenance) {
  std::string page = "# Capabilities\n\nEvery host function that a program can import.";
  page.append(provenance).append("\n\n");
  append_rules(page);
  for (const Capability& capability : capabilities()) {
    page.append("\n## ").append(capability.name).append("\n\n").append(capability.summary).append("\n\n");
    for (const FunctionSpec& function : capability.functions) append_function(page, function);
    page.pop_back();
  }
  return page;
}

// The selected functions of `capability`: all, or one.
std::span<const FunctionSpec> selected(const Capability& capability, const Selection& selection) {
  return selection.function != nullptr ? std::span(selection.function, 1) : capability.functions;
}

}  // namespace

Result<Selection> select(std::string_view name) {
  std::vector<std::string> names;
  for (const Capability& capability : capabilities()) {
    if (capability.name == name) return Selection{&capability, nullptr};
    names.emplace_back(capability.name);
    for (const FunctionSpec& function : capability.functions) {
      names.push_back(full_name(function));
      if (names.back() == name) return Selection{&capability, &function};
    }
  }
  const std::string_view near = nearest(name, {names.begin(), names.end()});
  std::string known;
  for (const Capability& capability : capabilities())
    known.append(known.empty() ? "" : ", ").append(capability.name);
  return fail(ErrorCode::kNotFound, "there is no capability or function " + std::string(name),
              near.empty() ? "Capabilities are " + known + "." : "Did you mean " + std::string(near) + "?");
}

std::string capabilities_markdown() {
  return page_with(" Made from the registry by `membrane capabilities --markdown`; do not edit.");
}

std::string capabilities_text(const Selection& selection) {
  if (selection.capability == nullptr) return page_with("");
  const Capability& capability = *selection.capability;
  std::string page = "## " + std::string(capability.name) + "\n\n";
  page.append(capability.summary).append(" Granted by: ").append(granted_by(capability)).append(".\n\n");
  for (const FunctionSpec& function : selected(capability, selection)) append_function(page, function);
  page.pop_back();
  return page;
}

namespace {

void append_lines(std::string& prompt, const Capability& capability, const Selection& selection) {
  prompt.append(capability.name).append(": ").append(capability.summary).append("\n");
  for (const FunctionSpec& function : selected(capability, selection)) {
    if (!function.in_prompt && selection.function == nullptr) continue;
    prompt.append("  ").append(signature_of(function)).append(" — ").append(function.summary).append("\n");
  }
  if (!capability.rules.empty()) prompt.append("  ").append(capability.rules).append("\n");
}

}  // namespace

namespace {

std::string short_name(const FunctionSpec& function) {
  return std::string(function.name) + (function.can_fail ? "!" : "");
}

// "(text start# end#)->text".
std::string short_type(const FunctionSpec& function) {
  std::string text = "(";
  for (const Param& param : function.params) {
    text.append(text.size() == 1 ? "" : " ").append(param.name);
    if (param.type == Type::kI32) text += "#";
    else if (!is_string(param.type)) text.append(":").append(name_of(param.type));
  }
  text += ")";
  if (!function.result) return text;
  const std::string_view number = *function.result == Type::kI32 ? "#" : name_of(*function.result);
  return text.append("->").append(is_string(*function.result) ? function.result_name : number);
}

// "trim/lower/upper(text)->text find(text needle from#)->#; more: zeros concat".
std::string short_signatures(const Capability& capability) {
  std::vector<std::pair<std::string, std::string>> alike;  // a type, and the names that have it
  std::string rare;
  for (const FunctionSpec& function : capability.functions) {
    if (!function.in_prompt) continue;
    if (function.is_rare) {
      rare.append(" ").append(short_name(function));
      continue;
    }
    const std::string type = short_type(function);
    const auto found = std::ranges::find(alike, type, &std::pair<std::string, std::string>::first);
    if (found == alike.end()) alike.emplace_back(type, short_name(function));
    else found->second.append("/").append(short_name(function));
  }
  std::string text;
  for (const auto& [type, names] : alike) text.append(" ").append(names).append(type);
  if (!rare.empty()) text.append(text.empty() ? " more:" : "; more:").append(rare);
  return text;
}

}  // namespace

std::string capabilities_signatures(std::span<const std::string_view> left_out) {
  std::string text;
  for (const Capability& capability : capabilities()) {
    if (std::ranges::find(left_out, capability.name) != left_out.end()) continue;
    text.append(capability.name).append(":").append(short_signatures(capability));
    if (!capability.rules.empty()) text.append(". ").append(capability.rules);
    text += "\n";
  }
  return text;
}

std::string capabilities_prompt(const Selection& selection) {
  if (selection.capability == nullptr) return capabilities_prompt();
  std::string prompt;
  append_lines(prompt, *selection.capability, selection);
  return prompt;
}

std::string capabilities_prompt(std::span<const std::string_view> left_out) {
  std::string prompt(kRules);
  prompt += "Parameters and results without a type are strings.\n";
  for (const Capability& capability : capabilities()) {
    if (std::ranges::find(left_out, capability.name) != left_out.end()) continue;
    prompt += "\n";
    append_lines(prompt, capability, {});
  }
  prompt += "\nerrno:";
#define ERRNO(id, name, number, sentence, remedy)                             \
  prompt.append(" ").append(std::to_string(number)).append("=").append(name);
#include "host/guest/errnos.def"
#undef ERRNO
  prompt += "\n";
  return prompt;
}

namespace {

ordered_json json_of(const FunctionSpec& function) {
  ordered_json params = ordered_json::array();
  for (const Param& param : function.params)
    params.push_back({{"name", param.name}, {"type", name_of(param.type)}});
  ordered_json failures = ordered_json::array();
  for (const Failure& failure : function.failures)
    failures.push_back({{"errno", name_of(failure.code)},
                        {"number", static_cast<int>(failure.code)},
                        {"when", failure.when}});
  ordered_json object = {
      {"name", full_name(function)},
      {"signature", signature_of(function)},
      {"import", import_of(function)},
      {"params", params},
      {"result", nullptr},
      {"errno", function.can_fail},
      {"effect", name_of(function.effect)},
      {"summary", function.summary},
      {"details", function.details},
      {"failures", failures},
      {"fuel",
       {{"base", function.cost.base}, {"per_byte", function.cost.per_byte}, {"works", function.cost.works}}},
      {"example", function.example},
      {"prints", function.prints}};
  if (function.result)
    object["result"] = {{"name", function.result_name}, {"type", name_of(*function.result)}};
  return object;
}

}  // namespace

namespace {

ordered_json json_of(const Capability& capability, const Selection& selection) {
  ordered_json functions = ordered_json::array();
  for (const FunctionSpec& function : selected(capability, selection)) functions.push_back(json_of(function));
  return {{"name", capability.name},
          {"summary", capability.summary},
          {"grant", capability.grant},
          {"functions", functions}};
}

}  // namespace

std::string capabilities_json(const Selection& selection) {
  ordered_json all = ordered_json::array();
  for (const Capability& capability : capabilities())
    if (selection.capability == nullptr || selection.capability == &capability)
      all.push_back(json_of(capability, selection));
  return ordered_json{{"capabilities", all}}.dump(2);
}

std::string capabilities_json_of_values() {
  ordered_json all = ordered_json::array();
  for (const Capability& capability : capabilities())
    if (!capability.is_of_memory) all.push_back(json_of(capability, {}));
  return ordered_json{{"capabilities", all}}.dump(2);
}

}  // namespace membrane::host
