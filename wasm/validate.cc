#include "wasm/validate.h"

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_set>

#include "base/findings.h"
#include "base/stop_scope.h"
#include "base/text.h"
#include "wasm/binary.h"
#include "wasm/explain.h"
#include "wasm/limits.h"
#include "wasm/report.h"
#include "wasm/validate_code.h"

namespace membrane::wasm {
namespace {

using enum DiagnosticCode;

// Everything in a module except function bodies (specification, 3.2 and 3.4).
class Declarations {
 public:
  Declarations(const Module& module, CodeValidator& code, Report& report)
      : module_(module), code_(code), report_(report) {}

  bool run() {
    return counts() && types() && functions() && tables() && memories() && tags() && globals() &&
           table_values() && exports() && start() && elements() && datas();
  }

 private:
  bool fail(FieldKind kind, uint32_t index, Diagnostic d) { return report_.fail(kind, index, std::move(d)); }

  static Diagnostic too_many(size_t count, uint32_t limit, std::string_view noun) {
    return {.code = kImplementationLimit,
            .message = "too many " + std::string(noun),
            .found = std::to_string(count),
            .expected = "at most " + std::to_string(limit)};
  }

  bool at_most(size_t count, uint32_t limit, std::string_view noun) {
    return count <= limit || report_.fail(too_many(count, limit, noun));
  }
  bool at_most(size_t count, uint32_t limit, std::string_view noun, FieldKind kind, uint32_t index) {
    return count <= limit || fail(kind, index, too_many(count, limit, noun));
  }

  bool counts() {
    return at_most(module_.types.size(), kMaxTypes, "types") &&
           at_most(module_.functions.size(), kMaxFunctions, "functions") &&
           at_most(module_.imports.size(), kMaxImports, "imports") &&
           at_most(module_.exports.size(), kMaxExports, "exports") &&
           at_most(module_.globals.size(), kMaxGlobals, "globals") &&
           at_most(module_.tags.size(), kMaxTags, "tags") &&
           at_most(module_.tables.size(), kMaxTables, "tables") &&
           at_most(module_.memories.size(), kMaxMemories, "memories") &&
           at_most(module_.elements.size(), kMaxElementSegments, "element segments") &&
           at_most(module_.datas.size(), kMaxDataSegments, "data segments");
  }

  static constexpr uint64_t kStepsOfReference = 32;  // whose supertypes may be searched

  bool types() {
    for (uint32_t i = 0; i < module_.types.size(); ++i) {
      const FuncType& type = module_.types[i];
      if (!at_most(type.params.size(), kMaxParams, "parameters in a function type", FieldKind::kType, i) ||
          !at_most(type.results.size(), kMaxResults, "results in a function type", FieldKind::kType, i))
        return false;
      // A type may name those of its own group and those before it.
      const uint32_t known = group_end(i);
      for (const ValType t : type.params)
        if (!known_in_type(t, known, i)) return false;
      for (const ValType t : type.results)
        if (!known_in_type(t, known, i)) return false;
      if (!module_.type_details.empty() && !type_detail(i, known)) return false;
    }
    for (uint32_t i = 0; i < module_.type_details.size(); ++i) {
      const uint64_t references = module_.types[i].params.size() + module_.types[i].results.size();
      if (StopScope::stop_wanted(1 + kStepsOfReference * (references + module_.fields_of(i).size())))
        return report_.fail(stopped_finding("the validation"));
      if (!fits_supertype(i)) return false;
    }
    return true;
  }

  uint32_t group_end(uint32_t type) const {
    if (module_.type_details.empty()) return type + 1;
    return module_.type_details[type].group_begin + module_.type_details[type].group_size;
  }

  bool known_in_type(ValType t, uint32_t known, uint32_t index) {
    return !is_indexed(t) || type_index_of(t) < known ||
           fail(FieldKind::kType, index,
                unknown(kUnknownType, "type", type_index_of(t), known, type_name(index)));
  }

  static std::string type_name(uint32_t index) { return "type " + std::to_string(index); }

