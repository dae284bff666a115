#include "host/calls/link.h"

#include "base/findings.h"
#include "base/text.h"
#include "host/calls/foreign_imports.h"

namespace membrane::host {
namespace {

std::string text_of(const wasm::FuncType& type) {
  std::string text = "(func";
  const auto append = [&](std::string_view keyword, const std::vector<wasm::ValType>& types) {
    if (types.empty()) return;
    text.append(" (").append(keyword);
    for (const wasm::ValType item : types) text.append(" ").append(wasm::name_of(item));
    text += ")";
  };
  append("param", type.params);
  append("result", type.results);
  return text + ")";
}

// Names that other libraries have for what a function here does.
struct Synonym {
  std::string_view name, ours;
};
constexpr Synonym kSynonyms[] = {
    {"put", "set"},       {"store", "set"},     {"save", "set"},     {"insert", "set"},
    {"load", "get"},      {"fetch", "get"},     {"lookup", "get"},   {"del", "delete"},
    {"remove", "delete"}, {"erase", "delete"},  {"has", "exists"},   {"contains", "exists"},
    {"list", "keys"},     {"unlink", "remove"}, {"rm", "remove"},    {"delete", "remove"},
    {"readdir", "list"},  {"ls", "list"},       {"select", "query"}, {"execute", "query"},
    {"exec", "query"},    {"puts", "print"},    {"printf", "print"},
};

const FunctionSpec* synonym_of(const wasm::Import& import) {
  for (const Synonym& each : kSynonyms)
    if (each.name == import.name)
      if (const FunctionSpec* const found = find_function(import.module, each.ours)) return found;
  return nullptr;
}

// The function that was probably meant: one that does the same, one of the same name elsewhere, or a similar one.
const FunctionSpec* nearest_function(const wasm::Import& import) {
  if (const FunctionSpec* const meant = synonym_of(import)) return meant;
  const FunctionSpec* same_name = nullptr;
  std::vector<std::string> names;
  std::vector<const FunctionSpec*> functions;
  for (const Capability& capability : capabilities()) {
    for (const FunctionSpec& function : capability.functions) {
      if (function.name == import.name && same_name == nullptr) same_name = &function;
      names.push_back(std::string(function.module) + "." + std::string(function.name));
      functions.push_back(&function);
    }
  }
  const std::vector<std::string_view> candidates(names.begin(), names.end());
  const std::string_view best = nearest(import.module + "." + import.name, candidates);
  if (best.empty()) return same_name;
  return functions[static_cast<size_t>(std::ranges::find(candidates, best) - candidates.begin())];
}

std::string names_in(const Capability& capability) {
  std::string list;
  for (const FunctionSpec& function : capability.functions)
    list.append(list.empty() ? "" : ", ").append(function.name);
  return list;
}

// `origin` is what the whole module was made for, or "".
Diagnostic unknown(const wasm::Module& module, const wasm::Import& import, std::string_view origin) {
  Diagnostic diagnostic{.code = DiagnosticCode::kUnknownImport};
  diagnostic.message = "nothing provides the import \"" + import.module + "\" \"" + import.name + "\"";
  if (const std::string_view purpose = made_for(module, import); !purpose.empty()) {
    diagnostic.hint = purpose;
  } else if (import.module == "env" && !origin.empty()) {
    diagnostic.hint = origin;
  } else if (import.kind != wasm::ExternKind::kFunc) {
    diagnostic.message += " (a " + std::string(wasm::name_of(import.kind)) + "; only functions are provided)";
    diagnostic.hint = "define the " + std::string(wasm::name_of(import.kind)) + " in the module";
  } else if (const FunctionSpec* meant = nearest_function(import)) {
    diagnostic.found = import.module + "." + import.name;
    diagnostic.expected = std::string(meant->module) + "." + std::string(meant->name);
    diagnostic.hint = "did you mean " + diagnostic.expected + "? " + import_of(*meant);
  } else if (const Capability* capability = find_capability(import.module)) {
    diagnostic.hint = import.module + " has: " + names_in(*capability);
  } else if (import.module.starts_with("wasi_")) {
    diagnostic.hint = import.module + " has no such function (see docs/wasi.md for those that exist)";
  } else if (import.module == "env") {
    diagnostic.hint = "env is where a linker leaves undefined symbols: link the library that defines " +
                      import.name + ", or let the program that embeds Membrane define it";
  }
  return diagnostic;
}

bool is_fail_function(const wasm::Module& module, const wasm::Import& import) {
  using wasm::ValType;
  static const wasm::FuncType kType{{ValType::kI32, ValType::kI32, ValType::kI32}, {}};
  return import.kind == wasm::ExternKind::kFunc && import.module == "membrane" && import.name == "fail" &&
         module.type_of_function(import.index) == kType;
}

}  // namespace

std::expected<Linkage, std::vector<Diagnostic>> link_imports(
    const wasm::Module& module, const std::function<bool(const wasm::Import&)>& is_own) {
  Linkage linkage;
  std::vector<Diagnostic> diagnostics;
  std::string_view origin;
  size_t alike = 0;  // more imports of what the module was made for: the first one stands for all
  for (const wasm::Import& import : module.imports) {
    if (diagnostics.size() == kMaxFindings) break;
    if (is_fail_function(module, import) || (is_own && is_own(import))) {
      linkage.push_back(nullptr);
      continue;
    }
    const FunctionSpec* function =
        import.kind == wasm::ExternKind::kFunc ? find_function(import.module, import.name) : nullptr;
    if (function == nullptr) {
      if (diagnostics.empty()) origin = made_for(module);
      Diagnostic diagnostic = unknown(module, import, origin);
      const bool is_alike = !origin.empty() && !diagnostics.empty() && diagnostic.hint == origin &&
                            diagnostics.front().hint == origin;
      if (is_alike) ++alike;
      else diagnostics.push_back(std::move(diagnostic));
      continue;
    }
    linkage.push_back(function);
    const wasm::FuncType& declared = module.type_of_function(import.index);
    if (const wasm::FuncType actual = wasm_signature_of(*function); declared != actual) {
      Diagnostic diagnostic{.code = DiagnosticCode::kImportTypeMismatch};
      diagnostic.message = import.module + "." + import.name + " is imported with a type other than its own";
      diagnostic.found = text_of(declared);
      diagnostic.expected = text_of(actual);
      diagnostic.hint = "write " + import_of(*function);
      diagnostics.push_back(std::move(diagnostic));
    }
  }
  if (diagnostics.empty()) return linkage;
  if (alike != 0) diagnostics.front().message += ", or " + count_of(alike, "other import");
  return std::unexpected(bounded(std::move(diagnostics)));
}

}  // namespace membrane::host
