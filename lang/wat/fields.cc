// The fields of the module, and the variables of a function.
#include <algorithm>
#include <utility>

#include "lang/wat/code_walker.h"
#include "wasm/text/numbers.h"

namespace membrane::lang {

using wasm::ValType;

namespace {

std::string signature_text(const wasm::FuncType& type) {
  std::string text;
  const auto list = [&](std::string_view keyword, Types types) {
    if (types.empty()) return;
    text += " (" + std::string(keyword);
    for (const wasm::ValType t : types) text += " " + std::string(wasm::name_of(t));
    text += ")";
  };
  list("param", type.params);
  list("result", type.results);
  return text;
}

// How many underscores make a name unique in the text: one more than follow it anywhere.
size_t underscores_after(std::string_view text, std::string_view name) {
  size_t most = 0;
  for (size_t at = text.find(name); at != std::string_view::npos; at = text.find(name, at)) {
    at += name.size();
    const size_t end = std::min(text.find_first_not_of('_', at), text.size());
    most = std::max(most, end - at + 1);
    at = end;
  }
  return most;
}

std::string import_text(const HostSignature& f, std::string_view id) {
  return "(import \"" + f.module + "\" \"" + f.name + "\" (func " + std::string(id) + signature_text(f.type) +
         "))";
}

}  // namespace

void CodeWalker::walk_fields() {
  function_number_ = 0;
  loop_count_ = 0;
  bool has_imports = false;
  for (Node n = environment_.fields_begin; n < environment_.fields_end && !is_over(); n = tree_.next(n)) {
    if (!has_imports && tree_.begin(n) >= environment_.imports_end) {
      has_imports = true;
      write_imports();
    }
    if (tree_.is_form(n)) walk_field(n);
  }
  if (!has_imports) write_imports();
}

// After the author's imports, whose functions keep their indices.
void CodeWalker::write_imports() {
  if (!writing_ || survey_.imports.empty()) return;
  const uint32_t at = environment_.imports_end;
  std::string text;
  for (const HostSignature* f : survey_.imports) {
    const std::string id = f == &fail_function() ? std::string(fail_id_) : "$" + f->module + "." + f->name;
    text += (text.empty() && at == 0 ? "" : " ") + import_text(*f, id);
  }
  const bool at_field = at < tree_.text().size() && tree_.text()[at] == '(';  // no module, no imports
  if (at_field) text += ' ';
  writer_.insert(at, text, at, at);
}

void CodeWalker::begin_writing(uint64_t memory_pages) {
  writing_ = true;
  memory_pages_ = memory_pages;
  has_findings_ = stopped_;
  writer_.enable();
}

void CodeWalker::walk_field(Node field) {
  const std::string_view head = tree_.head(field);
  if (head == "func") return walk_function(field);
  if (head == "global") return walk_global(field);
  if (head == "memory") return walk_memory(field);
  if (head == "elem" || head == "table") return walk_elem(field);
  if (head == "data") {
    for (Node n = tree_.first(field); n < tree_.close(field); n = tree_.next(n))
      if (tree_.is_form(n) && tree_.head(n) != "memory") walk_offset(n, tree_.next(n));
    return;
  }
  if (head == "start") return shift_function(tree_.first(field));
  if (head == "export") {
    for (Node n = tree_.first(field); n < tree_.close(field); n = tree_.next(n))
      if (tree_.is_form(n, "func")) shift_function(tree_.first(n));
    return;
  }
  if (find_form(head) != nullptr || head == "call") report_outside(field);
}

void CodeWalker::report_outside(Node form) {
  const std::string shown = "(" + std::string(tree_.head(form)) + " …)";
  Diagnostic& d = report(DiagnosticCode::kCodeOutsideFunction, form, shown + " is outside of any function");
  d.found = shown;
  d.expected = "a function around it";
}

void CodeWalker::walk_function(Node field) {
  FunctionHead head = environment_.read_head(field);
  for (Node n = tree_.first(field); n < head.body; n = tree_.next(n))
    if (tree_.is_form(n, "import")) return;
  if (function_number_ == survey_.functions.size()) survey_.functions.emplace_back();
  const Node name = tree_.first(field);
  function_id_ = tree_.is_id(name) ? tree_.word(name) : std::string_view();
  function_type_ = head.type;
  local_ids_.clear();
  labels_.clear();
  label_names_.clear();
  loops_.clear();
  errno_id_ = {};
  nesting_ = 0;
  function_end_ = tree_.end(tree_.close(field));
  locals_ = std::move(head.locals);
  const auto first = static_cast<uint32_t>(locals_.size() - locals_.listed().size());
  for (uint32_t i = first; i < locals_.size(); ++i)
    if (const std::string_view id = locals_.named(i).id; !id.empty()) local_ids_.add(id, i);
  push_label({}, head.type);
  if (writing_) {
    std::string declarations;
    for (const VariableInfo& local : survey_.functions[function_number_].made_locals) {
      declarations += " (local " + std::string(local.id) + " " + std::string(wasm::name_of(local.type)) + ")";
      add_local(local.id, local.type);
    }
    if (!declarations.empty())
      writer_.insert(head.end, declarations, tree_.begin(field), tree_.end(field + 1));
  }
  in_function_ = true;
  sequence(head.body, tree_.close(field), head.type->results);
  in_function_ = false;
  ++function_number_;
  function_id_ = {};
}

// `(global $id? (export …)* (import …)? type code)`
void CodeWalker::walk_global(Node field) {
  Node n = tree_.first(field);
  const Node close = tree_.close(field);
  if (tree_.is_id(n)) ++n;
  while (n < close && tree_.is_form(n, "export")) n = tree_.next(n);
  if (n >= close || tree_.is_form(n, "import")) return;
  const Node type = tree_.is_form(n, "mut") ? tree_.first(n) : n;
  const ValType val_type[] = {environment_.val_type_at(type).value_or(ValType::kI32)};
  locals_ = {};
  local_ids_.clear();
  sequence(tree_.next(n), close, val_type);
}

// The minimum grows if the string literals need it.
void CodeWalker::walk_memory(Node field) {
  const Node min = environment_.memory_min;
  if (!writing_ || min <= field || min >= tree_.close(field) || memory_pages_ <= environment_.memory_pages)
    return;
  writer_.replace(tree_.begin(min), tree_.end(min), std::to_string(memory_pages_));
}

// `(elem …)` and `(table …)`: function indices, and constant expressions.
void CodeWalker::walk_elem(Node field) {
  bool after_offset = false;
  bool are_functions = false;
  bool are_expressions = false;
  const Node close = tree_.close(field);
  for (Node n = tree_.first(field); n < close; n = tree_.next(n)) {
    const std::string_view word = tree_.is_form(n) ? tree_.head(n) : tree_.word(n);
    if (word == "func") {
      are_functions = true;
    } else if (!tree_.is_form(n) && (word == "funcref" || word == "externref")) {
      are_expressions = true;
    } else if (tree_.is_integer(n) && tree_.head(field) == "elem") {
      if (are_functions || (after_offset && !are_expressions)) shift_function(n);
    } else if (word == "elem") {  // inside a table: function indices, or expressions
      for (Node item = tree_.first(n); item < tree_.close(n); item = tree_.next(item)) {
        shift_function(item);
        if (tree_.is_form(item)) walk_offset(item, tree_.next(item));
      }
    } else if (tree_.is_form(n) && word != "table" && word != "export" && word != "import") {
      walk_offset(n, tree_.next(n));
      after_offset = true;
    }
  }
}

// A constant expression: an instruction, or instructions in `(offset …)` and `(item …)`.
void CodeWalker::walk_offset(Node n, Node close) {
  const ValType type[] = {ValType::kI32};
  locals_ = {};
  local_ids_.clear();
  if (tree_.is_form(n, "offset") || tree_.is_form(n, "item")) {
    close = tree_.close(n);
    n = tree_.first(n);
  }
  sequence(n, close, type);
}

void CodeWalker::shift_function(Node index) {
  if (!writing_ || survey_.imports.empty() || !tree_.is_integer(index)) return;
  const auto number = wasm::parse_unsigned(tree_.word(index), 32);
  if (!number.ok || number.value < environment_.imported_function_count) return;
  writer_.replace(tree_.begin(index), tree_.end(index),
                  std::to_string(number.value + survey_.imports.size()));
}

// -- variables

const VariableInfo* CodeWalker::find_local(std::string_view id) const {
  const uint32_t index = local_ids_.find(id);
  return index == wasm::kNoIndex ? nullptr : &locals_.named(index);
}

const VariableInfo* CodeWalker::find_variable(std::string_view id) const {
  const VariableInfo* local = find_local(id);
  return local != nullptr ? local : environment_.find_global(id);
}

std::optional<ValType> CodeWalker::local_type(Node index) const {
  if (tree_.is_id(index)) {
    const VariableInfo* local = find_local(tree_.word(index));
    return local == nullptr ? std::nullopt : std::optional(local->type);
  }
  const auto number = wasm::parse_unsigned(tree_.word(index), 32);
  if (!tree_.is_integer(index) || !number.ok || number.value >= locals_.size()) return std::nullopt;
  return locals_.type_of(number.value);
}

std::optional<ValType> CodeWalker::global_type(Node index) const {
  if (tree_.is_id(index)) {
    const VariableInfo* global = environment_.find_global(tree_.word(index));
    return global == nullptr ? std::nullopt : std::optional(global->type);
  }
  const auto number = wasm::parse_unsigned(tree_.word(index), 32);
  if (!tree_.is_integer(index) || !number.ok || number.value >= environment_.globals.size())
    return std::nullopt;
  return environment_.globals[number.value].type;
}

std::string CodeWalker::get(std::string_view id) const {
  return (find_local(id) != nullptr ? "(local.get " : "(global.get ") + std::string(id) + ")";
}

std::string_view CodeWalker::setter(std::string_view id) const {
  return find_local(id) != nullptr || environment_.find_global(id) == nullptr ? "(local.set" : "(global.set";
}

void CodeWalker::add_local(std::string_view id, ValType type) {
  if (!id.empty()) local_ids_.add(id, static_cast<uint32_t>(locals_.size()));
  locals_.add({id, type});
}

void CodeWalker::declare(std::string_view id, ValType type) {
  if (find_variable(id) != nullptr || !in_function_) return;
  survey_.functions[function_number_].made_locals.push_back({id, type});
  add_local(id, type);
}

std::string_view CodeWalker::made_up(std::string name) {
  const auto [made, is_new] = made_up_.try_emplace(name);
  if (!is_new) return made->second;
  name.append(underscores_after(tree_.text(), name), '_');
  return made->second = survey_.names.emplace_back(std::move(name));
}

std::string_view CodeWalker::hidden_local(std::string name, ValType type) {
  const std::string_view id = made_up(std::move(name));
  declare(id, type);
  return id;
}

Diagnostic& CodeWalker::report(DiagnosticCode code, Node n, std::string message) {
  note_finding();
  if (!shows_findings()) return spare_;
  return add_finding(code, n, std::move(message));
}

Diagnostic& CodeWalker::add_finding(DiagnosticCode code, Node n, std::string message) {
  Diagnostic d;
  d.code = code;
  const uint32_t end = tree_.is_form(n) && tree_.close(n) > n + 1 ? tree_.end(n + 1) : tree_.end(n);
  d.place = locate(tree_.text(), tree_.begin(n), end);
  d.message = std::move(message);
  d.function = function_id_;
  return diagnostics_.emplace_back(std::move(d));
}

// A finding that ends the run, even in the survey.
void CodeWalker::stop(DiagnosticCode code, Node n, std::string message) {
  if (stopped_) return;
  stopped_ = true;
  note_finding();
  add_finding(code, n, std::move(message));
}

void CodeWalker::report_unknown_variable(Node n) {
  if (!shows_findings()) return note_finding();
  const std::string_view id = tree_.word(n);
  Diagnostic& d =
      report(DiagnosticCode::kUnknownVariable, n, "no local or global is called " + std::string(id));
  d.found = id;
  std::vector<std::string_view> names;
  for (const VariableInfo& local : locals_.listed()) names.push_back(local.id);
  for (const VariableInfo& global : environment_.globals) names.push_back(global.id);
  if (environment_.find_function(id) != nullptr) {
    d.hint = std::string(id) + " is a function: call it with (call " + std::string(id) + " …).";
  } else if (const auto near = nearest(id, names); !near.empty()) {
    d.hint = "Did you mean " + std::string(near) + "?";
  }
}

}  // namespace membrane::lang
