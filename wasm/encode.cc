#include <algorithm>
#include <array>
#include <string_view>

#include "base/leb128.h"
#include "wasm/binary.h"
#include "wasm/body.h"
#include "wasm/names.h"
#include "wasm/type_coding.h"

namespace membrane::wasm {
namespace {

using Bytes = std::vector<uint8_t>;

void append(Bytes& out, std::span<const uint8_t> bytes) { out.insert(out.end(), bytes.begin(), bytes.end()); }
void append_u32(Bytes& out, size_t value) { write_leb128(out, static_cast<uint32_t>(value)); }
void append_type(Bytes& out, ValType type) { append_val_type(out, type); }

void append_name(Bytes& out, std::string_view name) {
  append_u32(out, name.size());
  out.insert(out.end(), name.begin(), name.end());
}

void append_types(Bytes& out, const std::vector<ValType>& types) {
  append_u32(out, types.size());
  for (const ValType t : types) append_type(out, t);
}

void append_limits(Bytes& out, const Limits& limits) {
  out.push_back(static_cast<uint8_t>((limits.max ? 1 : 0) | (limits.is_64 ? 4 : 0)));
  write_leb128(out, limits.min);
  if (limits.max) write_leb128(out, *limits.max);
}

// -- instructions (5.4)

void append_opcode(Bytes& out, Opcode op) {
  const OpcodeInfo& row = info(op);
  if (row.prefix == 0) {
    out.push_back(static_cast<uint8_t>(row.code));
    return;
  }
  out.push_back(row.prefix);
  append_u32(out, row.code);
}

void append_block_type(Bytes& out, const BlockType& type) {
  switch (type.kind) {
    case BlockType::Kind::kEmpty: return out.push_back(0x40);
    case BlockType::Kind::kValue: return append_type(out, type.value);
    case BlockType::Kind::kIndex: return write_leb128(out, static_cast<int64_t>(type.index));
  }
}

void append_little_endian(Bytes& out, uint64_t value, unsigned size_bytes) {
  for (unsigned i = 0; i < size_bytes; ++i) out.push_back(static_cast<uint8_t>(value >> (8 * i)));
}

void append_labels(Bytes& out, const Instruction& in) {
  append_u32(out, in.count);
  LabelReader labels(in);
  for (uint32_t i = 0; i <= in.count; ++i) append_u32(out, labels.next());
}

void append_clauses(Bytes& out, const Instruction& in) {
  append_u32(out, in.count);
  CatchReader clauses(in);
  for (uint32_t i = 0; i < in.count; ++i) {
    const CatchClause clause = clauses.next();
    out.push_back(clause.kind);
    if (!clause.catches_all()) append_u32(out, clause.tag);
    append_u32(out, clause.label);
  }
}

void append_select_types(Bytes& out, const Instruction& in) {
  append_u32(out, in.count);
  SelectTypeReader types(in);
  for (uint32_t i = 0; i < in.count; ++i) append_type(out, types.next());
}

void append_instruction(Bytes& out, const Instruction& in) {
  append_opcode(out, in.op);
  switch (info(in.op).immediate) {
    case Immediate::kNone: return;
    case Immediate::kBlock: return append_block_type(out, in.block);
    case Immediate::kTryTable: append_block_type(out, in.block); return append_clauses(out, in);
    case Immediate::kLabelTable: return append_labels(out, in);
    case Immediate::kLabel:
    case Immediate::kFunc:
    case Immediate::kLocal:
    case Immediate::kGlobal:
    case Immediate::kTag:
    case Immediate::kTable:
    case Immediate::kType:
    case Immediate::kMemory:
    case Immediate::kData:
    case Immediate::kElem: return append_u32(out, in.index);
    case Immediate::kField:
    case Immediate::kTypeCount:
    case Immediate::kTypeData:
    case Immediate::kTypeElem:
    case Immediate::kTypeCopy:
    case Immediate::kCallIndirect:
    case Immediate::kTableInit:
    case Immediate::kTableCopy:
    case Immediate::kMemoryCopy:
    case Immediate::kMemoryInit: append_u32(out, in.index); return append_u32(out, in.index2);
    case Immediate::kMem:
    case Immediate::kMemLane:
      append_u32(out, in.align + (in.index == 0 ? 0 : kMemArgHasMemory));
      if (in.index != 0) append_u32(out, in.index);
      write_leb128(out, in.mem_offset);
      if (info(in.op).immediate == Immediate::kMemLane) out.push_back(in.lane);
      return;
    case Immediate::kLane: return out.push_back(in.lane);
    case Immediate::kShuffle:
    case Immediate::kV128: return append(out, {in.raw, 16});
    case Immediate::kI32: return write_leb128(out, static_cast<int32_t>(in.value));
    case Immediate::kI64: return write_leb128(out, static_cast<int64_t>(in.value));
    case Immediate::kF32: return append_little_endian(out, in.value, 4);
    case Immediate::kF64: return append_little_endian(out, in.value, 8);
    case Immediate::kLabelCast:
      out.push_back(
          static_cast<uint8_t>((is_nullable(in.ref_type) ? 1 : 0) | (is_nullable(in.cast_type) ? 2 : 0)));
      append_u32(out, in.index);
      append_heap_type(out, in.ref_type);
      return append_heap_type(out, in.cast_type);
    case Immediate::kRefType: return append_heap_type(out, in.ref_type);
    case Immediate::kSelectTypes: return append_select_types(out, in);
  }
}

bool names_data(Opcode op) {
  const Immediate immediate = info(op).immediate;
  return immediate == Immediate::kMemoryInit || immediate == Immediate::kData ||
         immediate == Immediate::kTypeData;
}

// -- sections (5.5)

class Encoder {
 public:
  explicit Encoder(const Module& module) : module_(module) {}

