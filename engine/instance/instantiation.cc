#include "engine/instance/instantiation.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "base/inline_vector.h"
#include "base/text.h"
#include "engine/instance/machine.h"
#include "wasm/body.h"

namespace membrane::engine {
namespace {

using wasm::ExternKind;
using wasm::Module;

LinkError link_error(LinkError::Kind kind, std::string message, std::string hint,
                     uint32_t import = UINT32_MAX) {
  const ErrorCode code = kind == LinkError::Kind::kLimit ? ErrorCode::kExhausted : ErrorCode::kInvalidInput;
  return {kind, {code, std::move(message), std::move(hint)}, import, {}};
}

LinkError segment_trap(TrapKind kind, std::string message) {
  LinkError error{LinkError::Kind::kTrap,
                  {ErrorCode::kInvalidInput, std::move(message), std::string(hint_of(kind))},
                  UINT32_MAX,
                  kind};
  return error;
}

// An import's limits match when what is provided has at least the minimum, and a maximum that is
// not larger.
bool limits_fit(const wasm::Limits& given, const wasm::Limits& wanted) {
  if (given.is_64 != wanted.is_64) return false;
  if (given.min < wanted.min) return false;
  if (!wanted.max) return true;
  return given.max && *given.max <= *wanted.max;
}

bool same(const RuntimeValType& a, const RuntimeValType& b) { return matches(a, b) && matches(b, a); }

bool global_fits(const GlobalInstance& given, const RuntimeValType& wanted, bool is_mutable) {
  const RuntimeValType type{given.type.type, given.defined};
  if (given.type.is_mutable != is_mutable) return false;
  return is_mutable ? same(type, wanted) : matches(type, wanted);
}

// Specification 4.5.4, external typing.
bool import_fits(const CompiledModule& compiled, const wasm::Import& import, const Extern& given) {
  const Module& module = compiled.module();
  if (given.kind != import.kind) return false;
  switch (import.kind) {
    case ExternKind::kFunc:
      return is_subtype(given.function->type, compiled.canonical_type(module.functions[import.index].type));
    case ExternKind::kTable: {
      const wasm::TableType& wanted = module.tables[import.index].type;
      return same({given.table->element, given.table->defined}, compiled.runtime_type(wanted.element)) &&
             limits_fit(given.table->type().limits, wanted.limits);
    }
    case ExternKind::kMemory:
      return limits_fit(given.memory->type().limits, module.memories[import.index].type.limits);
    case ExternKind::kGlobal: {
      const wasm::GlobalType& wanted = module.globals[import.index].type;
      return global_fits(*given.global, compiled.runtime_type(wanted.type), wanted.is_mutable);
    }
    case ExternKind::kTag:
      return same_type(given.tag->type, compiled.canonical_type(module.tags[import.index].type));
  }
  return false;
}

std::string name_of_import(const wasm::Import& import) {
  return std::string(name_of(import.kind)) + " \"" + import.module + "\" \"" + import.name + "\"";
}

}  // namespace

struct Instantiation::Steps {
  Store& store;
  Instance& instance;
  const Module& module;
  const InstanceLimits& limits;
  const InstanceStart& start;
  bool is_heap_full = false;    // an object of a constant expression had no room
  bool has_data_image = false;  // memory 0 began with what its data segments would write

  using Outcome = std::expected<void, LinkError>;

  Outcome resolve_imports(const Resolver& resolver) {
    for (uint32_t i = 0; i < module.imports.size(); ++i) {
      const wasm::Import& import = module.imports[i];
      const std::optional<Extern> given = resolver ? resolver(module, import) : std::nullopt;
      if (!given)
        return std::unexpected(link_error(LinkError::Kind::kUnknownImport,
                                          "nobody provides the import " + name_of_import(import),
                                          "Remove the import, or correct its name.", i));
      if (!import_fits(*instance.module_, import, *given))
        return std::unexpected(
            link_error(LinkError::Kind::kIncompatibleImport,
                       "what is provided for " + name_of_import(import) + " has another type",
                       "Declare the import with the type that it has.", i));
      switch (import.kind) {
        case ExternKind::kFunc: instance.imports_.push_back(given->function); break;
        case ExternKind::kTable: instance.tables_.push_back(given->table); break;
        case ExternKind::kMemory: instance.memories_.push_back(given->memory); break;
        case ExternKind::kGlobal: instance.globals_.push_back(given->global); break;
        case ExternKind::kTag: instance.tags_.push_back(given->tag); break;
      }
    }
    return {};
  }