  bool type_detail(uint32_t index, uint32_t known) {
    const TypeDetail& d = module_.type_details[index];
    if (!at_most(d.fields.size(), kMaxFields, "fields in a struct type", FieldKind::kType, index))
      return false;
    for (const FieldType& f : d.fields)
      if (!known_in_type(f.type, known, index)) return false;
    if (d.supertype_count > 1)
      return fail(FieldKind::kType, index,
                  {.code = kSubtypeMismatch,
                   .message = type_name(index) + " has several supertypes",
                   .found = std::to_string(d.supertype_count),
                   .expected = "at most 1"});
    if (d.supertype == kNoType) return true;
    return d.supertype < index ||
           fail(FieldKind::kType, index, unknown(kUnknownType, "type", d.supertype, index, type_name(index)));
  }

  bool fits_supertype(uint32_t index) {
    const TypeDetail& d = module_.type_details[index];
    if (d.supertype == kNoType) return true;
    const TypeDetail& super = module_.type_details[d.supertype];
    std::string_view why;
    if (super.is_final) why = "is final";
    else if (super.kind != d.kind) why = "is of another kind";
    else if (!fields_match(d, super) || !function_matches(module_.types[index], module_.types[d.supertype]))
      why = "has a form that it does not fit";
    else if (code_.relations().depth(index) > kMaxSubtypeDepth) why = "has too many supertypes itself";
    return why.empty() || fail(FieldKind::kType, index,
                               {.code = kSubtypeMismatch,
                                .message = "the supertype of " + type_name(index) + " " + std::string(why),
                                .found = type_name(d.supertype)});
  }

  bool fields_match(const TypeDetail& sub, const TypeDetail& super) {
    if (sub.fields.size() < super.fields.size()) return false;
    for (size_t i = 0; i < super.fields.size(); ++i)
      if (!code_.relations().field_matches(sub.fields[i], super.fields[i])) return false;
    return true;
  }

  bool function_matches(const FuncType& sub, const FuncType& super) {
    const auto match = [this](ValType a, ValType b) { return code_.relations().matches(a, b); };
    return std::ranges::equal(super.params, sub.params, match) &&
           std::ranges::equal(sub.results, super.results, match);
  }

  // Of a declaration other than a type's.
  bool known(ValType t, FieldKind kind, uint32_t index, auto what) {
    return code_.is_known(t) ||
           fail(kind, index, unknown(kUnknownType, "type", type_index_of(t), module_.types.size(), what()));
  }

  bool function_type(uint32_t type, FieldKind kind, uint32_t index, auto what) {
    if (type >= module_.types.size())
      return fail(kind, index, unknown(kUnknownType, "type", type, module_.types.size(), what()));
    return module_.kind_of_type(type) == TypeKind::kFunc ||
           fail(kind, index,
                {.code = kTypeMismatch,
                 .message = what() + " needs a function type",
                 .found = type_name(type),
                 .expected = "(func …)"});
  }

  // "import \"env\" \"print\"" or "function $f".
  std::string subject(std::string_view noun, uint32_t import, std::string label) {
    if (import == kNotImported) return std::string(noun) + " " + std::move(label);
    const Import& i = module_.imports[import];
    return "import \"" + i.module + "\" \"" + i.name + "\"";
  }

  bool functions() {
    for (uint32_t i = 0; i < module_.functions.size(); ++i) {
      const Function& f = module_.functions[i];
      if (!function_type(f.type, FieldKind::kFunc, i,
                         [&] { return subject("function", f.import, place_of_function(module_, i)); }))
        return false;
    }
    return true;
  }

  // `what` makes the name of the owner of the limits; only a failure needs it.
  bool limits(const Limits& limits, FieldKind kind, uint32_t index, auto what) {
    return !limits.max || limits.min <= *limits.max ||
           fail(kind, index,
                {.code = kMinExceedsMax,
                 .message = "the minimum of " + what() + " is above its maximum",
                 .found = std::to_string(limits.min) + " " + std::to_string(*limits.max)});
  }

  bool tables() {
    for (uint32_t i = 0; i < module_.tables.size(); ++i) {
      const Table& t = module_.tables[i];
      const auto what = [&] { return subject("table", t.import, std::to_string(i)); };
      if (!known(t.type.element, FieldKind::kTable, i, what) ||
          !limits(t.type.limits, FieldKind::kTable, i, what) || !table_size(t, i))
        return false;
    }
    return true;
  }