  Bytes run() {
    out_ = {0x00, 'a', 's', 'm', 0x01, 0x00, 0x00, 0x00};
    out_.reserve(module_.bytes.size() + 64);
    const Bytes code = code_section();  // made first: it shows whether a data count is needed
    customs_after(0);
    type_section();
    vector_section(2, module_.imports, [this](const Import& i) { return import(i), true; });
    vector_section(3, module_.functions, [this](const Function& f) { return function(f); });
    vector_section(4, module_.tables,
                   [this](const Table& t) { return t.import == kNotImported && (own_table(t), true); });
    vector_section(5, module_.memories, [this](const Memory& m) {
      return m.import == kNotImported && (append_limits(body_, m.type.limits), true);
    });
    vector_section(13, module_.tags,
                   [this](const Tag& t) { return t.import == kNotImported && (tag(t), true); });
    vector_section(6, module_.globals, [this](const Global& g) { return global(g); });
    vector_section(7, module_.exports, [this](const Export& e) { return export_(e), true; });
    start_section();
    vector_section(9, module_.elements, [this](const ElementSegment& s) { return element(s), true; });
    data_count_section();
    section(10, code);
    customs_after(10);
    vector_section(11, module_.datas, [this](const DataSegment& s) { return data(s), true; });
    name_section();
    return std::move(out_);
  }

 private:
  void section(uint8_t id, const Bytes& contents) {
    if (contents.empty()) return;
    out_.push_back(id);
    append_u32(out_, contents.size());
    append(out_, contents);
  }

  // The section `id` of those items for which `item` wrote something (returned true), then the
  // custom sections that follow it. No section when there are none.
  void vector_section(uint8_t id, const auto& items, auto item) {
    body_.clear();
    uint32_t count = 0;
    for (const auto& i : items) count += item(i) ? 1 : 0;
    if (count != 0) {
      Bytes contents;
      append_u32(contents, count);
      append(contents, body_);
      section(id, contents);
    }
    customs_after(id);
  }