  void add_functions() {
    if (start.is_alone) {
      const LoneFunctions& lone = instance.module_->lone();
      instance.home_ = lone.home();
      instance.own_ = lone.functions();
      return;
    }
    const uint32_t imported = module.imported_function_count();
    const auto own = static_cast<uint32_t>(module.functions.size()) - imported;
    instance.own_functions_ = ZeroArray<FunctionInstance>(own);
    instance.own_ = instance.own_functions_.get();
    for (uint32_t i = 0; i < own; ++i)
      make_function(instance.own_[i], *instance.module_, imported + i, &instance);
  }

  Outcome add_memories_and_tables() {
    // One allowance for all: a program may declare a hundred thousand tables.
    const auto allowance = std::make_shared<uint32_t>(limits.table_elements);
    for (const wasm::Table& table : module.tables) {
      if (table.import != wasm::kNotImported) continue;
      Table* const made = store.add_table(table.type, allowance, start.has_tables);
      if (made == nullptr)
        return std::unexpected(link_error(LinkError::Kind::kLimit,
                                          "a table of " + count_of(table.type.limits.min, "element") +
                                              " brings the module's tables beyond the limit of " +
                                              std::to_string(limits.table_elements),
                                          "Declare a smaller table, or raise the table limit."));
      made->defined = instance.module_->runtime_type(table.type.element).defined;
      if (start.has_tables && table.init.size != 0 && !is_in_snapshot(table.type.element))
        std::ranges::fill(made->elements.writable(), evaluate(table.init).bits);
      instance.tables_.push_back(made);
    }
    size_t own = 0;
    for (const wasm::Memory& memory : module.memories) {
      if (memory.import != wasm::kNotImported) continue;
      auto made =
          store.add_memory(memory.type, limits.memory_bytes, &instance.memory_budget_, start_of(own++));
      if (!made)
        return std::unexpected(LinkError{LinkError::Kind::kLimit, std::move(made).error(), UINT32_MAX, {}});
      instance.memories_.push_back(*made);
    }
    if (!instance.memories_.empty()) instance.memory_ = instance.memories_.front();
    return {};
  }

  MemoryStart start_of(size_t own_memory) {
    if (start.memories != nullptr) return (*start.memories)[own_memory];
    if (own_memory != 0 || module.datas.empty()) return {};
    MemoryStart memory{0, instance.module_->data_image()};
    has_data_image = memory.image != nullptr;
    return memory;
  }

  // Values that may refer to a struct or an array are not made again in a thawed instance.
  bool is_in_snapshot(wasm::ValType type) const {
    return start.memories != nullptr && traced_of(instance.module_->runtime_type(type)) != Traced::kNothing;
  }

  // The value of a validated constant expression.
  Value evaluate(wasm::ByteRange range) {
    Values stack;
    wasm::BodyReader reader(module.view(range));
    while (reader.next() && reader.instruction().op != wasm::Opcode::kEnd) {
      const wasm::Instruction& in = reader.instruction();
      if (in.op >= wasm::Opcode::kI32Add && in.op <= wasm::Opcode::kI64Mul) {
        const Value right = stack.back();
        stack.pop_back();
        stack.back() = combine(in.op, stack.back().bits, right.bits);
      } else if (wasm::info(in.op).prefix == kReferencePrefix) {
        if (!evaluate_reference(in, stack)) break;
      } else {
        stack.push_back(constant_of(in));
      }
    }
    return stack.empty() ? Value{} : stack.back();
  }

  using Values = InlineVector<Value, 8>;
  static constexpr uint8_t kReferencePrefix = 0xFB;

