#include <algorithm>
#include <array>
#include <cstring>

#include "base/hex.h"
#include "base/text.h"
#include "wasm/binary.h"
#include "wasm/body.h"
#include "wasm/byte_reader.h"
#include "wasm/explain.h"
#include "wasm/limits.h"
#include "wasm/names.h"
#include "wasm/type_coding.h"

namespace membrane::wasm {
namespace {

using enum DiagnosticCode;

constexpr std::array<uint8_t, 4> kMagic = {0x00, 'a', 's', 'm'};
constexpr std::array<uint8_t, 4> kVersion = {0x01, 0x00, 0x00, 0x00};

enum SectionId : uint8_t {
  kCustom = 0,
  kType,
  kImport,
  kFunction,
  kTable,
  kMemory,
  kGlobal,
  kExport,
  kStart,
  kElement,
  kCode,
  kData,
  kDataCount,
  kTag,
};
constexpr std::array<std::string_view, 14> kSectionNames = {
    "custom", "type",  "import",  "function", "table", "memory",     "global",
    "export", "start", "element", "code",     "data",  "data count", "tag"};
// The order of sections: tag (13) comes before global (6), data count (12) before code (10).
constexpr std::array<uint8_t, 14> kSectionRanks = {0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 12, 13, 11, 6};

constexpr uint8_t kFuncByte = 0x60, kStructByte = 0x5F, kArrayByte = 0x5E;
constexpr uint8_t kSubByte = 0x50, kSubFinalByte = 0x4F, kRecByte = 0x4E;
constexpr uint8_t kTableWithInit = 0x40;

std::string hex(uint8_t byte) { return "0x" + hex_of(std::span(&byte, 1)); }

// Reads module_.bytes into the rest of module_. There is one method for each production of chapter
// 5; each returns false when it failed, with the reason in reader_.
class Decoder {
 public:
  explicit Decoder(Module& module, const KnownFunctions* known = nullptr)
      : module_(module), reader_(module.content()), known_(known), local_runs_(module.local_runs.own()) {
    if (known == nullptr) return;
    module.functions = known->functions;
    module.local_runs = known->local_runs;
  }

  bool run() {
    if (module_.content().size() > kMaxModuleBytes)
      return reader_.fail(kImplementationLimit, 0, "the module is larger than 1 GiB");
    if (!preamble()) return false;
    while (!reader_.at_end())
      if (!section()) return false;
    return check_counts();
  }

  Diagnostic& failure() { return reader_.failure(); }

 private:
  bool preamble() {
    const auto bytes = reader_.rest();
    if (bytes.size() >= 4 && std::memcmp(bytes.data(), kMagic.data(), 4) != 0)
      return reader_.fail(kBadMagic, 0, "the first four bytes are not \\0asm");
    if (bytes.size() < 8)
      return reader_.fail(kUnexpectedEnd, static_cast<uint32_t>(bytes.size()),
                          "a binary has at least 8 bytes", count_of(bytes.size(), "byte"));
    if (std::memcmp(bytes.data() + 4, kVersion.data(), 4) != 0) return other_version(bytes[4], bytes[6]);
    reader_.skip_to(8);
    return true;
  }

  // Components have the same magic number, and a layer where modules have none.
  bool other_version(uint8_t version, uint8_t layer) {
    if (layer != 1)
      return reader_.fail(kBadVersion, 4, "the binary is not of version 1", hex(version), hex(1));
    reader_.fail(kBadVersion, 4, "the binary is a component, and not a module", "layer 1", "layer 0");
    failure().hint =
        "Components are of WASI preview 2. Build a module for preview 1: target wasm32-wasip1, or without "
        "the "
        "step that makes the component (wasm-tools component new, componentize).";
    return false;
  }

  bool section() {
    const uint32_t start = reader_.offset();
    uint8_t id = 0;
    ByteRange range;
    if (!reader_.u8(id)) return false;
    if (id >= kSectionNames.size())
      return reader_.fail(kMalformedSectionId, start, "no section has this id", hex(id), "0 to 13");
    if (!reader_.range(range)) return false;
    if (id != kCustom && !in_order(id, start)) return false;

    const uint32_t module_end = reader_.end_offset();
    const uint32_t section_end = range.offset + range.size;
    reader_.skip_to(range.offset);
    reader_.set_end(section_end);
    if (!contents(static_cast<SectionId>(id))) return false;
    if (!reader_.at_end())
      return reader_.fail(kSectionSizeMismatch, reader_.offset(),
                          "the " + std::string(kSectionNames[id]) + " section is longer than what it holds",
                          count_of(reader_.left(), "byte") + " left");
    reader_.set_end(module_end);
    if (id != kCustom) last_section_ = id;
    return true;
  }