  // The initial values of tables' elements. They may read imported globals, which have their values
  // before.
  bool table_values() {
    const uint32_t imported_globals = module_.imported_global_count();
    for (uint32_t i = 0; i < module_.tables.size(); ++i) {
      const Table& t = module_.tables[i];
      if (t.import != kNotImported) continue;
      if (t.init.size != 0) {
        if (!code_.constant(t.init, t.type.element, imported_globals, "the initial value of table", i))
          return false;
      } else if (!is_defaultable(t.type.element)) {
        return fail(FieldKind::kTable, i,
                    {.code = kNotDefaultable,
                     .message = "the elements of table " + std::to_string(i) + " cannot begin as null",
                     .found = name_of(t.type.element),
                     .expected = name_of(nullable(t.type.element)),
                     .hint = "Write the initial value after the table's type."});
      }
    }
    return true;
  }

  // The number of elements is limited where the table is made.
  bool table_size(const Table& t, uint32_t index) {
    const Limits& size = t.type.limits;
    const uint64_t largest = std::max(size.min, size.max.value_or(0));
    return size.is_64 || largest <= UINT32_MAX ||
           fail(FieldKind::kTable, index,
                {.code = kTableTooLarge,
                 .message = subject("table", t.import, std::to_string(index)) +
                            " has more elements than 32-bit indices can name",
                 .found = std::to_string(largest),
                 .expected = "at most " + std::to_string(UINT32_MAX)});
  }

  bool memories() {
    for (uint32_t i = 0; i < module_.memories.size(); ++i) {
      const Memory& m = module_.memories[i];
      const Limits& size = m.type.limits;
      const auto what = [&] { return subject("memory", m.import, std::to_string(i)); };
      const uint64_t largest = std::max(size.min, size.max.value_or(0));
      if (size.is_64 && largest > kMaxPages64)
        return fail(FieldKind::kMemory, i,
                    {.code = kMemoryTooLarge,
                     .message = what() + " is larger than 2^64 bytes",
                     .found = count_of(largest, "page"),
                     .expected = "at most " + std::to_string(kMaxPages64) + " pages"});
      if (!size.is_64 && largest > kMaxPages)
        return fail(FieldKind::kMemory, i,
                    {.code = kMemoryTooLarge,
                     .message = what() + " is larger than 4 GiB",
                     .found = count_of(largest, "page"),
                     .expected = "at most 65536 pages"});
      if (!limits(size, FieldKind::kMemory, i, what)) return false;
    }
    return true;
  }

  bool tags() {
    for (uint32_t i = 0; i < module_.tags.size(); ++i) {
      const Tag& t = module_.tags[i];
      if (!function_type(t.type, FieldKind::kTag, i,
                         [&] { return subject("tag", t.import, label_of_tag(module_, i)); }))
        return false;
      if (const auto& results = module_.types[t.type].results; !results.empty())
        return fail(FieldKind::kTag, i,
                    {.code = kTagWithResults,
                     .message = "the type of " + subject("tag", t.import, label_of_tag(module_, i)) +
                                " has results: nothing comes back from where an exception is caught",
                     .found = list_of(results),
                     .expected = "[]"});
    }
    return true;
  }

  bool globals() {
    for (uint32_t i = 0; i < module_.globals.size(); ++i) {
      const Global& g = module_.globals[i];
      if (!known(g.type.type, FieldKind::kGlobal, i,
                 [&] { return subject("global", g.import, std::to_string(i)); }))
        return false;
      if (g.import == kNotImported &&
          !code_.constant(g.init, g.type.type, i, "the initial value of global", i))
        return false;
    }
    return true;
  }

  uint32_t all_globals() const { return static_cast<uint32_t>(module_.globals.size()); }

  size_t count_of_kind(ExternKind kind) const {
    switch (kind) {
      case ExternKind::kFunc: return module_.functions.size();
      case ExternKind::kTable: return module_.tables.size();
      case ExternKind::kMemory: return module_.memories.size();
      case ExternKind::kGlobal: return module_.globals.size();
      case ExternKind::kTag: return module_.tags.size();
    }
    return 0;
  }

  static DiagnosticCode unknown_of_kind(ExternKind kind) {
    switch (kind) {
      case ExternKind::kFunc: return kUnknownFunction;
      case ExternKind::kTable: return kUnknownTable;
      case ExternKind::kMemory: return kUnknownMemory;
      case ExternKind::kGlobal: return kUnknownGlobal;
      case ExternKind::kTag: return kUnknownTag;
    }
    return kUnknownFunction;
  }

