#include "wasm/text/printer.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "base/stop_scope.h"
#include "base/utf8.h"
#include "wasm/body.h"
#include "wasm/limits.h"
#include "wasm/text/lexer.h"
#include "wasm/text/numbers.h"
#include "wasm/text/scope.h"

namespace membrane::wasm {
namespace {

bool is_identifier(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), is_id_char);
}

// A name is printed wherever it is used, however often that is.
constexpr size_t kMaxNameBytes = 256;

// The names of one index space that can be printed: of equal ones the first, except for labels, of which each
// may hide another.
class PrintableNames {
 public:
  PrintableNames() = default;
  // Those entries whose `outer` is given.
  PrintableNames(const std::vector<NameEntry>& entries, uint32_t outer, bool may_repeat = false) {
    const auto begin = std::lower_bound(entries.begin(), entries.end(), outer,
                                        [](const NameEntry& e, uint32_t o) { return e.outer < o; });
    for (auto at = begin; at != entries.end() && at->outer == outer; ++at)
      if (!at->name.empty() && at->name.size() <= kMaxNameBytes && is_utf8(at->name) &&
          (scope_.add(at->name, at->index) || may_repeat))
        names_.push_back({at->name, at->index});
  }

  // Empty when the thing has no name that can be printed.
  [[nodiscard]] std::string_view operator[](uint32_t index) const {
    const auto at = std::lower_bound(names_.begin(), names_.end(), index,
                                     [](const NameScope::Name& n, uint32_t i) { return n.index < i; });
    return at == names_.end() || at->index != index ? std::string_view() : at->text;
  }

 private:
  NameScope scope_;
  std::vector<NameScope::Name> names_;
};

// The blocks around an instruction, innermost last.
class OpenLabels {
 public:
  void clear() {
    names_.clear();
    innermost_.clear();
  }
  void push_back(std::string_view name) {
    const auto position = static_cast<uint32_t>(names_.size());
    names_.push_back({name, kNoIndex});
    if (!name.empty()) names_.back().hidden = std::exchange(find(name), position);
  }
  void pop_back() {
    const Label label = names_.back();
    names_.pop_back();
    if (!label.name.empty()) find(label.name) = label.hidden;
  }
  [[nodiscard]] std::string_view back() const { return names_.back().name; }
  [[nodiscard]] bool empty() const { return names_.empty(); }
  [[nodiscard]] size_t size() const { return names_.size(); }
  // The name of the block at `depth`, when it means this block at this place; else "".
  [[nodiscard]] std::string_view name_at(uint32_t depth) {
    if (depth >= names_.size()) return {};
    const size_t position = names_.size() - 1 - depth;
    const std::string_view name = names_[position].name;
    return !name.empty() && find(name) == position ? name : std::string_view();
  }

 private:
  struct Label {
    std::string_view name;
    uint32_t hidden;  // position of the outer block of that name, or kNoIndex
  };
  uint32_t& find(std::string_view name) { return innermost_.try_emplace(name, kNoIndex).first->second; }

  std::vector<Label> names_;
  std::unordered_map<std::string_view, uint32_t> innermost_;
};

class Printer {
 public:
  explicit Printer(const Module& module)
      : m_(module),
        types_(module.names.types, 0),
        functions_(module.names.functions, 0),
        tables_(module.names.tables, 0),
        memories_(module.names.memories, 0),
        globals_(module.names.globals, 0),
        tags_(module.names.tags, 0),
        elements_(module.names.elements, 0),
        datas_(module.names.datas, 0) {}

  std::string run() {
    out_.reserve(m_.bytes.size() * 8 + 256);
    put("(module");
    if (!m_.names.module.empty() && is_utf8(m_.names.module)) {
      put(" ");
      id(m_.names.module);
    }
    types();
    for (const Import& i : m_.imports) import(i);
    for (uint32_t i = 0; i < m_.tables.size(); ++i) table(i);
    for (uint32_t i = 0; i < m_.memories.size(); ++i) memory(i);
    for (uint32_t i = 0; i < m_.tags.size(); ++i) tag(i);
    for (uint32_t i = 0; i < m_.globals.size(); ++i) global(i);
    for (const Export& e : m_.exports) export_(e);
    if (m_.start != UINT32_MAX) {
      line("(start ");
      reference(functions_, m_.start);
      put(")");
    }
    for (uint32_t i = 0; i < m_.elements.size(); ++i) element(i);
    for (uint32_t i = 0; i < m_.datas.size(); ++i) data(i);
    for (uint32_t i = 0; i < m_.functions.size() && !is_full(); ++i)
      function(i);  // last: they set locals_ and labels_
    for (const CustomSection& c : m_.customs) custom(c);
    if (is_full()) put("\n  (; the rest is left out: the text would be too large ;)");
    put(")\n");
    return std::move(out_);
  }