  bool in_order(uint8_t id, uint32_t start) {
    if (kSectionRanks[id] > kSectionRanks[last_section_]) return true;
    return reader_.fail(
        kSectionOutOfOrder, start, id == last_section_ ? "a section is repeated" : "a section comes too late",
        std::string(kSectionNames[id]) + " section",
        "a section that may follow the " + std::string(kSectionNames[last_section_]) + " section");
  }

  bool contents(SectionId id) {
    switch (id) {
      case kCustom: return custom();
      case kType: return type_section();
      case kImport: return each(4, [this] { return import(); }, module_.imports);
      case kFunction: return functions();
      case kTable: return each(3, [this] { return own_table(); }, module_.tables);
      case kMemory: return each(2, [this] { return memory(kNotImported); }, module_.memories);
      case kTag: return each(2, [this] { return tag(kNotImported); }, module_.tags);
      case kGlobal: return each(3, [this] { return global(); }, module_.globals);
      case kExport: return each(3, [this] { return export_(); }, module_.exports);
      case kStart: return reader_.u32(module_.start);
      case kElement: return each(3, [this] { return element(); }, module_.elements);
      case kCode: return code();
      case kData: return data();
      case kDataCount:
        module_.has_data_count = true;
        data_count_at_ = reader_.offset();
        return reader_.u32(data_count_);
    }
    return false;
  }

  // vec(item), where an item takes at least `least_bytes`; `items` is where they are put.
  bool each(size_t least_bytes, auto item, auto& items) {
    uint32_t count = 0;
    if (!reader_.count(count, least_bytes)) return false;
    items.reserve(items.size() + count);
    for (uint32_t i = 0; i < count; ++i)
      if (!item()) return false;
    return true;
  }

  // -- types (5.3)

  bool val_type(ValType& out) {
    const uint32_t at = reader_.offset();
    const auto rest = reader_.rest();
    if (rest.empty()) return reader_.fail(kUnexpectedEnd, at, "a type is missing where the bytes end");
    const uint8_t* const next = read_val_type(rest.data(), rest.data() + rest.size(), out);
    if (next == nullptr)
      return reader_.fail(kMalformedType, at, "this byte is no value type", hex(rest[0]),
                          "0x7f to 0x7b, 0x74 to 0x69, 0x64 or 0x63");
    reader_.skip_to(at + static_cast<uint32_t>(next - rest.data()));
    return true;
  }

  bool ref_type(ValType& out) {
    const uint32_t at = reader_.offset();
    return val_type(out) && (is_ref(out) || reader_.fail(kMalformedType, at, "this is no reference type",
                                                         hex(byte_of(out)), "0x74 to 0x69, 0x64 or 0x63"));
  }

  bool val_types(std::vector<ValType>& out) {
    uint32_t count = 0;
    if (!reader_.count(count)) return false;
    out.resize(count);
    for (ValType& t : out)
      if (!val_type(t)) return false;
    return true;
  }

  bool type_section() {
    uint32_t count = 0;
    if (!reader_.count(count, 2)) return false;
    module_.types.reserve(std::min(count, kMaxTypes));
    for (uint32_t i = 0; i < count; ++i)
      if (!rec_type()) return false;
    return true;
  }

  // A type, or a recursive group of them.
  bool rec_type() {
    const auto rest = reader_.rest();
    if (rest.empty() || rest[0] != kRecByte) return sub_type(static_cast<uint32_t>(module_.types.size()), 1);
    reader_.skip_to(reader_.offset() + 1);
    uint32_t count = 0;
    if (!reader_.count(count, 2)) return false;
    const auto begin = static_cast<uint32_t>(module_.types.size());
    for (uint32_t i = 0; i < count; ++i)
      if (!sub_type(begin, count)) return false;
    return true;
  }