  void customs_after(uint8_t id) {
    for (const CustomSection& custom : module_.customs) {
      if (custom.after_section != id) continue;
      Bytes contents;
      append_name(contents, custom.name);
      append(contents, module_.view(custom.data));
      section(0, contents);
    }
  }

  void name_section() {
    Bytes names;
    encode_names(names, module_.names);
    if (names.empty()) return;
    Bytes contents;
    append_name(contents, "name");
    append(contents, names);
    section(0, contents);
  }

  // The section counts groups; one of a single type is written without its group.
  void type_section() {
    body_.clear();
    uint32_t count = 0;
    for (uint32_t i = 0; i < module_.types.size(); ++count) {
      const uint32_t size = module_.type_details.empty() ? 1 : module_.type_details[i].group_size;
      if (size != 1) {
        body_.push_back(0x4E);
        append_u32(body_, size);
      }
      for (const uint32_t end = i + size; i < end; ++i) type(i);
    }
    if (count != 0) {
      Bytes contents;
      append_u32(contents, count);
      append(contents, body_);
      section(1, contents);
    }
    customs_after(1);
  }

  void type(uint32_t index) {
    const bool is_plain_module = module_.type_details.empty();
    if (!is_plain_module) sub_type(module_.type_details[index]);
    switch (module_.kind_of_type(index)) {
      case TypeKind::kFunc:
        body_.push_back(0x60);
        append_types(body_, module_.types[index].params);
        return append_types(body_, module_.types[index].results);
      case TypeKind::kStruct:
        body_.push_back(0x5F);
        append_u32(body_, module_.fields_of(index).size());
        for (const FieldType& f : module_.fields_of(index)) field(f);
        return;
      case TypeKind::kArray: body_.push_back(0x5E); return field(module_.fields_of(index)[0]);
    }
  }

  void sub_type(const TypeDetail& detail) {
    if (detail.is_final && detail.supertype_count == 0) return;
    body_.push_back(detail.is_final ? 0x4F : 0x50);
    append_u32(body_, detail.supertype_count);
    for (uint32_t i = 0; i < detail.supertype_count; ++i) append_u32(body_, detail.supertype);
  }

  void field(const FieldType& field) {
    append_type(body_, field.type);
    body_.push_back(field.is_mutable ? 1 : 0);
  }

  void table(const TableType& type) {
    append_type(body_, type.element);
    append_limits(body_, type.limits);
  }

  void own_table(const Table& t) {
    if (t.init.size != 0) {
      body_.push_back(0x40);
      body_.push_back(0x00);
    }
    table(t.type);
    if (t.init.size != 0) code(body_, t.init);
  }

  void global_type(const GlobalType& type) {
    append_type(body_, type.type);
    body_.push_back(type.is_mutable ? 1 : 0);
  }

  void import(const Import& import) {
    append_name(body_, import.module);
    append_name(body_, import.name);
    body_.push_back(static_cast<uint8_t>(import.kind));
    switch (import.kind) {
      case ExternKind::kFunc: return append_u32(body_, module_.functions[import.index].type);
      case ExternKind::kTable: return table(module_.tables[import.index].type);
      case ExternKind::kMemory: return append_limits(body_, module_.memories[import.index].type.limits);
      case ExternKind::kGlobal: return global_type(module_.globals[import.index].type);
      case ExternKind::kTag: return tag(module_.tags[import.index]);
    }
  }

  void tag(const Tag& tag) {
    body_.push_back(0x00);  // of an exception
    append_u32(body_, tag.type);
  }

  bool function(const Function& function) {
    if (function.import != kNotImported) return false;
    append_u32(body_, function.type);
    return true;
  }

  bool global(const Global& global) {
    if (global.import != kNotImported) return false;
    global_type(global.type);
    code(body_, global.init);
    return true;
  }