 private:
  // -- writing

  // Types and locals take far less room in a binary than in a text.
  [[nodiscard]] bool is_full() const {
    constexpr size_t kMostBytes = 64u << 20, kMostForEachByte = 32;
    return out_.size() > kMostBytes + kMostForEachByte * m_.content().size() || StopScope::stop_wanted();
  }

  void put(std::string_view text) { out_ += text; }
  void put(uint64_t number) { out_ += std::to_string(number); }
  void line(std::string_view text) {
    put("\n  ");
    put(text);
  }
  void quoted(std::string_view bytes) { append_quoted(out_, bytes); }

  // "$name"; in quotes where the name has other characters than an identifier.
  void id(std::string_view name) {
    put("$");
    if (is_identifier(name)) put(name);
    else quoted(name);
  }

  // Its name, or the index.
  void reference(const PrintableNames& names, uint32_t index) {
    const std::string_view name = names[index];
    if (name.empty()) return put(index);
    id(name);
  }

  // " $name (;3;)" after the keyword of a definition.
  void definition(const PrintableNames& names, const std::vector<NameEntry>& all, uint32_t index) {
    const std::string_view name = names[index];
    if (!name.empty()) {
      put(" ");
      id(name);
    }
    put(" (;");
    put(index);
    put(";)");
    if (name.empty()) unprintable(all, index);
  }

  // A name that is not unique, as a comment.
  void unprintable(const std::vector<NameEntry>& all, uint32_t index) {
    const auto at = std::lower_bound(all.begin(), all.end(), index,
                                     [](const NameEntry& e, uint32_t i) { return e.index < i; });
    if (at == all.end() || at->index != index) return;
    comment(at->name);
  }

  void comment(std::string_view bytes) {
    std::string text;
    append_quoted(text, bytes);
    if (text.find(";)") != std::string::npos || text.find("(;") != std::string::npos) return;
    put(" (;");
    put(text);
    put(";)");
  }

  // -- types

  void value_type(ValType type) {
    if (!is_indexed(type)) return put(name_of(type));
    put(is_nullable(type) ? "(ref null " : "(ref ");
    reference(types_, type_index_of(type));
    put(")");
  }

  void reference_type(ValType type) { value_type(type); }

  // "func" of funcref.
  void heap_type(ValType type) {
    if (is_indexed(type)) return reference(types_, type_index_of(type));
    constexpr std::string_view kBefore = "(ref ";
    const std::string name = name_of(non_null(type));
    put(std::string_view(name).substr(kBefore.size(), name.size() - kBefore.size() - 1));
  }

  void mutable_type(ValType type, bool is_mutable) {
    if (is_mutable) put("(mut ");
    value_type(type);
    if (is_mutable) put(")");
  }

  void value_types(std::string_view keyword, const std::vector<ValType>& types) {
    if (types.empty()) return;
    put(" (");
    put(keyword);
    for (const ValType t : types) {
      put(" ");
      value_type(t);
    }
    put(")");
  }

  void params_and_results(const FuncType& type) {
    value_types("param", type.params);
    value_types("result", type.results);
  }

  // The types of a group that has several, within (rec …).
  void types() {
    for (uint32_t i = 0; i < m_.types.size();) {
      const uint32_t size = m_.type_details.empty() ? 1 : m_.type_details[i].group_size;
      if (size != 1) line("(rec");
      for (const uint32_t end = i + size; i < end; ++i) type(i);
      if (size != 1) put(")");
    }
  }