  // `detail` is kept only if it says more than that of a plain function type.
  bool sub_type(uint32_t group_begin, uint32_t group_size) {
    TypeDetail detail;
    detail.group_begin = group_begin;
    detail.group_size = group_size;
    const uint32_t at = reader_.offset();
    // Checked while decoding, since a type may be far smaller in the binary than in the module.
    if (module_.types.size() >= kMaxTypes)
      return reader_.fail(kImplementationLimit, at, "too many types", {},
                          "at most " + std::to_string(kMaxTypes));
    uint8_t tag = 0;
    if (!reader_.u8(tag)) return false;
    if (tag == kSubByte || tag == kSubFinalByte) {
      detail.is_final = tag == kSubFinalByte;
      if (!reader_.count(detail.supertype_count)) return false;
      for (uint32_t i = 0; i < detail.supertype_count; ++i)
        if (!reader_.u32(detail.supertype)) return false;
      if (!reader_.u8(tag)) return false;
    }
    FuncType& type = module_.types.emplace_back();
    switch (tag) {
      case kFuncByte:
        if (!val_types(type.params) || !val_types(type.results)) return false;
        break;
      case kStructByte:
        detail.kind = TypeKind::kStruct;
        if (!each(2, [&] { return field(detail.fields.emplace_back()); }, detail.fields)) return false;
        break;
      case kArrayByte:
        detail.kind = TypeKind::kArray;
        if (!field(detail.fields.emplace_back())) return false;
        break;
      default:
        return reader_.fail(kMalformedType, at, "a type begins with another byte", hex(tag),
                            "0x60 (func), 0x5f (struct), 0x5e (array), 0x50, 0x4f (sub) or 0x4e (rec)");
    }
    keep_detail(module_, std::move(detail));
    return true;
  }

  bool field(FieldType& out) {
    const auto rest = reader_.rest();
    if (!rest.empty() && is_packed(static_cast<ValType>(rest[0]))) {
      out.type = static_cast<ValType>(rest[0]);
      reader_.skip_to(reader_.offset() + 1);
    } else if (!val_type(out.type)) {
      return false;
    }
    return mutability(out.is_mutable, "a field");
  }

  bool limits(Limits& out) {
    const uint32_t at = reader_.offset();
    uint8_t flags = 0;
    if (!reader_.u8(flags)) return false;
    constexpr uint8_t kHasMax = 1, kIsShared = 2, kIs64 = 4;
    if ((flags & kIsShared) != 0 && flags < 8) {
      reader_.fail(kMalformedType, at, "the memory is shared between threads", hex(flags),
                   "0x00, 0x01, 0x04 or 0x05");
      failure().hint = kBuildWithoutThreads;
      return false;
    }
    if ((flags & ~(kHasMax | kIs64)) != 0)
      return reader_.fail(kMalformedType, at,
                          "limits begin with 0 (no maximum) or 1, and 4 more for 64-bit addresses",
                          hex(flags), "0x00, 0x01, 0x04 or 0x05");
    out.is_64 = (flags & kIs64) != 0;
    if (!reader_.u64(out.min)) return false;
    if ((flags & kHasMax) == 0) return true;
    uint64_t max = 0;
    if (!reader_.u64(max)) return false;
    out.max = max;
    return true;
  }

  bool global_type(GlobalType& out) { return val_type(out.type) && mutability(out.is_mutable, "a global"); }

  bool mutability(bool& out, std::string_view whose) {
    const uint32_t at = reader_.offset();
    uint8_t mutability = 0;
    if (!reader_.u8(mutability)) return false;
    if (mutability > 1)
      return reader_.fail(kMalformedType, at, std::string(whose) + " is immutable (0) or mutable (1)",
                          hex(mutability), "0x00 or 0x01");
    out = mutability == 1;
    return true;
  }

  bool extern_kind(ExternKind& out) {
    const uint32_t at = reader_.offset();
    uint8_t kind = 0;
    if (!reader_.u8(kind)) return false;
    if (kind > static_cast<uint8_t>(ExternKind::kTag)) {
      reader_.fail(kMalformedKind, at, "this byte is no kind of import or export", hex(kind), "0 to 4");
      if (kind == 0x7E || kind == 0x7F)
        failure().hint =
            "This may be a compact import section, of a proposal later than WebAssembly 3.0. Write the "
            "module "
            "without it: wasm-opt --disable-compact-imports.";
      return false;
    }
    out = static_cast<ExternKind>(kind);
    return true;
  }

