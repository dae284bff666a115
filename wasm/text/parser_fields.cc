#include <algorithm>

#include "base/leb128.h"
#include "wasm/limits.h"
#include "wasm/text/parser_impl.h"

namespace membrane::wasm::text {
namespace {

bool extern_kind_of(std::string_view word, ExternKind& out) {
  for (const auto kind :
       {ExternKind::kFunc, ExternKind::kTable, ExternKind::kMemory, ExternKind::kGlobal, ExternKind::kTag})
    if (word == wasm::name_of(kind)) return out = kind, true;
  return false;
}

Space space_of(ExternKind kind) {
  switch (kind) {
    case ExternKind::kFunc: return Space::kFunc;
    case ExternKind::kTable: return Space::kTable;
    case ExternKind::kMemory: return Space::kMemory;
    case ExternKind::kGlobal: return Space::kGlobal;
    case ExternKind::kTag: return Space::kTag;
  }
  return Space::kFunc;
}

}  // namespace

// At the field's open parenthesis; leaves at_ on its close.
bool Parser::define_field(uint32_t open) {
  const uint32_t close = s_.tokens[open].partner;
  const Token head = s_.tokens[open + 1];
  const std::string_view w = word(head);
  at_ = open + 2;
  if (head.kind != TokenKind::kKeyword) {
    at_ = open + 1;
    return unexpected(
        "a module field: type, rec, import, func, table, memory, global, tag, export, start, elem or data");
  }
  if (w == "func") return define_function(close);
  if (w == "export") return define_export();
  if (w == "import") return define_import();
  if (w == "memory") return define_memory();
  if (w == "data") return define_data();
  if (w == "global") return define_global(close);
  if (w == "tag") return define_tag();
  if (w == "table") return define_table(close);
  if (w == "elem") return define_elem(close);
  if (w == "start") return define_start(head);
  if (w == "type" || w == "rec") {  // the first pass read it
    at_ = close;
    return true;
  }
  report_unknown_field(head);
  return false;
}

void Parser::add_import(std::string module, std::string name, ExternKind kind, uint32_t index) {
  module_.imports.push_back({std::move(module), std::move(name), kind, index});
}

// `(import "module" "name" (func $f …))`
bool Parser::define_import() {
  std::string module, name;
  if (!take_name(module, "module name") || !take_name(name, "import name")) return false;
  ExternKind kind{};
  if (peek().kind != TokenKind::kOpen || !extern_kind_of(word(peek(1)), kind))
    return unexpected("(func …), (table …), (memory …), (global …) or (tag …)");
  at_ += 2;
  take_id();
  const auto import = static_cast<uint32_t>(module_.imports.size());
  uint32_t index = 0;
  // What is imported takes its index also when its type cannot be read, so that those after it are right.
  const auto append = [&](auto& space, auto item) {
    index = static_cast<uint32_t>(space.size());
    item.import = import;
    space.push_back(item);
  };
  bool is_read = false;
  switch (kind) {
    case ExternKind::kFunc: {
      TypeUse use;
      scope(Space::kLocal).clear();  // names of parameters document; they bind nothing
      is_read = read_type_use(use, true);
      Function function;
      function.type = use.index;
      append(module_.functions.own(), function);
      break;
    }
    case ExternKind::kTable: {
      Table table;
      is_read = read_table_type(table.type);
      append(module_.tables, table);
      break;
    }
    case ExternKind::kMemory: {
      Memory memory;
      memory.type.limits.is_64 = take_address_type();
      is_read = read_limits(memory.type.limits);
      append(module_.memories, memory);
      break;
    }
    case ExternKind::kGlobal: {
      Global global;
      is_read = read_global_type(global.type);
      append(module_.globals, global);
      break;
    }
    case ExternKind::kTag: {
      TypeUse use;
      scope(Space::kLocal).clear();
      is_read = read_type_use(use, true);
      Tag tag;
      tag.type = use.index;
      append(module_.tags, tag);
      break;
    }
  }
  add_import(std::move(module), std::move(name), kind, index);
  return is_read && take_close("import's description");
}

bool Parser::read_inline_import(ExternKind kind, uint32_t index) {
  at_ += 2;
  std::string module, name;
  if (!take_name(module, "module name") || !take_name(name, "import name") || !take_close("(import …)"))
    return false;
  add_import(std::move(module), std::move(name), kind, index);
  return true;
}

bool Parser::read_inline_exports(ExternKind kind, uint32_t index) {
  while (at_form("export")) {
    at_ += 2;
    std::string name;
    if (!take_name(name, "export name") || !take_close("(export …)")) return false;
    module_.exports.push_back({std::move(name), kind, index});
  }
  return true;
}

bool Parser::define_export() {
  Export e;
  if (!take_name(e.name, "export name")) return false;
  if (peek().kind != TokenKind::kOpen || !extern_kind_of(word(peek(1)), e.kind))
    return unexpected("(func …), (table …), (memory …), (global …) or (tag …)");
  at_ += 2;
  if (!read_index_token(space_of(e.kind), e.index)) return false;
  module_.exports.push_back(std::move(e));
  return take_close("export's description");
}

bool Parser::define_start(Token at) {
  if (start_.kind != TokenKind::kEnd) {
    report(DiagnosticCode::kDuplicateStart, at,
           "a module starts once; it does in line " + std::to_string(locate(text_, start_.begin).line));
    return false;
  }
  start_ = at;
  return read_index_token(Space::kFunc, module_.start);
}

bool Parser::define_function(uint32_t close) {
  const auto index = static_cast<uint32_t>(module_.functions.size());
  function_ = index;
  scope(Space::kLocal).clear();
  label_count_ = 0;
  module_.functions.own().emplace_back();  // also when it cannot be read, so that indices stay right
  take_id();
  if (!read_inline_exports(ExternKind::kFunc, index)) return false;
  Function function;
  if (at_form("import")) {
    function.import = static_cast<uint32_t>(module_.imports.size());
    if (!read_inline_import(ExternKind::kFunc, index)) return false;
  }
  TypeUse use;
  if (!read_type_use(use, true)) return false;
  function.type = use.index;
  if (function.import == kNotImported) {
    uint32_t locals =
        use.index < module_.types.size() ? static_cast<uint32_t>(module_.types[use.index].params.size()) : 0;
    if (!read_locals(locals, function)) return false;
    if (!read_expression(close, function.code)) return false;
    for (const auto& name : scope(Space::kLocal).names())
      module_.names.locals.push_back({index, name.index, std::string(name.text.substr(1))});
  }
  module_.functions.own()[index] = function;
  return true;
}

bool Parser::read_locals(uint32_t& local_count, Function& function) {
  function.first_local_run = static_cast<uint32_t>(module_.local_runs.size());
  const auto add = [&] {
    const Token at = peek();
    ValType type{};
    if (!read_val_type(type)) return false;
    if (++local_count > kMaxLocals) {
      report(DiagnosticCode::kImplementationLimit, at, "more than 50000 parameters and locals");
      return false;
    }
    std::vector<LocalRun>& runs = module_.local_runs.own();
    if (runs.size() > function.first_local_run && runs.back().type == type) {
      ++runs.back().count;
    } else {
      runs.push_back({1, type});
    }
    return true;
  };
  while (at_form("local")) {
    at_ += 2;
    if (peek().kind == TokenKind::kId) {
      const Token id = peek();
      ++at_;
      if (!scope(Space::kLocal).add(word(id), local_count)) report_duplicate(Space::kLocal, id);
      if (!add()) return false;
    } else {
      while (peek().kind != TokenKind::kClose)
        if (!add()) return false;
    }
    if (!take_close("(local …)")) return false;
  }
  function.local_run_count = static_cast<uint32_t>(module_.local_runs.size()) - function.first_local_run;
  return true;
}

bool Parser::define_table(uint32_t close) {
  const auto index = static_cast<uint32_t>(module_.tables.size());
  module_.tables.emplace_back();
  take_id();
  if (!read_inline_exports(ExternKind::kTable, index)) return false;
  Table table;
  if (at_form("import")) {
    table.import = static_cast<uint32_t>(module_.imports.size());
    if (!read_inline_import(ExternKind::kTable, index)) return false;
  }
  table.type.limits.is_64 = take_address_type();
  if (!at_ref_type() || table.import != kNotImported) {
    if (!read_limits(table.type.limits) || !read_ref_type(table.type.element)) return false;
    const bool has_init = at_ != close && table.import == kNotImported;
    if (has_init && !read_expression(close, table.init)) return false;
    module_.tables[index] = table;
    return true;
  }
  // `funcref (elem …)`: as large as its elements, which it starts with.
  ElementSegment segment;
  segment.mode = SegmentMode::kActive;
  segment.table = index;
  if (!read_ref_type(segment.type)) return false;
  table.type.element = segment.type;
  if (!at_form("elem")) return unexpected("(elem …), or the table's size before its type");
  const uint32_t elem_close = peek().partner;
  at_ += 2;
  segment.offset = zero_offset(table.type.limits);
  if (!read_inline_elem(segment, elem_close)) return false;
  ++at_;
  table.type.limits.min = segment.size();
  table.type.limits.max = segment.size();
  module_.tables[index] = table;
  module_.elements.push_back(std::move(segment));
  return at_ == close || unexpected(") to close this table");
}

bool Parser::define_memory() {
  const auto index = static_cast<uint32_t>(module_.memories.size());
  module_.memories.emplace_back();
  take_id();
  if (!read_inline_exports(ExternKind::kMemory, index)) return false;
  Memory memory;
  if (at_form("import")) {
    memory.import = static_cast<uint32_t>(module_.imports.size());
    if (!read_inline_import(ExternKind::kMemory, index)) return false;
  }
  memory.type.limits.is_64 = take_address_type();
  if (!at_form("data") || memory.import != kNotImported) {
    if (!read_limits(memory.type.limits)) return false;
    module_.memories[index] = memory;
    return true;
  }
  // `(data "…")`: as many pages as the data needs, which it starts with.
  at_ += 2;
  DataSegment segment;
  segment.mode = SegmentMode::kActive;
  segment.memory = index;
  segment.offset = zero_offset(memory.type.limits);
  if (!read_strings(segment.data)) return false;
  const uint32_t pages = (segment.data.size + kPageBytes - 1) / kPageBytes;
  memory.type.limits.min = pages;
  memory.type.limits.max = pages;
  module_.memories[index] = memory;
  module_.datas.push_back(segment);
  return take_close("(data …)");
}

bool Parser::define_global(uint32_t close) {
  const auto index = static_cast<uint32_t>(module_.globals.size());
  module_.globals.emplace_back();
  take_id();
  if (!read_inline_exports(ExternKind::kGlobal, index)) return false;
  Global global;
  if (at_form("import")) {
    global.import = static_cast<uint32_t>(module_.imports.size());
    if (!read_inline_import(ExternKind::kGlobal, index)) return false;
  }
  if (!read_global_type(global.type)) return false;
  if (global.import == kNotImported && !read_expression(close, global.init)) return false;
  module_.globals[index] = global;
  return true;
}

// `(tag $id? (export …)* (import …)? (type x)? (param …)*)`
bool Parser::define_tag() {
  const auto index = static_cast<uint32_t>(module_.tags.size());
  module_.tags.emplace_back();
  take_id();
  if (!read_inline_exports(ExternKind::kTag, index)) return false;
  Tag tag;
  if (at_form("import")) {
    tag.import = static_cast<uint32_t>(module_.imports.size());
    if (!read_inline_import(ExternKind::kTag, index)) return false;
  }
  TypeUse use;
  scope(Space::kLocal).clear();  // names of parameters document; they bind nothing
  if (!read_type_use(use, true)) return false;
  tag.type = use.index;
  module_.tags[index] = tag;
  return true;
}

// The constant expression `i32.const 0`, or `i64.const 0`.
ByteRange Parser::zero_offset(const Limits& limits) {
  ByteRange range{static_cast<uint32_t>(module_.bytes.size()), 3};
  write_opcode(module_.bytes, limits.is_64 ? Opcode::kI64Const : Opcode::kI32Const);
  module_.bytes.push_back(0);
  write_opcode(module_.bytes, Opcode::kEnd);
  return range;
}

ByteRange Parser::ref_func(uint32_t function) {
  ByteRange range{static_cast<uint32_t>(module_.bytes.size()), 0};
  write_opcode(module_.bytes, Opcode::kRefFunc);
  write_leb128(module_.bytes, function);
  write_opcode(module_.bytes, Opcode::kEnd);
  range.size = static_cast<uint32_t>(module_.bytes.size()) - range.offset;
  return range;
}

// `(offset instruction*)`, or one folded instruction.
bool Parser::read_offset(ByteRange& out) {
  const uint32_t close = peek().partner;
  if (!at_form("offset")) return read_expression(close + 1, out);
  at_ += 2;
  if (!read_expression(close, out)) return false;
  ++at_;
  return true;
}

// `(item instruction*)`, or one folded instruction.
bool Parser::read_item(ElementSegment& segment) {
  const uint32_t close = peek().partner;
  ByteRange range;
  if (at_form("item")) {
    at_ += 2;
    if (!read_expression(close, range)) return false;
    ++at_;
  } else if (!read_expression(close + 1, range)) {
    return false;
  }
  segment.items.push_back(range);
  return true;
}

bool Parser::read_elem_indices(ElementSegment& segment) {
  while (at_index() && !full()) {
    uint32_t function = 0;
    read_index_token(Space::kFunc, function);
    segment.functions.push_back(function);
  }
  return peek().kind == TokenKind::kClose || unexpected("a function's name or index, or )");
}

// Expressions up to `close`.
bool Parser::read_elem_items(ElementSegment& segment, uint32_t close) {
  segment.uses_expressions = true;
  while (at_ < close) {
    if (peek().kind != TokenKind::kOpen)
      return unexpected("(item …), or a folded instruction such as (ref.func $f)");
    if (!read_item(segment)) return false;
  }
  return true;
}

// The elements of an inline `(elem …)`: function indices or expressions; the type has been read.
bool Parser::read_inline_elem(ElementSegment& segment, uint32_t close) {
  if (peek().kind == TokenKind::kOpen) return read_elem_items(segment, close);
  if (!read_elem_indices(segment)) return false;
  if (segment.type == ValType::kFuncRef) {
    segment.type = non_null(ValType::kFuncRef);
    return true;
  }
  // Only expressions can have another type than funcref. The validator checks that.
  for (const uint32_t function : segment.functions) segment.items.push_back(ref_func(function));
  segment.functions.clear();
  segment.uses_expressions = true;
  return true;
}

bool Parser::define_elem(uint32_t close) {
  take_id();
  ElementSegment segment;
  const bool uses_table = at_form("table");
  bool may_omit_kind = false;  // `(elem (i32.const 0) $f)`
  if (at_keyword("declare")) {
    ++at_;
    segment.mode = SegmentMode::kDeclarative;
  } else if (uses_table || at_index()) {
    segment.mode = SegmentMode::kActive;
    if (uses_table) at_ += 2;
    if (!read_index_token(Space::kTable, segment.table)) return false;
    if (uses_table && !take_close("(table …)")) return false;
    may_omit_kind = !uses_table;
  } else if (peek().kind == TokenKind::kOpen && !at_ref_type()) {
    segment.mode = SegmentMode::kActive;
    may_omit_kind = true;
  }
  if (segment.mode == SegmentMode::kActive) {
    if (peek().kind != TokenKind::kOpen) return unexpected("(offset …), or a constant such as (i32.const 0)");
    if (!read_offset(segment.offset)) return false;
  }
  const bool no_kind = may_omit_kind && (at_index() || at_ == close);
  if (no_kind || at_keyword("func")) {
    if (!no_kind) ++at_;
    segment.type = non_null(ValType::kFuncRef);
    if (!read_elem_indices(segment)) return false;
  } else {
    if (!at_ref_type()) return unexpected("func, funcref, externref or another reference type");
    if (!read_ref_type(segment.type)) return false;
    if (!read_elem_items(segment, close)) return false;
  }
  module_.elements.push_back(std::move(segment));
  return true;
}

bool Parser::read_strings(ByteRange& out) {
  out.offset = static_cast<uint32_t>(module_.bytes.size());
  std::string bytes;
  while (peek().kind == TokenKind::kString) {
    bytes.clear();
    append_unquoted(bytes, word(s_.tokens[at_++]));
    module_.bytes.insert(module_.bytes.end(), bytes.begin(), bytes.end());
  }
  out.size = static_cast<uint32_t>(module_.bytes.size()) - out.offset;
  return peek().kind == TokenKind::kClose || unexpected("a string, or )");
}

bool Parser::define_data() {
  take_id();
  DataSegment segment;
  if (at_form("memory")) {
    at_ += 2;
    segment.mode = SegmentMode::kActive;
    if (!read_index_token(Space::kMemory, segment.memory) || !take_close("(memory …)")) return false;
  } else if (at_index()) {
    segment.mode = SegmentMode::kActive;
    read_index_token(Space::kMemory, segment.memory);
  } else if (peek().kind == TokenKind::kOpen) {
    segment.mode = SegmentMode::kActive;
  }
  if (segment.mode == SegmentMode::kActive) {
    if (peek().kind != TokenKind::kOpen) return unexpected("(offset …), or a constant such as (i32.const 0)");
    if (!read_offset(segment.offset)) return false;
  }
  if (!read_strings(segment.data)) return false;
  module_.datas.push_back(segment);
  return true;
}

}  // namespace membrane::wasm::text