  void type(uint32_t index) {
    line("(type");
    definition(types_, m_.names.types, index);
    put(" ");
    if (m_.type_details.empty()) {
      composite_type(index);
    } else {
      sub_type(index, m_.type_details[index]);
    }
    put(")");
  }

  void sub_type(uint32_t index, const TypeDetail& detail) {
    if (detail.is_final && detail.supertype_count == 0) return composite_type(index);
    put(detail.is_final ? "(sub final " : "(sub ");
    for (uint32_t i = 0; i < detail.supertype_count; ++i) {
      reference(types_, detail.supertype);
      put(" ");
    }
    composite_type(index);
    put(")");
  }

  void composite_type(uint32_t index) {
    switch (m_.kind_of_type(index)) {
      case TypeKind::kFunc:
        put("(func");
        params_and_results(m_.types[index]);
        return put(")");
      case TypeKind::kStruct: return struct_type(index);
      case TypeKind::kArray: {
        const FieldType& field = m_.fields_of(index)[0];
        put("(array ");
        mutable_type(field.type, field.is_mutable);
        return put(")");
      }
    }
  }

  void struct_type(uint32_t index) {
    const PrintableNames names(m_.names.fields, index);
    put("(struct");
    uint32_t at = 0;
    for (const FieldType& field : m_.fields_of(index)) {
      put(" (field ");
      if (const auto name = names[at++]; !name.empty()) {
        id(name);
        put(" ");
      }
      mutable_type(field.type, field.is_mutable);
      put(")");
    }
    put(")");
  }

  void type_reference(uint32_t index) {
    put(" (type ");
    reference(types_, index);
    put(")");
  }

  // "(type 0) (param i32) (result i32)"
  void type_use(uint32_t index) {
    type_reference(index);
    if (index < m_.types.size() && m_.kind_of_type(index) == TypeKind::kFunc)
      params_and_results(m_.types[index]);
  }

  void limits(const Limits& limits) {
    put(limits.is_64 ? " i64 " : " ");
    put(limits.min);
    if (!limits.max) return;
    put(" ");
    put(*limits.max);
  }

  void table_type(const TableType& type) {
    limits(type.limits);
    put(" ");
    value_type(type.element);
  }

  void global_type(const GlobalType& type) {
    put(" ");
    mutable_type(type.type, type.is_mutable);
  }

  // -- fields

  void import(const Import& i) {
    line("(import ");
    quoted(i.module);
    put(" ");
    quoted(i.name);
    put(" (");
    put(name_of(i.kind));
    switch (i.kind) {
      case ExternKind::kFunc:
        definition(functions_, m_.names.functions, i.index);
        type_use(m_.functions[i.index].type);
        break;
      case ExternKind::kTable:
        definition(tables_, m_.names.tables, i.index);
        table_type(m_.tables[i.index].type);
        break;
      case ExternKind::kMemory:
        definition(memories_, m_.names.memories, i.index);
        limits(m_.memories[i.index].type.limits);
        break;
      case ExternKind::kGlobal:
        definition(globals_, m_.names.globals, i.index);
        global_type(m_.globals[i.index].type);
        break;
      case ExternKind::kTag:
        definition(tags_, m_.names.tags, i.index);
        type_use(m_.tags[i.index].type);
        break;
    }
    put("))");
  }

  void table(uint32_t index) {
    if (m_.tables[index].import != kNotImported) return;
    line("(table");
    definition(tables_, m_.names.tables, index);
    table_type(m_.tables[index].type);
    if (m_.tables[index].init.size != 0) {
      put(" ");
      expression(m_.tables[index].init);
    }
    put(")");
  }

  void memory(uint32_t index) {
    if (m_.memories[index].import != kNotImported) return;
    line("(memory");
    definition(memories_, m_.names.memories, index);
    limits(m_.memories[index].type.limits);
    put(")");
  }

  void tag(uint32_t index) {
    if (m_.tags[index].import != kNotImported) return;
    line("(tag");
    definition(tags_, m_.names.tags, index);
    type_use(m_.tags[index].type);
    put(")");
  }

  void global(uint32_t index) {
    const Global& g = m_.globals[index];
    if (g.import != kNotImported) return;
    line("(global");
    definition(globals_, m_.names.globals, index);
    global_type(g.type);
    put(" ");
    expression(g.init);
    put(")");
  }