  bool exports() {
    for (const Export& e : module_.exports)
      if (e.index >= count_of_kind(e.kind))
        return report_.fail_export(
            e.name, 0,
            unknown(unknown_of_kind(e.kind), e.kind == ExternKind::kFunc ? "function" : name_of(e.kind),
                    e.index, count_of_kind(e.kind), "export \"" + e.name + "\""));
    return export_names();
  }

  bool export_names() {
    constexpr size_t kFew = 8;  // below it, comparing all pairs is faster than hashing
    const auto& all = module_.exports;
    if (all.size() <= kFew) {
      for (size_t i = 0; i < all.size(); ++i)
        for (size_t j = 0; j < i; ++j)
          if (all[i].name == all[j].name) return duplicate(all[i].name);
      return true;
    }
    std::unordered_set<std::string_view> names;
    names.reserve(all.size());
    for (const Export& e : all)
      if (!names.insert(e.name).second) return duplicate(e.name);
    return true;
  }

  bool duplicate(const std::string& name) {
    return report_.fail_export(name, 1,
                               {.code = kDuplicateExport,
                                .message = "the name \"" + name + "\" is exported twice",
                                .found = "\"" + name + "\""});
  }

  bool start() {
    if (module_.start == UINT32_MAX) return true;
    if (module_.start >= module_.functions.size())
      return fail(FieldKind::kStart, 0,
                  unknown(kUnknownFunction, "function", module_.start, module_.functions.size(), "start"));
    const FuncType& type = module_.type_of_function(module_.start);
    return (type.params.empty() && type.results.empty()) ||
           fail(FieldKind::kStart, 0,
                {.code = kStartSignature,
                 .message = "the start function " + place_of_function(module_, module_.start) +
                            " takes or returns values",
                 .found = list_of(type.params) + " -> " + list_of(type.results),
                 .expected = "[] -> []"});
  }

  bool elements() {
    for (uint32_t i = 0; i < module_.elements.size(); ++i)
      if (!element(i, module_.elements[i])) return false;
    return true;
  }

  bool element(uint32_t index, const ElementSegment& segment) {
    const auto where = [&] { return "element segment " + std::to_string(index); };
    if (!at_most(segment.size(), kMaxTableElements, "elements in an element segment", FieldKind::kElem,
                 index))
      return false;
    if (!known(segment.type, FieldKind::kElem, index, where)) return false;
    if (segment.mode == SegmentMode::kActive) {
      if (segment.table >= module_.tables.size())
        return fail(FieldKind::kElem, index,
                    unknown(kUnknownTable, "table", segment.table, module_.tables.size(), where()));
      const ValType type = module_.tables[segment.table].type.element;
      if (!code_.relations().matches(segment.type, type))
        return fail(FieldKind::kElem, index,
                    {.code = kTableTypeMismatch,
                     .message = where() + " does not fit its table",
                     .found = name_of(segment.type),
                     .expected = name_of(type)});
      const ValType address = address_type(module_.tables[segment.table].type.limits);
      if (!code_.constant(segment.offset, address, all_globals(), "the offset of element segment", index))
        return false;
    }
    for (const uint32_t f : segment.functions)
      if (f >= module_.functions.size())
        return fail(FieldKind::kElem, index,
                    unknown(kUnknownFunction, "function", f, module_.functions.size(), where()));
    for (const ByteRange& item : segment.items)
      if (!code_.constant(item, segment.type, all_globals(), "an item of element segment", index))
        return false;
    return true;
  }

  bool datas() {
    for (uint32_t i = 0; i < module_.datas.size(); ++i) {
      const DataSegment& segment = module_.datas[i];
      if (segment.mode != SegmentMode::kActive) continue;
      if (segment.memory >= module_.memories.size())
        return fail(FieldKind::kData, i,
                    unknown(kUnknownMemory, "memory", segment.memory, module_.memories.size(),
                            "data segment " + std::to_string(i)));
      const ValType address = address_type(module_.memories[segment.memory].type.limits);
      if (!code_.constant(segment.offset, address, all_globals(), "the offset of data segment", i))
        return false;
    }
    return true;
  }

  static Diagnostic unknown(DiagnosticCode code, std::string_view noun, uint32_t index, size_t count,
                            const std::string& where) {
    return {.code = code,
            .message = where + " names " + std::string(noun) + " " + std::to_string(index) +
                       ", which does not exist",
            .found = std::to_string(index),
            .expected = count == 0   ? ""
                        : count == 1 ? "0"
                                     : "0 to " + std::to_string(count - 1)};
  }