  // -- sections (5.5)

  bool custom() {
    std::string_view name;
    if (!reader_.name(name)) return false;
    const ByteRange rest{reader_.offset(), static_cast<uint32_t>(reader_.left())};
    reader_.skip_to(reader_.end_offset());
    if (name != "name") {
      module_.customs.push_back({std::string(name), rest, last_section_});
    } else if (!has_names_) {
      has_names_ = true;
      const std::span<const uint8_t> contents = module_.view(rest);
      module_.names = known_ == nullptr ? decode_names(contents) : decode_names_later(contents);
    }
    return true;
  }

  bool import() {
    std::string_view module, name;
    Import import;
    if (!reader_.name(module) || !reader_.name(name) || !extern_kind(import.kind)) return false;
    import.module = module;
    import.name = name;
    const auto index = static_cast<uint32_t>(module_.imports.size());
    switch (import.kind) {
      case ExternKind::kFunc: {
        import.index = imported_functions_++;
        uint32_t type = 0;
        if (!reader_.u32(type)) return false;
        if (known_ == nullptr) module_.functions.own().push_back({.type = type, .import = index});
        break;
      }
      case ExternKind::kTable:
        import.index = static_cast<uint32_t>(module_.tables.size());
        if (!table(index)) return false;
        break;
      case ExternKind::kMemory:
        import.index = static_cast<uint32_t>(module_.memories.size());
        if (!memory(index)) return false;
        break;
      case ExternKind::kGlobal: {
        import.index = static_cast<uint32_t>(module_.globals.size());
        Global& g = module_.globals.emplace_back();
        g.import = index;
        if (!global_type(g.type)) return false;
        break;
      }
      case ExternKind::kTag:
        import.index = static_cast<uint32_t>(module_.tags.size());
        if (!tag(index)) return false;
        break;
    }
    module_.imports.push_back(std::move(import));
    return true;
  }

  bool functions() {
    if (known_ != nullptr) return skip_known();
    std::vector<Function>& functions = module_.functions.own();
    return each(1, [&] { return reader_.u32(functions.emplace_back().type); }, functions);
  }

  bool table(uint32_t import) {
    Table& table = module_.tables.emplace_back();
    table.import = import;
    return ref_type(table.type.element) && limits(table.type.limits);
  }

  // The form with an initial value for all elements has a prefix.
  bool own_table() {
    const auto rest = reader_.rest();
    const bool has_init = !rest.empty() && rest[0] == kTableWithInit;
    if (has_init) {
      const uint32_t at = reader_.offset();
      reader_.skip_to(at + 1);
      uint8_t zero = 0;
      if (!reader_.u8(zero)) return false;
      if (zero != 0)
        return reader_.fail(kMalformedType, at, "0x40 of a table is followed by 0x00", hex(zero));
    }
    if (!table(kNotImported)) return false;
    return !has_init || expression(module_.tables.back().init);
  }

  bool memory(uint32_t import) {
    Memory& memory = module_.memories.emplace_back();
    memory.import = import;
    return limits(memory.type.limits);
  }

  bool tag(uint32_t import) {
    Tag& tag = module_.tags.emplace_back();
    tag.import = import;
    const uint32_t at = reader_.offset();
    uint8_t attribute = 0;
    if (!reader_.u8(attribute)) return false;
    if (attribute != 0)
      return reader_.fail(kMalformedKind, at, "a tag is of an exception (0)", hex(attribute), "0x00");
    return reader_.u32(tag.type);
  }

  bool global() {
    Global& global = module_.globals.emplace_back();
    return global_type(global.type) && expression(global.init);
  }

  bool export_() {
    std::string_view name;
    Export& e = module_.exports.emplace_back();
    if (!reader_.name(name) || !extern_kind(e.kind) || !reader_.u32(e.index)) return false;
    e.name = name;
    return true;
  }