  void export_(const Export& e) {
    line("(export ");
    quoted(e.name);
    put(" (");
    put(name_of(e.kind));
    put(" ");
    switch (e.kind) {
      case ExternKind::kFunc: reference(functions_, e.index); break;
      case ExternKind::kTable: reference(tables_, e.index); break;
      case ExternKind::kMemory: reference(memories_, e.index); break;
      case ExternKind::kGlobal: reference(globals_, e.index); break;
      case ExternKind::kTag: reference(tags_, e.index); break;
    }
    put("))");
  }

  void element(uint32_t index) {
    const ElementSegment& s = m_.elements[index];
    line("(elem");
    definition(elements_, m_.names.elements, index);
    if (s.mode == SegmentMode::kDeclarative) put(" declare");
    if (s.mode == SegmentMode::kActive) {
      put(" (table ");
      reference(tables_, s.table);
      put(") (offset ");
      expression(s.offset);
      put(")");
    }
    put(" ");
    if (!s.uses_expressions) {
      put("func");
      for (const uint32_t function : s.functions) {
        put(" ");
        reference(functions_, function);
      }
    } else {
      value_type(s.type);
      for (const ByteRange& item : s.items) {
        put(" (item ");
        expression(item);
        put(")");
      }
    }
    put(")");
  }

  void data(uint32_t index) {
    const DataSegment& s = m_.datas[index];
    line("(data");
    definition(datas_, m_.names.datas, index);
    if (s.mode == SegmentMode::kActive) {
      if (s.memory != 0) {
        put(" (memory ");
        reference(memories_, s.memory);
        put(")");
      }
      put(" (offset ");
      expression(s.offset);
      put(")");
    }
    constexpr size_t kBytesInLine = 64;
    const auto bytes = m_.view(s.data);
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    for (size_t i = 0; i < text.size(); i += kBytesInLine) {
      put(text.size() > kBytesInLine ? "\n    " : " ");
      quoted(text.substr(i, kBytesInLine));
    }
    put(")");
  }

  void custom(const CustomSection& c) {
    line("(; custom section of ");
    put(c.data.size);
    put(" bytes ;)");
    comment(c.name);
  }

  // -- functions

  void function(uint32_t index) {
    const Function& f = m_.functions[index];
    if (f.import != kNotImported) return;
    locals_ = PrintableNames(m_.names.locals, index);
    labels_ = PrintableNames(m_.names.labels, index, true);
    line("(func");
    definition(functions_, m_.names.functions, index);
    type_reference(f.type);
    uint32_t local = 0;
    if (f.type < m_.types.size()) {
      // Names and their neighbours without: (param i32 i64) (param $x i32).
      local = variables("param", m_.types[f.type].params);
      value_types("result", m_.types[f.type].results);
    }
    declared_locals(f, local);
    body(f);
    put(")");
  }

  uint32_t variables(std::string_view keyword, const std::vector<ValType>& types) {
    uint32_t index = 0;
    for (const ValType type : types) variable(keyword, type, index++);
    return index;
  }

  void variable(std::string_view keyword, ValType type, uint32_t index) {
    put(" (");
    put(keyword);
    put(" ");
    if (const auto name = locals_[index]; !name.empty()) {
      id(name);
      put(" ");
    }
    value_type(type);
    put(")");
  }

  void declared_locals(const Function& f, uint32_t index) {
    bool is_first = true;
    for (uint32_t r = 0; r < f.local_run_count; ++r) {
      const LocalRun& run = m_.local_runs[f.first_local_run + r];
      for (uint32_t i = 0; i < run.count && !is_full(); ++i, ++index) {
        if (index >= kMaxLocals) return put("\n    (; more locals than text can have ;)");
        if (is_first) put("\n   ");
        is_first = false;
        variable("local", run.type, index);
      }
    }
  }