  // ref.i31, conversions, and what makes structs and arrays. False when there is no room.
  bool evaluate_reference(const wasm::Instruction& in, Values& stack) {
    using wasm::Opcode;
    switch (in.op) {
      case Opcode::kRefI31:
        stack.back() = {wasm::ValType::kI31Ref, i31_bits(stack.back().bits), 0};
        return true;
      case Opcode::kAnyConvertExtern:
        stack.back() = {wasm::ValType::kAnyRef, any_of_extern(stack.back().bits), 0};
        return true;
      case Opcode::kExternConvertAny:
        stack.back() = {wasm::ValType::kExternRef, extern_of_any(stack.back().bits), 0};
        return true;
      default: return allocate(in, stack);
    }
  }

  bool allocate(const wasm::Instruction& in, Values& stack) {
    using wasm::Opcode;
    const auto& type = *static_cast<const RuntimeType*>(instance.module_->canonical_type(in.index));
    const bool is_filled = in.op == Opcode::kArrayNew;
    uint32_t length = in.op == Opcode::kArrayNewFixed ? in.index2 : 0;
    if (is_filled || in.op == Opcode::kArrayNewDefault) {
      length = static_cast<uint32_t>(stack.back().bits);
      stack.pop_back();
    }
    Heap& heap = *instance.heap_;
    const bool has_room = heap.make_room(Heap::bytes_of(type, length), &instance.memory_budget_);
    const uint64_t made = has_room ? heap.add(type, length) : 0;
    is_heap_full |= made == 0;
    if (made == 0) return false;
    const size_t values = is_filled                         ? 1
                          : in.op == Opcode::kStructNew     ? type.fields.size()
                          : in.op == Opcode::kArrayNewFixed ? length
                                                            : 0;
    const size_t first = stack.size() - values;
    const auto put = [&](uint64_t offset, const FieldLayout& field, const Value& value) {
      const uint64_t bits[2] = {value.bits, value.high_bits};
      std::memcpy(heap.object(made)->fields() + offset, bits, field.bytes);
    };
    for (uint32_t i = 0; i < (is_filled ? length : values); ++i) {
      const bool is_struct = type.kind == wasm::TypeKind::kStruct;
      const FieldLayout& field = type.fields[is_struct ? i : 0];
      put(is_struct ? field.offset : uint64_t{i} * field.bytes, field, stack[first + (is_filled ? 0 : i)]);
    }
    while (stack.size() > first) stack.pop_back();
    stack.push_back({wasm::ref_to(in.index), made, 0});
    return true;
  }

  static Value combine(wasm::Opcode op, uint64_t a, uint64_t b) {
    switch (op) {
      case wasm::Opcode::kI32Add: return Value::i32(static_cast<uint32_t>(a + b));
      case wasm::Opcode::kI32Sub: return Value::i32(static_cast<uint32_t>(a - b));
      case wasm::Opcode::kI32Mul: return Value::i32(static_cast<uint32_t>(a * b));
      case wasm::Opcode::kI64Add: return Value::i64(a + b);
      case wasm::Opcode::kI64Sub: return Value::i64(a - b);
      default: return Value::i64(a * b);
    }
  }

  Value constant_of(const wasm::Instruction& in) const {
    switch (in.op) {
      case wasm::Opcode::kI32Const: return Value::i32(static_cast<uint32_t>(in.value));
      case wasm::Opcode::kI64Const: return Value::i64(in.value);
      case wasm::Opcode::kF32Const: return {wasm::ValType::kF32, in.value, 0};
      case wasm::Opcode::kF64Const: return {wasm::ValType::kF64, in.value, 0};
      case wasm::Opcode::kV128Const: {
        Value v{wasm::ValType::kV128, 0, 0};
        std::memcpy(&v.bits, in.raw, 8);
        std::memcpy(&v.high_bits, in.raw + 8, 8);
        return v;
      }
      case wasm::Opcode::kRefFunc:
        return {wasm::ValType::kFuncRef, reinterpret_cast<uint64_t>(Machine::function(instance, in.index)),
                0};
      case wasm::Opcode::kGlobalGet: {
        const GlobalInstance& global = *instance.globals_[in.index];
        return {global.type.type, global.bits, global.high_bits};
      }
      default: return Value::null(in.ref_type);
    }
  }

