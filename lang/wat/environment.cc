#include "lang/wat/environment.h"

#include <algorithm>
#include <string>

#include "wasm/limits.h"
#include "wasm/text/heap_types.h"
#include "wasm/text/numbers.h"

namespace membrane::lang {

using wasm::TokenKind;
using wasm::ValType;

namespace {

std::optional<uint64_t> number_of(std::string_view word) {
  const auto number = wasm::parse_integer(word, 32);
  if (!number.ok) return std::nullopt;
  return number.value & UINT32_MAX;
}

std::optional<ValType> val_type_of(std::string_view word) {
  static const auto kNames = [] {
    std::vector<std::pair<std::string, ValType>> names;
    for (const ValType type : {ValType::kI32, ValType::kI64, ValType::kF32, ValType::kF64, ValType::kV128})
      names.emplace_back(wasm::name_of(type), type);
    for (const auto& [name, type] : wasm::kHeapTypes) names.emplace_back(wasm::name_of(type), type);
    return names;
  }();
  for (const auto& [name, type] : kNames)
    if (word == name) return type;
  return std::nullopt;
}

}  // namespace

std::optional<ValType> Environment::val_type_at(Node n) const {
  if (!tree_.is_form(n, "ref")) return val_type_of(tree_.word(n));
  Node heap = tree_.first(n);
  const bool has_null = tree_.word(heap) == "null";
  if (has_null) ++heap;
  uint32_t index = wasm::kNoIndex;
  if (tree_.is_id(heap)) index = type_ids_.find(tree_.word(heap));
  if (tree_.is_integer(heap))
    index = static_cast<uint32_t>(number_of(tree_.word(heap)).value_or(wasm::kNoIndex));
  ValType type = wasm::ref_null_to(std::min(index, wasm::kUnknownTypeIndex));
  for (const auto& [name, abstract] : wasm::kHeapTypes)
    if (tree_.word(heap) == name) type = abstract;
  return has_null ? type : wasm::non_null(type);
}

Environment::Environment(const Tree& tree, const HostTable& host) : tree_(tree), host_(host) {
  find_fields();
  if (!is_module) return;
  for (Node n = fields_begin; n < fields_end; n = tree_.next(n)) read_types(n);
  for (Node n = fields_begin; n < fields_end; n = tree_.next(n))
    if (tree_.is_form(n)) read_field(n);
}

void Environment::find_fields() {
  fields_begin = 0;
  fields_end = tree_.size() - 1;
  imports_end = tree_.begin(0);
  if (!tree_.is_form(0, "module")) return;
  fields_begin = tree_.first(0);
  fields_end = tree_.close(0);
  if (tree_.is_id(fields_begin)) ++fields_begin;
  imports_end = tree_.end(fields_begin - 1);
  is_module = !tree_.is_word(fields_begin);
}

const FunctionInfo* Environment::find_function(std::string_view id) const {
  const uint32_t index = function_ids_.find(id);
  return index == wasm::kNoIndex ? nullptr : &functions[index];
}

const VariableInfo* Environment::find_global(std::string_view id) const {
  const uint32_t index = global_ids_.find(id);
  return index == wasm::kNoIndex ? nullptr : &globals[index];
}

SharedType Environment::read_type_use(Node& n, Node close, std::vector<VariableInfo>* params) const {
  static const auto kNothing = std::make_shared<const wasm::FuncType>();
  SharedType named = kNothing;
  if (n < close && tree_.is_form(n, "type")) {
    const Node index = tree_.first(n);
    uint32_t at = wasm::kNoIndex;
    if (tree_.is_id(index)) at = type_ids_.find(tree_.word(index));
    if (tree_.is_integer(index))
      at = static_cast<uint32_t>(number_of(tree_.word(index)).value_or(wasm::kNoIndex));
    if (at < types_.size()) named = types_[at];
    n = tree_.next(n);
  }
  std::vector<VariableInfo> listed;
  std::vector<ValType> results;
  for (; n < close && (tree_.is_form(n, "param") || tree_.is_form(n, "result")); n = tree_.next(n)) {
    const bool is_param = tree_.head(n) == "param";
    std::string_view id;
    for (Node word = tree_.first(n); word < tree_.close(n); word = tree_.next(word)) {
      if (tree_.is_id(word)) id = tree_.word(word);
      const auto val_type = val_type_at(word);
      if (val_type && is_param && listed.size() <= wasm::kMaxParams) listed.push_back({id, *val_type});
      if (val_type && !is_param && results.size() <= wasm::kMaxResults) results.push_back(*val_type);
    }
  }
  if (listed.empty() && results.empty()) return named;
  wasm::FuncType type = listed.empty() || results.empty() ? *named : wasm::FuncType();
  if (!listed.empty()) {
    type.params.clear();
    for (const VariableInfo& p : listed) type.params.push_back(p.type);
  }
  if (!results.empty()) type.results = std::move(results);
  if (params != nullptr) *params = std::move(listed);
  return std::make_shared<const wasm::FuncType>(std::move(type));
}

void Environment::read_types(Node field) {
  if (tree_.is_form(field, "type")) read_type(field);
  if (!tree_.is_form(field, "rec")) return;
  for (Node n = tree_.first(field); n < tree_.close(field); n = tree_.next(n))
    if (tree_.is_form(n, "type")) read_type(n);
}

void Environment::read_type(Node field) {
  Node n = tree_.first(field);
  if (tree_.is_id(n)) type_ids_.add(tree_.word(n++), static_cast<uint32_t>(types_.size()));
  SharedType type = std::make_shared<const wasm::FuncType>();
  if (tree_.is_form(n, "sub")) n = tree_.close(n) - 1;  // the form is its last part
  if (tree_.kind(n) == TokenKind::kClose) n = tree_.open_of(n);
  if (tree_.is_form(n, "func")) {
    Node inner = tree_.first(n);
    type = read_type_use(inner, tree_.close(n));
  }
  types_.push_back(std::move(type));
}

void Environment::read_field(Node field) {
  const std::string_view head = tree_.head(field);
  if (head == "import") return read_import(field);
  if (head == "export") return read_export(field);
  if (head == "data") return read_data(field);
  if (head == "start") has_start = true;
  if (head == "elem" && tree_.is_id(tree_.first(field))) elements.add(tree_.word(tree_.first(field)), 0);
  if (head != "func" && head != "global" && head != "memory" && head != "table" && head != "tag") return;

  Node n = tree_.first(field);
  const Node close = tree_.close(field);
  if (tree_.is_id(n)) ++n;
  const bool as_memory = read_inline_exports(n, close, head);
  std::string_view module;
  std::string_view name;
  const bool is_import = read_inline_import(n, close, module, name);
  if (is_import) imports_end = tree_.end(field);
  if (head == "func") return read_function(field, n, is_import, module, name);
  if (head == "global") return read_global(field, n);
  if (head == "tag") return read_tag(field, n);
  if (head == "memory") {
    memory_is_exported |= as_memory;
    return read_memory(field, n, is_import);
  }
  if (tree_.is_id(tree_.first(field))) tables.add(tree_.word(tree_.first(field)), 0);
}

// `(import "module" "name" (func $f …))`
void Environment::read_import(Node field) {
  imports_end = tree_.end(field);
  Node n = tree_.first(field);
  const Node close = tree_.close(field);
  if (close - n < 3 || tree_.kind(n) != TokenKind::kString || tree_.kind(n + 1) != TokenKind::kString) return;
  const Node inner = n + 2;
  if (!tree_.is_form(inner)) return;
  const std::string_view head = tree_.head(inner);
  Node description = tree_.first(inner);
  if (head.empty()) return;
  if (tree_.is_id(description)) ++description;
  if (head == "func") read_function(inner, description, true, tree_.word(n), tree_.word(n + 1));
  if (head == "global") read_global(inner, description);
  if (head == "tag") read_tag(inner, description);
  if (head == "memory") read_memory(inner, description, true);
  if (head == "table" && tree_.is_id(tree_.first(inner))) tables.add(tree_.word(tree_.first(inner)), 0);
}

// `(export "name" (func $f))`
void Environment::read_export(Node field) {
  const Node name = tree_.first(field);
  if (name + 1 >= tree_.close(field) || tree_.kind(name) != TokenKind::kString) return;
  const std::string_view kind = tree_.head(name + 1);
  note_export(tree_.word(name), kind);
  if (kind == "memory" && tree_.word(name) == "\"memory\"") memory_is_exported = true;
}

void Environment::note_export(std::string_view quoted, std::string_view kind) {
  exports_function |= kind == "func";
  exports_memory_name |= quoted == "\"memory\"";
  exports_heap_base |= quoted == "\"__heap_base\"";
}

// True when one of them is named "memory".
bool Environment::read_inline_exports(Node& n, Node close, std::string_view kind) {
  bool as_memory = false;
  for (; n < close && tree_.is_form(n, "export"); n = tree_.next(n)) {
    const std::string_view name = tree_.word(tree_.first(n));
    note_export(name, kind);
    as_memory |= name == "\"memory\"";
  }
  return as_memory;
}

bool Environment::read_inline_import(Node& n, Node close, std::string_view& module, std::string_view& name) {
  if (n >= close || !tree_.is_form(n, "import")) return false;
  if (tree_.close(n) - n == 4) {
    module = tree_.word(n + 2);
    name = tree_.word(n + 3);
  }
  n = tree_.next(n);
  return true;
}

void Environment::read_function(Node field, Node n, bool is_import, std::string_view module,
                                std::string_view name) {
  FunctionInfo f;
  f.is_import = is_import;
  f.type = read_type_use(n, tree_.close(field));
  if (is_import) {
    ++imported_function_count;
    if (module.size() > 2 && name.size() > 2)
      f.host = host_.find(module.substr(1, module.size() - 2), name.substr(1, name.size() - 2));
  }
  if (const Node id = tree_.first(field); tree_.is_id(id)) {
    f.id = tree_.word(id);
    function_ids_.add(f.id, static_cast<uint32_t>(functions.size()));
  }
  functions.push_back(std::move(f));
}

void Environment::read_global(Node field, Node n) {
  VariableInfo g;
  if (n < tree_.close(field)) {
    if (tree_.is_form(n, "mut")) n = tree_.first(n);
    g.type = val_type_at(n).value_or(ValType::kI32);
  }
  if (const Node id = tree_.first(field); tree_.is_id(id)) {
    g.id = tree_.word(id);
    global_ids_.add(g.id, static_cast<uint32_t>(globals.size()));
  }
  globals.push_back(g);
}

void Environment::read_tag(Node field, Node n) {
  if (const Node id = tree_.first(field); tree_.is_id(id))
    tag_ids_.add(tree_.word(id), static_cast<uint32_t>(tags_.size()));
  tags_.push_back(read_type_use(n, tree_.close(field)));
}

const wasm::FuncType* Environment::find_tag(Node index) const {
  uint32_t at = wasm::kNoIndex;
  if (tree_.is_id(index)) at = tag_ids_.find(tree_.word(index));
  if (tree_.is_integer(index))
    at = static_cast<uint32_t>(number_of(tree_.word(index)).value_or(wasm::kNoIndex));
  return at < tags_.size() ? tags_[at].get() : nullptr;
}

// `1`, `1 16`, or `(data "…")`
void Environment::read_memory(Node field, Node n, bool is_import) {
  if (tree_.is_id(tree_.first(field))) memories.add(tree_.word(tree_.first(field)), memory_count);
  if (memory_count++ != 0) return;
  memory_is_import = is_import;
  const Node close = tree_.close(field);
  if (n < close && (tree_.word(n) == "i32" || tree_.word(n) == "i64")) ++n;
  if (n < close && tree_.is_form(n, "data")) {
    const uint64_t bytes = string_bytes(tree_.first(n), tree_.close(n));
    has_active_data = true;
    data_end = std::max(data_end, bytes);
    memory_pages = (bytes + wasm::kPageBytes - 1) / wasm::kPageBytes;
    memory_max_pages = memory_pages;
    return;
  }
  if (n >= close || !tree_.is_integer(n)) return;
  memory_min = n;
  memory_pages = number_of(tree_.word(n)).value_or(0);
  if (n + 1 < close && tree_.is_integer(n + 1)) memory_max_pages = number_of(tree_.word(n + 1));
}

uint64_t Environment::string_bytes(Node n, Node close) const {
  uint64_t bytes = 0;
  std::string unquoted;
  for (; n < close; n = tree_.next(n)) {
    if (tree_.kind(n) != TokenKind::kString) continue;
    unquoted.clear();
    wasm::append_unquoted(unquoted, tree_.word(n));
    bytes += unquoted.size();
  }
  return bytes;
}

// `(data $id? (memory …)? (offset (i32.const 8)) | (i32.const 8) "…"*)`
void Environment::read_data(Node field) {
  Node n = tree_.first(field);
  const Node close = tree_.close(field);
  if (tree_.is_id(n)) ++n;
  if (n < close && tree_.is_form(n, "memory")) n = tree_.next(n);
  if (n >= close || !tree_.is_form(n)) return;  // a passive segment
  has_active_data = true;
  Node constant = n;
  if (tree_.is_form(n, "offset")) constant = tree_.is_form(n + 2) ? n + 2 : n;  // flat: (offset i32.const 8)
  const Node value = constant + 2 + (tree_.word(constant + 1) == "offset" ? 1 : 0);
  std::optional<uint64_t> offset;
  if (value < close && tree_.word(value - 1) == "i32.const" && tree_.is_integer(value))
    offset = number_of(tree_.word(value));
  if (!offset) {
    unknown_data = field;
    return;
  }
  data_end = std::max(data_end, *offset + string_bytes(tree_.next(n), close));
}

FunctionHead Environment::read_head(Node func) const {
  FunctionHead head;
  Node n = tree_.first(func);
  const Node close = tree_.close(func);
  if (tree_.is_id(n)) ++n;
  while (n < close && (tree_.is_form(n, "export") || tree_.is_form(n, "import"))) n = tree_.next(n);
  std::vector<VariableInfo> params;
  head.type = read_type_use(n, close, &params);
  head.locals = LocalList(head.type, std::move(params));
  for (; n < close && tree_.is_form(n, "local"); n = tree_.next(n)) {
    std::string_view id;
    for (Node word = tree_.first(n); word < tree_.close(n); word = tree_.next(word)) {
      if (tree_.is_id(word)) id = tree_.word(word);
      if (const auto type = val_type_at(word)) head.locals.add({id, *type});
    }
  }
  head.body = n;
  head.end = tree_.text().empty() ? 0 : tree_.end(func + 1);
  for (Node after = tree_.first(func); after < n; after = tree_.next(after)) head.end = tree_.end(after);
  return head;
}

}  // namespace membrane::lang