  void body(const Function& f) {
    const auto code = m_.view(f.code);
    BodyReader reader(code);
    open_labels_.clear();
    label_count_ = 0;
    while (reader.next() && !is_full()) {
      const Instruction& in = reader.instruction();
      const bool is_end = in.op == Opcode::kEnd;
      if (is_end && open_labels_.empty()) {
        if (!reader.at_end()) put("\n    (; code after the end of the function ;)");
        return;
      }
      if (is_end) open_labels_.pop_back();
      indent(in.op == Opcode::kElse && !open_labels_.empty() ? open_labels_.size() - 1 : open_labels_.size());
      instruction(in);
    }
    put("\n    (; code that cannot be decoded, at byte ");
    put(reader.offset());
    put(" ;)");
  }

  void indent(size_t depth) {
    constexpr size_t kDeepest = 40;  // so that the text stays proportional to the code
    put("\n    ");
    out_.append(2 * std::min(depth, kDeepest), ' ');
  }

  // A constant expression, flat and without its `end`.
  void expression(ByteRange range) {
    const auto code = m_.view(range);
    BodyReader reader(code);
    open_labels_.clear();
    label_count_ = 0;
    bool is_first = true;
    while (reader.next() && !reader.at_end()) {
      if (!is_first) put(" ");
      is_first = false;
      if (reader.instruction().op == Opcode::kEnd && !open_labels_.empty()) open_labels_.pop_back();
      instruction(reader.instruction());
    }
  }

  // The mnemonic and its immediates. Opens the label of a block.
  void instruction(const Instruction& in) {
    put(info(in.op).text);
    const auto index = [this](const PrintableNames& names, uint32_t i) {
      put(" ");
      reference(names, i);
    };
    SelectTypeReader types(in);
    switch (info(in.op).immediate) {
      case Immediate::kNone: return;
      case Immediate::kMemory:
        if (in.index != 0) index(memories_, in.index);
        return;
      case Immediate::kMemoryCopy:
        if (in.index == 0 && in.index2 == 0) return;
        index(memories_, in.index);
        return index(memories_, in.index2);
      case Immediate::kBlock: return block(in);
      case Immediate::kTryTable: return try_table(in);
      case Immediate::kLabel: return label(in.index);
      case Immediate::kLabelTable: return label_table(in);
      case Immediate::kFunc: return index(functions_, in.index);
      case Immediate::kLocal: return index(locals_, in.index);
      case Immediate::kGlobal: return index(globals_, in.index);
      case Immediate::kTag: return index(tags_, in.index);
      case Immediate::kTable: return index(tables_, in.index);
      case Immediate::kData: return index(datas_, in.index);
      case Immediate::kMemoryInit:
        if (in.index2 != 0) index(memories_, in.index2);
        return index(datas_, in.index);
      case Immediate::kElem: return index(elements_, in.index);
      case Immediate::kCallIndirect:
        if (in.index2 != 0) index(tables_, in.index2);
        return type_use(in.index);
      case Immediate::kTableInit: index(tables_, in.index2); return index(elements_, in.index);
      case Immediate::kTableCopy: index(tables_, in.index); return index(tables_, in.index2);
      case Immediate::kMem: return memarg(in);
      case Immediate::kMemLane: memarg(in); [[fallthrough]];
      case Immediate::kLane: put(" "); return put(in.lane);
      case Immediate::kShuffle:
        for (int i = 0; i < 16; ++i) {
          put(" ");
          put(in.raw[i]);
        }
        return;
      case Immediate::kV128: return vector(in);
      case Immediate::kI32:
      case Immediate::kI64: put(" "); return put_signed(in.value);
      case Immediate::kF32: return float32(static_cast<uint32_t>(in.value));
      case Immediate::kF64: return float64(in.value);
      case Immediate::kType: return index(types_, in.index);
      case Immediate::kField: index(types_, in.index); return field(in);
      case Immediate::kTypeCount:
        index(types_, in.index);
        put(" ");
        return put(in.index2);
      case Immediate::kTypeData: index(types_, in.index); return index(datas_, in.index2);
      case Immediate::kTypeElem: index(types_, in.index); return index(elements_, in.index2);
      case Immediate::kTypeCopy: index(types_, in.index); return index(types_, in.index2);
      case Immediate::kLabelCast:
        label(in.index);
        put(" ");
        reference_type(in.ref_type);
        put(" ");
        return reference_type(in.cast_type);
      case Immediate::kRefType:
        put(" ");
        if (in.op == Opcode::kRefNull) return heap_type(in.ref_type);
        return reference_type(in.op == Opcode::kRefTest || in.op == Opcode::kRefCast ? non_null(in.ref_type)
                                                                                     : in.ref_type);
      case Immediate::kSelectTypes:
        put(" (result");
        for (uint32_t i = 0; i < in.count; ++i) {
          put(" ");
          value_type(types.next());
        }
        return put(")");
    }
  }