  // A constant expression up to its `end`. The validator checks whether it is constant; here only
  // its extent is found.
  bool expression(ByteRange& out) {
    const uint32_t start = reader_.offset();
    BodyReader body(reader_.rest());
    uint32_t depth = 0;
    while (body.next()) {
      switch (body.instruction().op) {
        case Opcode::kBlock:
        case Opcode::kLoop:
        case Opcode::kTryTable:
        case Opcode::kIf: ++depth; break;
        case Opcode::kEnd:
          if (depth-- != 0) break;
          out = {start, body.offset()};
          reader_.skip_to(start + body.offset());
          return true;
        default: break;
      }
    }
    const uint32_t at = start + body.offset();
    if (body.error() == BodyError::kNone)
      return reader_.fail(kMissingEnd, at, "a constant expression has no end");
    Diagnostic d = explain(body.error());
    return reader_.fail(d.code, at, std::move(d.message), std::move(d.found), std::move(d.expected));
  }

  bool element() {
    const uint32_t at = reader_.offset();
    uint32_t flags = 0;
    if (!reader_.u32(flags)) return false;
    if (flags > 7)
      return reader_.fail(kMalformedKind, at, "an element segment's flags are unknown", std::to_string(flags),
                          "0 to 7");
    const bool is_active = (flags & 1) == 0;
    const bool has_index_or_is_declarative = (flags & 2) != 0;
    ElementSegment& segment = module_.elements.emplace_back();
    segment.uses_expressions = (flags & 4) != 0;
    if (!segment.uses_expressions) segment.type = non_null(ValType::kFuncRef);
    if (is_active) {
      segment.mode = SegmentMode::kActive;
      if (has_index_or_is_declarative && !reader_.u32(segment.table)) return false;
      if (!expression(segment.offset)) return false;
    } else {
      segment.mode = has_index_or_is_declarative ? SegmentMode::kDeclarative : SegmentMode::kPassive;
    }
    if ((flags & 3) != 0 && !element_type(segment)) return false;  // 0 and 4 leave it out: funcref
    if (segment.uses_expressions)
      return each(1, [&] { return expression(segment.items.emplace_back()); }, segment.items);
    return each(1, [&] { return reader_.u32(segment.functions.emplace_back()); }, segment.functions);
  }

  bool element_type(ElementSegment& segment) {
    if (segment.uses_expressions) return ref_type(segment.type);
    const uint32_t at = reader_.offset();
    uint8_t kind = 0;
    if (!reader_.u8(kind)) return false;
    return kind == 0 ||
           reader_.fail(kMalformedKind, at, "an element kind is unknown", hex(kind), "0x00 (functions)");
  }

  bool code() {
    const uint32_t start = reader_.offset();
    if (known_ != nullptr) return skip_known();
    uint32_t count = 0;
    if (!reader_.count(count, 2)) return false;
    if (count != module_.functions.size() - imported_functions_) return fail_function_count(start, count);
    local_runs_.reserve(count);  // about one run a function is usual
    for (uint32_t i = 0; i < count; ++i)
      if (!body(module_.functions.own()[imported_functions_ + i])) return false;
    return true;
  }

  // Skips a section with an entry for each function, when the functions are known.
  bool skip_known() {
    const uint32_t start = reader_.offset();
    uint32_t count = 0;
    if (!reader_.count(count, 1)) return false;
    if (count != module_.functions.size() - imported_functions_) return fail_function_count(start, count);
    reader_.skip_to(reader_.end_offset());
    return true;
  }

  bool body(Function& function) {
    ByteRange range;
    if (!reader_.range(range)) return false;
    const uint32_t section_end = reader_.end_offset();
    const uint32_t end = range.offset + range.size;
    reader_.skip_to(range.offset);
    reader_.set_end(end);
    if (!locals(function)) return false;
    function.code = {reader_.offset(), end - reader_.offset()};
    reader_.skip_to(end);
    reader_.set_end(section_end);
    return true;
  }

  bool locals(Function& function) {
    const uint32_t start = reader_.offset();
    uint32_t runs = 0;
    if (!reader_.count(runs, 2)) return false;
    function.first_local_run = static_cast<uint32_t>(local_runs_.size());
    function.local_run_count = runs;
    uint64_t total = 0;
    for (uint32_t i = 0; i < runs; ++i) {
      LocalRun run;
      if (!reader_.u32(run.count) || !val_type(run.type)) return false;
      total += run.count;
      local_runs_.push_back(run);
    }
    return total <= UINT32_MAX ||
           reader_.fail(kTooManyLocals, start, "a function declares too many locals", std::to_string(total));
  }