  void export_(const Export& e) {
    append_name(body_, e.name);
    body_.push_back(static_cast<uint8_t>(e.kind));
    append_u32(body_, e.index);
  }

  void start_section() {
    body_.clear();
    if (module_.start != UINT32_MAX) append_u32(body_, module_.start);
    section(8, body_);
    customs_after(8);
  }

  void element(const ElementSegment& segment) {
    const bool is_active = segment.mode == SegmentMode::kActive;
    // The forms without table index have no room for a type: it is funcref.
    const bool is_short =
        is_active && segment.table == 0 && (segment.type == ValType::kFuncRef || !segment.uses_expressions);
    const bool has_second_bit = is_active ? !is_short : segment.mode == SegmentMode::kDeclarative;
    body_.push_back(static_cast<uint8_t>((is_active ? 0 : 1) | (has_second_bit ? 2 : 0) |
                                         (segment.uses_expressions ? 4 : 0)));
    if (is_active) {
      if (!is_short) append_u32(body_, segment.table);
      code(body_, segment.offset);
    }
    if (!is_short) {
      if (segment.uses_expressions) append_type(body_, segment.type);
      else body_.push_back(0x00);
    }
    append_u32(body_, segment.size());
    if (segment.uses_expressions)
      for (const ByteRange& item : segment.items) code(body_, item);
    else
      for (const uint32_t function : segment.functions) append_u32(body_, function);
  }

  void data_count_section() {
    body_.clear();
    if (needs_data_count_) append_u32(body_, module_.datas.size());
    section(12, body_);
    customs_after(12);
  }

  void data(const DataSegment& segment) {
    const bool is_active = segment.mode == SegmentMode::kActive;
    body_.push_back(!is_active ? 1 : segment.memory == 0 ? 0 : 2);
    if (is_active) {
      if (segment.memory != 0) append_u32(body_, segment.memory);
      code(body_, segment.offset);
    }
    append_u32(body_, segment.data.size);
    append(body_, module_.view(segment.data));
  }

  // -- code

  Bytes code_section() {
    Bytes bodies, body;
    uint32_t count = 0;
    bodies.reserve(module_.bytes.size());
    for (const Function& function : module_.functions) {
      if (function.import != kNotImported) continue;
      ++count;
      body.clear();
      locals(body, function);
      code(body, function.code);
      append_u32(bodies, body.size());
      append(bodies, body);
    }
    Bytes contents;
    if (count == 0) return contents;
    contents.reserve(bodies.size() + 5);
    append_u32(contents, count);
    append(contents, bodies);
    return contents;
  }

  // As few runs as possible: neighbours of one type are one run, and empty runs are left out.
  void locals(Bytes& out, const Function& function) {
    std::vector<LocalRun> merged;
    const auto runs =
        std::span(module_.local_runs).subspan(function.first_local_run, function.local_run_count);
    for (const LocalRun& run : runs) {
      if (run.count == 0) continue;
      if (!merged.empty() && merged.back().type == run.type) merged.back().count += run.count;
      else merged.push_back(run);
    }
    append_u32(out, merged.size());
    for (const LocalRun& run : merged) {
      append_u32(out, run.count);
      append_type(out, run.type);
    }
  }

  // The instructions of `range`, each in its shortest form. What cannot be decoded is copied.
  void code(Bytes& out, ByteRange range) {
    const auto bytes = module_.view(range);
    BodyReader reader(bytes);
    uint32_t done = 0;
    while (reader.next()) {
      const Instruction& in = reader.instruction();
      needs_data_count_ |= names_data(in.op);
      append_instruction(out, in);
      done = reader.offset();
    }
    append(out, bytes.subspan(done));
  }

  const Module& module_;
  Bytes out_;
  Bytes body_;  // of the current section, without its count
  bool needs_data_count_ = false;
};

}  // namespace

Bytes encode(const Module& module) { return Encoder(module).run(); }

}  // namespace membrane::wasm
