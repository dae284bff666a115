// A module as data: what the binary decoder and the text parser both produce, and
// what the validator, the encoder, the printer and the engine consume.
//
//   text ──parse──▶ Module ──encode──▶ binary
//   binary ─decode─▶ Module ──print───▶ text
//
// Code is kept as bytes of the binary format, always: function bodies, constant
// expressions and data segments are ranges of `Module::bytes`. A decoded module
// owns a copy of the whole binary there; a parsed one owns what the parser wrote.
//
// Index spaces hold imports first, as the specification has them.
//
// Ownership: a Module owns everything it names. Threads: immutable once made;
// share it freely.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_mapping.h"
#include "base/mapped_vector.h"
#include "wasm/types.h"

namespace membrane::wasm {

struct ByteRange {
  uint32_t offset = 0;  // into Module::bytes
  uint32_t size = 0;
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

// Locals of a function, run-length coded as in the binary format.
struct LocalRun {
  uint32_t count = 0;
  ValType type = ValType::kI32;
};

inline constexpr uint32_t kNoType = UINT32_MAX;

// The properties of a defined type besides its parameters and results.
struct TypeDetail {
  TypeKind kind = TypeKind::kFunc;
  bool is_final = true;
  uint32_t supertype = kNoType;
  uint32_t supertype_count = 0;   // as declared; more than one is invalid
  uint32_t group_begin = 0;       // of its recursive group: the first type
  uint32_t group_size = 1;        // and how many
  std::vector<FieldType> fields;  // of a struct; one for an array
};

// A final function type in a group of its own.
inline bool is_plain(const TypeDetail& d) {
  return d.kind == TypeKind::kFunc && d.is_final && d.supertype_count == 0 && d.group_size == 1;
}

inline constexpr uint32_t kNotImported = UINT32_MAX;

struct Import {
  std::string module;
  std::string name;
  ExternKind kind = ExternKind::kFunc;
  uint32_t index = 0;  // in the index space of its kind
};

struct Function {
  uint32_t type = 0;               // into Module::types
  uint32_t import = kNotImported;  // into Module::imports
  uint32_t first_local_run = 0;    // into Module::local_runs
  uint32_t local_run_count = 0;
  ByteRange code{};  // the expression after the local declarations, with its final `end`
};

struct Table {
  TableType type;
  uint32_t import = kNotImported;
  ByteRange init{};  // a constant expression with its final `end`; of no size where elements begin as null
};
struct Memory {
  MemoryType type;
  uint32_t import = kNotImported;
};
struct Global {
  GlobalType type;
  uint32_t import = kNotImported;
  ByteRange init;  // a constant expression with its final `end`
};

struct Tag {
  uint32_t type = 0;               // into Module::types: what its exceptions carry
  uint32_t import = kNotImported;  // into Module::imports
};

struct Export {
  std::string name;
  ExternKind kind = ExternKind::kFunc;
  uint32_t index = 0;
};

enum class SegmentMode : uint8_t { kPassive, kActive, kDeclarative };

struct ElementSegment {
  SegmentMode mode = SegmentMode::kPassive;
  ValType type = ValType::kFuncRef;  // (ref func) of function indices
  uint32_t table = 0;
  ByteRange offset;                 // kActive only
  std::vector<ByteRange> items;     // a constant expression each, when `uses_expressions`
  std::vector<uint32_t> functions;  // else function indices
  bool uses_expressions = false;
  [[nodiscard]] size_t size() const { return uses_expressions ? items.size() : functions.size(); }
};

struct DataSegment {
  SegmentMode mode = SegmentMode::kPassive;
  uint32_t memory = 0;
  ByteRange offset;  // kActive only
  ByteRange data;
};

struct CustomSection {
  std::string name;
  ByteRange data;  // after the name
  uint8_t after_section =
      0;  // id of the section that it follows, 0 at the start (WAT's custom annotations and round trips)
};

// One entry of the name section: `index` in the space, and for locals `outer` the function.
struct NameEntry {
  uint32_t outer = 0;
  uint32_t index = 0;
  std::string name;
};

// Names for people. From the text ($identifiers, without "$"), or from the "name"
// section. Sorted by (outer, index). Never needed to run.
struct Names {
  std::string module;
  std::vector<NameEntry> functions, locals, labels, types, tables, memories, globals, elements, datas, fields,
      tags;
  // When set, all the rest is empty: the names are read at the first call of function() or local().
  struct Later;
  std::shared_ptr<Later> later;

  [[nodiscard]] std::string_view function(uint32_t index) const;  // "" when it has none
  [[nodiscard]] std::string_view local(uint32_t function, uint32_t index) const;
};

// Where in the text the instruction at `code_offset` (into Module::bytes) was written.
// Sorted by code_offset. Empty for a decoded module.
struct SourcePoint {
  uint32_t code_offset = 0;
  uint32_t text_offset = 0;
  uint32_t text_end = 0;
};

struct Module {
  std::vector<uint8_t> bytes;
  std::shared_ptr<const FileMapping> mapped;  // when set, its bytes are these instead
  bool is_binary =
      false;  // it was decoded, and its bytes are its whole binary: equal bytes are equal modules
  std::vector<FuncType> types;
  // One for each type; empty when all are final function types, each in a group of its own.
  std::vector<TypeDetail> type_details;
  std::vector<Import> imports;
  MappedVector<Function> functions;
  MappedVector<LocalRun> local_runs;
  std::vector<Table> tables;
  std::vector<Memory> memories;
  std::vector<Global> globals;
  std::vector<Tag> tags;
  std::vector<Export> exports;
  std::vector<ElementSegment> elements;
  std::vector<DataSegment> datas;
  std::vector<CustomSection> customs;  // without "name", which is in `names`
  uint32_t start = UINT32_MAX;         // function index, or UINT32_MAX
  bool has_data_count =
      false;  // read from a binary; a parser sets it when code uses memory.init or data.drop
  Names names;
  std::vector<SourcePoint> source_map;

  [[nodiscard]] std::span<const uint8_t> content() const {
    return mapped == nullptr ? std::span<const uint8_t>(bytes) : mapped->bytes();
  }
  [[nodiscard]] std::span<const uint8_t> view(ByteRange r) const {
    return content().subspan(r.offset, r.size);
  }
  [[nodiscard]] TypeKind kind_of_type(uint32_t index) const {
    return type_details.empty() ? TypeKind::kFunc : type_details[index].kind;
  }
  // Of a struct or array.
  [[nodiscard]] std::span<const FieldType> fields_of(uint32_t type) const {
    return type_details[type].fields;
  }
  [[nodiscard]] uint32_t supertype_of(uint32_t type) const {
    return type_details.empty() ? kNoType : type_details[type].supertype;
  }
  [[nodiscard]] const FuncType& type_of_function(uint32_t index) const {
    return types[functions[index].type];
  }
  [[nodiscard]] const FuncType& type_of_tag(uint32_t index) const { return types[tags[index].type]; }
  [[nodiscard]] uint32_t imported_function_count() const;
  [[nodiscard]] uint32_t imported_table_count() const;
  [[nodiscard]] uint32_t imported_memory_count() const;
  [[nodiscard]] uint32_t imported_global_count() const;
  [[nodiscard]] const Export* find_export(std::string_view name) const;
  // The text place of the instruction at code_offset; nullptr when unknown.
  [[nodiscard]] const SourcePoint* source_of(uint32_t code_offset) const;
};

// Appends the details of the last of `module.types`, unless all types so far are plain.
void keep_detail(Module& module, TypeDetail detail);

}  // namespace membrane::wasm