  bool data() {
    const uint32_t start = reader_.offset();
    if (!each(2, [this] { return data_segment(); }, module_.datas)) return false;
    return !module_.has_data_count || module_.datas.size() == data_count_ || fail_data_count(start);
  }

  bool data_segment() {
    const uint32_t at = reader_.offset();
    uint32_t flags = 0;
    if (!reader_.u32(flags)) return false;
    if (flags > 2)
      return reader_.fail(kMalformedKind, at, "a data segment's flags are unknown", std::to_string(flags),
                          "0 to 2");
    DataSegment& segment = module_.datas.emplace_back();
    if (flags != 1) {
      segment.mode = SegmentMode::kActive;
      if (flags == 2 && !reader_.u32(segment.memory)) return false;
      if (!expression(segment.offset)) return false;
    }
    return reader_.range(segment.data);
  }

  // Checks for which all sections must have been read.
  bool check_counts() {
    const size_t declared = module_.functions.size() - imported_functions_;
    if (kSectionRanks[last_section_] < kSectionRanks[kCode] && declared != 0)
      return fail_function_count(reader_.offset(), 0);
    if (module_.has_data_count && module_.datas.size() != data_count_) return fail_data_count(data_count_at_);
    return true;
  }

  bool fail_function_count(uint32_t at, uint32_t bodies) {
    return reader_.fail(kFunctionCodeMismatch, at, "the function and code sections have different lengths",
                        count_of(bodies, "body"),
                        count_of(module_.functions.size() - imported_functions_, "body"));
  }

  bool fail_data_count(uint32_t at) {
    return reader_.fail(kDataCountMismatch, at, "the data count and data sections disagree",
                        count_of(module_.datas.size(), "segment"), count_of(data_count_, "segment"));
  }

  Module& module_;
  ByteReader reader_;
  const KnownFunctions* known_;
  std::vector<LocalRun>& local_runs_;
  uint32_t imported_functions_ = 0;
  uint32_t data_count_ = 0;
  uint32_t data_count_at_ = 0;
  uint8_t last_section_ = 0;  // the last one that was not custom; 0 when there was none
  bool has_names_ = false;
};

}  // namespace

std::expected<Module, Diagnostic> decode(std::vector<uint8_t>&& binary) {
  std::expected<Module, Diagnostic> result(std::in_place);  // built in place: a Module is large to move
  result->bytes = std::move(binary);
  result->is_binary = true;
  Decoder decoder(*result);
  if (!decoder.run()) {
    Diagnostic failure = std::move(decoder.failure());
    result = std::unexpected(std::move(failure));
  }
  return result;
}

std::expected<Module, Diagnostic> decode(std::span<const uint8_t> binary) {
  return decode(std::vector<uint8_t>(binary.begin(), binary.end()));
}

std::expected<Module, Diagnostic> decode_known(std::shared_ptr<const FileMapping> binary,
                                               const KnownFunctions& known) {
  std::expected<Module, Diagnostic> result(std::in_place);
  result->mapped = std::move(binary);
  result->is_binary = true;
  Decoder decoder(*result, &known);
  if (!decoder.run()) {
    Diagnostic failure = std::move(decoder.failure());
    result = std::unexpected(std::move(failure));
  }
  return result;
}

bool is_malformed(DiagnosticCode code) {
  switch (code) {
    case kBadMagic:
    case kBadVersion:
    case kDataCountMismatch:
    case kDataCountRequired:
    case kElseWithoutIf:
    case kFunctionCodeMismatch:
    case kIllegalOpcode:
    case kLegacyExceptions:
    case kLengthOutOfBounds:
    case kMalformedInteger:
    case kMalformedKind:
    case kMalformedSectionId:
    case kMalformedType:
    case kMalformedUtf8:
    case kMissingEnd:
    case kSectionOutOfOrder:
    case kSectionSizeMismatch:
    case kTooManyLocals:
    case kTrailingCode:
    case kUnexpectedEnd: return true;
    default: return false;
  }
}

}  // namespace membrane::wasm