  void add_tags() {
    for (uint32_t i = 0; i < module.tags.size(); ++i) {
      if (module.tags[i].import != wasm::kNotImported) continue;
      const wasm::FuncType* const type = instance.module_->canonical_type(module.tags[i].type);
      instance.tags_.push_back(store.add_tag({type, slots_of(type->params), &instance, i}));
    }
  }

  void add_globals() {
    for (const wasm::Global& global : module.globals) {
      if (global.import == wasm::kNotImported) {
        instance.globals_.push_back(store.add_global(
            global.type, is_in_snapshot(global.type.type) ? Value{} : evaluate(global.init)));
        instance.globals_.back()->defined = instance.module_->runtime_type(global.type.type).defined;
      }
    }
  }

  void evaluate_elements() {
    instance.elements_.resize(module.elements.size());
    for (size_t i = 0; i < module.elements.size(); ++i) {
      const wasm::ElementSegment& segment = module.elements[i];
      std::vector<uint64_t>& values = instance.elements_[i];
      values.reserve(segment.size());
      const bool is_thawed = is_in_snapshot(segment.type);
      for (const wasm::ByteRange item : segment.items) values.push_back(is_thawed ? 0 : evaluate(item).bits);
      for (const uint32_t function : segment.functions)
        values.push_back(reinterpret_cast<uint64_t>(Machine::function(instance, function)));
    }
  }

  // Active segments in order; what was written before one that does not fit stays written.
  Outcome copy_elements() {
    for (size_t i = 0; i < module.elements.size(); ++i) {
      const wasm::ElementSegment& segment = module.elements[i];
      if (segment.mode == wasm::SegmentMode::kActive) {
        const std::span<uint64_t> target = instance.tables_[segment.table]->elements.writable();
        const uint64_t offset = evaluate(segment.offset).bits;
        const std::vector<uint64_t>& values = instance.elements_[i];
        if (values.size() > target.size() || offset > target.size() - values.size())
          return std::unexpected(
              segment_trap(TrapKind::kTableOutOfBounds,
                           "element segment " + std::to_string(i) + " does not fit its table"));
        std::copy(values.begin(), values.end(), target.begin() + static_cast<ptrdiff_t>(offset));
      }
      if (segment.mode != wasm::SegmentMode::kPassive) instance.elements_[i] = {};
    }
    return {};
  }

  Outcome copy_datas() {
    for (size_t i = 0; i < module.datas.size(); ++i) {
      const wasm::DataSegment& segment = module.datas[i];
      if (segment.mode != wasm::SegmentMode::kActive) continue;
      instance.dropped_datas_[i] = true;
      if (has_data_image && segment.memory == 0) continue;
      const uint64_t offset = evaluate(segment.offset).bits;
      const Memory& memory = *instance.memories_[segment.memory];
      if (segment.data.size > memory.size_bytes() || offset > memory.size_bytes() - segment.data.size)
        return std::unexpected(segment_trap(
            TrapKind::kMemoryOutOfBounds, "data segment " + std::to_string(i) + " does not fit its memory"));
      if (segment.data.size != 0)
        std::memcpy(memory.base() + offset, module.view(segment.data).data(), segment.data.size);
    }
    return {};
  }

  Outcome run(const Resolver& resolver) {
    if (auto r = resolve_imports(resolver); !r) return r;
    add_functions();
    if (auto r = add_memories_and_tables(); !r) return r;
    add_tags();
    add_globals();
    if (!start.has_tables) instance.elements_.resize(module.elements.size());
    else evaluate_elements();
    if (is_heap_full)
      return std::unexpected(link_error(
          LinkError::Kind::kLimit, "the structs and arrays that the module begins with are beyond the limit",
          "Make fewer of them, or raise the memory limit."));
    // Before the first segment is written: if a later one fails, another instance's table may hold
    // functions of this one already, and they run.
    instance.dropped_datas_.resize(module.datas.size());
    if (start.memories != nullptr) return {};
    if (auto r = copy_elements(); !r) return r;
    return copy_datas();
  }
};

std::expected<void, LinkError> Instantiation::run(Store& store, Instance& instance, const Resolver& resolver,
                                                  const InstanceLimits& limits, const InstanceStart& start) {
  return Steps{store, instance, instance.module(), limits, start}.run(resolver);
}

}  // namespace membrane::engine
