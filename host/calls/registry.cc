#include "host/calls/registry.h"

#include "host/capabilities/all.h"

namespace membrane::host {

std::span<const Capability> capabilities() {
  static const Capability kAll[] = {
      {"io", "The input and arguments of the program, its output, and its result.", "", io_functions(), false,
       "input is all of it."},
      {"http", "Requests to the URLs that the policy grants.", "--allow 'http:GET:https://example.org/*'",
       http_functions(), false,
       "A status such as 404 is not a failure: see status. headers: a JSON object or \"\"."},
      {"kv", "A key-value store.", "--allow kv", kv_functions()},
      {"fs", "Files in the directories that the policy grants.", "--allow fs:read:./data:/data",
       fs_functions()},
      {"ai", "Language models, paid from the run's tokens.", "--allow ai", ai_functions()},
      {"sql", "Queries of SQLite databases, read-only.", "--allow sql:papers:./papers.db", sql_functions(),
       false, "Rows are a JSON array of objects; parameters a JSON array or \"\"."},
      {"json", "Reading and building JSON.", "", json_functions(), false,
       "path: `a.b[0].c`, `[0].a`, \"\" for all. get and at give a string without quotes, else JSON. Walk "
       "arrays with "
       "items, since each call parses all. value: JSON; set, set_text, append give a new document."},
      {"str", "Text and numbers.", "", str_functions(), false,
       "Places are bytes from 0; slice goes up to, not including, end; negative ones count from the end; "
       "find without a hit is -1. html_links: [{\"href\":…,\"text\":…}]. split, join here: JSON; else (split "
       "…), "
       "list.join."},
      {"list", "Lines, fields and items, many strings in one, for (each …).", "", list_functions(), false,
       "lines keeps empty ones but the last; words ends at any space; sort is by bytes."},
      {"map", "Maps from texts to numbers, in the program's memory.", "", map_functions(), true,
       "No key counts as 0; the value of set may be a string's address. top: keys, the largest value first, "
       "ties by name."},
      {"builder", "Long texts and lists, piece by piece, in the program's memory.", "", builder_functions(),
       true, "After item, text gives a list."},
      {"time", "The run's clock, and instants as text.", "", time_functions(), false,
       "Text as 2024-02-29 or 2024-02-29T12:30:00Z."},
      {"random", "Random numbers.", "", random_functions(), false, "range includes both ends."},
      {"log", "Lines about the work, on stderr.", "", log_functions()},
      {"agent", "The task that the program is a step of.", "--allow ask", agent_functions()},
  };
  return kAll;
}

const Capability* find_capability(std::string_view module) {
  const auto all = capabilities();
  const auto found = std::ranges::find(all, module, &Capability::name);
  return found == all.end() ? nullptr : &*found;
}

const FunctionSpec* find_function(std::string_view module, std::string_view name) {
  const Capability* capability = find_capability(module);
  if (capability == nullptr) return nullptr;
  const auto found = std::ranges::find(capability->functions, name, &FunctionSpec::name);
  return found == capability->functions.end() ? nullptr : &*found;
}

wasm::ValType wasm_type_of(Type type) {
  switch (type) {
    case Type::kI64: return wasm::ValType::kI64;
    case Type::kF64: return wasm::ValType::kF64;
    case Type::kText:
    case Type::kBytes:
    case Type::kI32: break;
  }
  return wasm::ValType::kI32;
}

wasm::FuncType wasm_signature_of(const FunctionSpec& function) {
  wasm::FuncType type;
  for (const Param& param : function.params) type.params.push_back(wasm_type_of(param.type));
  if (function.result) type.results.push_back(wasm_type_of(*function.result));
  if (function.can_fail) type.results.push_back(wasm::ValType::kI32);
  return type;
}

}  // namespace membrane::host