  const Module& module_;
  CodeValidator& code_;
  Report& report_;
};

// Of a body, for a step of a StopScope: its plain instructions are no steps of their own.
constexpr uint32_t kBodyBytesForStep = 16;

// The first body whose form is broken, or nothing. One walk finds what is invalid and what is
// malformed in the order of the code; but a module with a malformed body anywhere is malformed,
// whatever else is wrong with it, so a failed validation asks here.
std::optional<Diagnostic> find_malformed(const Module& module, Report& report) {
  CodeValidator code(module, report);
  for (uint32_t i = 0; i < module.functions.size(); ++i) {
    const Function& f = module.functions[i];
    if (StopScope::stop_wanted(1 + f.code.size / kBodyBytesForStep)) return std::nullopt;
    if (f.import == kNotImported && !code.well_formed(i)) return report.take();
  }
  return std::nullopt;
}

bool is_wide(ValType t) { return t == ValType::kV128; }

// v128 in the module's imports, exports and globals, outside of its bodies.
bool declares_simd(const Module& module) {
  return std::ranges::any_of(module.types,
                             [](const FuncType& t) {
                               return std::ranges::any_of(t.params, is_wide) ||
                                      std::ranges::any_of(t.results, is_wide);
                             }) ||
         std::ranges::any_of(module.globals, [](const Global& g) { return is_wide(g.type.type); });
}

bool validate_all(const Module& module, CodeValidator& code, Report& report, ValidationInfo& info,
                  const FunctionObserver& observer) {
  if (!Declarations(module, code, report).run()) return false;
  const uint32_t imported = module.imported_function_count();
  info.functions.resize(module.functions.size() - imported);
  info.uses_simd = declares_simd(module);
  BodyNotes notes;
  for (uint32_t i = 0; i < info.functions.size(); ++i) {
    const uint32_t body_bytes = module.functions[imported + i].code.size;
    if (StopScope::stop_wanted(1 + body_bytes / kBodyBytesForStep))
      return report.fail(stopped_finding("the validation"));
    if (!code.function(imported + i, info.functions[i], observer ? &notes : nullptr)) return false;
    info.uses_simd |= info.functions[i].uses_simd;
    if (observer) observer(imported + i, info.functions[i], notes);
  }
  return true;
}

}  // namespace

struct Validator::Parts {
  Parts(const Module& m, std::string_view text) : module(m), report(m, text), code(m, report) {}
  const Module& module;
  Report report;
  CodeValidator code;
};

Validator::Validator(const Module& module, std::string_view text)
    : parts_(std::make_unique<Parts>(module, text)) {}
Validator::~Validator() = default;

std::expected<void, Diagnostic> Validator::validate_declarations() {
  if (!Declarations(parts_->module, parts_->code, parts_->report).run())
    return std::unexpected(parts_->report.take());
  return {};
}

std::expected<FunctionInfo, Diagnostic> Validator::validate_function(uint32_t index) {
  FunctionInfo info;
  if (!parts_->code.function(index, info)) return std::unexpected(parts_->report.take());
  return info;
}

std::expected<ValidationInfo, Diagnostic> validate(const Module& module, std::string_view text,
                                                   const FunctionObserver& observer) {
  Report report(module, text);
  CodeValidator code(module, report);
  std::expected<ValidationInfo, Diagnostic> result(std::in_place);
  if (!validate_all(module, code, report, *result, observer)) {
    Diagnostic failure = report.take();
    if (!is_malformed(failure.code) && !StopScope::stop_wanted())
      if (auto malformed = find_malformed(module, report)) failure = *std::move(malformed);
    result = std::unexpected(std::move(failure));
  }
  return result;
}

void stack_types_at(const Module& module, uint32_t function, std::span<const uint32_t> offsets,
                    const std::function<bool(size_t, const StackTypes&)>& take) {
  Report report(module, {});
  CodeValidator(module, report).stack_types_at(function, offsets, take);
}

Place place_of(const Module& module, uint32_t code_offset, std::string_view text) {
  const SourcePoint* const point = text.empty() ? nullptr : module.source_of(code_offset);
  if (point != nullptr) return locate(text, point->text_offset, point->text_end);
  return {.offset = code_offset};
}

}  // namespace membrane::wasm