  // A field by its name, when that is unique.
  void field(const Instruction& in) {
    put(" ");
    const auto [names, is_new] = fields_.try_emplace(in.index);
    if (is_new) names->second = PrintableNames(m_.names.fields, in.index);
    reference(names->second, in.index2);
  }

  void put_signed(uint64_t value) { out_ += std::to_string(static_cast<int64_t>(value)); }

  void block(const Instruction& in) {
    const std::string_view name = labels_[label_count_++];
    open_labels_.push_back(name);
    if (!name.empty()) {
      put(" ");
      id(name);
    }
    if (in.block.kind == BlockType::Kind::kIndex) return type_use(in.block.index);
    if (in.block.kind == BlockType::Kind::kEmpty) return;
    put(" (result ");
    value_type(in.block.value);
    put(")");
  }

  // The labels of the clauses are of the blocks around it: its own hides one of the same name only inside.
  void try_table(const Instruction& in) {
    static constexpr std::string_view kNames[] = {"catch", "catch_ref", "catch_all", "catch_all_ref"};
    block(in);
    const std::string_view own = open_labels_.back();
    open_labels_.pop_back();
    CatchReader clauses(in);
    for (uint32_t i = 0; i < in.count; ++i) {
      const CatchClause clause = clauses.next();
      put(" (");
      put(kNames[clause.kind]);
      if (!clause.catches_all()) {
        put(" ");
        reference(tags_, clause.tag);
      }
      label(clause.label);
      put(")");
    }
    open_labels_.push_back(own);
  }

  // By name when the name means that block here, else by depth.
  void label(uint32_t depth) {
    put(" ");
    if (depth >= open_labels_.size()) return put(depth);
    const std::string_view name = open_labels_.name_at(depth);
    if (name.empty()) return put(depth);
    id(name);
  }

  void label_table(const Instruction& in) {
    LabelReader labels(in);
    for (uint32_t i = 0; i <= in.count; ++i) label(labels.next());
  }

  void memarg(const Instruction& in) {
    if (in.index != 0) {
      put(" ");
      reference(memories_, in.index);
    }
    if (in.mem_offset != 0) {
      put(" offset=");
      put(in.mem_offset);
    }
    if (in.align != info(in.op).align) {
      put(" align=");
      put(uint64_t{1} << in.align);
    }
  }

  void vector(const Instruction& in) {
    put(" i32x4");
    for (int lane = 0; lane < 4; ++lane) {
      uint32_t bits = 0;
      for (int b = 0; b < 4; ++b) bits |= static_cast<uint32_t>(in.raw[4 * lane + b]) << (8 * b);
      char digits[8];
      const auto end = std::to_chars(digits, digits + sizeof digits, bits, 16).ptr;
      put(" 0x");
      put(std::string_view(digits, end));
    }
  }

  template <typename Float>
  void decimal_comment(Float value) {
    if (!std::isfinite(value)) return;
    char digits[32];
    const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
    put(" (;=");
    put(std::string_view(digits, end));
    put(";)");
  }
  void float32(uint32_t bits) {
    put(" " + print_f32(bits));
    decimal_comment(std::bit_cast<float>(bits));
  }
  void float64(uint64_t bits) {
    put(" " + print_f64(bits));
    decimal_comment(std::bit_cast<double>(bits));
  }

  const Module& m_;
  PrintableNames types_, functions_, tables_, memories_, globals_, tags_, elements_, datas_;
  PrintableNames locals_, labels_;                       // of the function that is printed
  std::unordered_map<uint32_t, PrintableNames> fields_;  // of the structs whose fields were named so far
  OpenLabels open_labels_;
  uint32_t label_count_ = 0;  // blocks begun in this function
  std::string out_;
};

}  // namespace

std::string print_text(const Module& module) { return Printer(module).run(); }

}  // namespace membrane::wasm
