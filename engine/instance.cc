#include "engine/instance.h"

#include <bit>
#include <cstring>

#include "base/inline_vector.h"
#include "engine/machine.h"
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

// An import's limits fit when what is given has at least the minimum and promises the maximum.
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

Value Value::f32(float v) { return {wasm::ValType::kF32, std::bit_cast<uint32_t>(v), 0}; }
Value Value::f64(double v) { return {wasm::ValType::kF64, std::bit_cast<uint64_t>(v), 0}; }

wasm::TableType Table::type() const {
  wasm::TableType type{element, {elements.size(), std::nullopt, is_64}};
  if (has_max) type.limits.max = max;
  return type;
}

std::span<uint64_t> TableElements::writable() {
  if (owned_ != nullptr && owned_.use_count() > 1) own(std::make_shared<Owned>(*owned_));
  return owned_ == nullptr ? std::span<uint64_t>() : std::span(*owned_);
}

void TableElements::resize(size_t size, uint64_t value) {
  if (size == this->size()) return;
  auto elements = std::make_shared<Owned>();
  if (owned_ != nullptr && owned_.use_count() == 1) elements = std::move(owned_);
  else elements->assign(begin_, end_);
  elements->resize(size, value);
  own(std::move(elements));
}

void TableElements::own(std::shared_ptr<Owned> elements) {
  owned_ = std::move(elements);
  begin_ = owned_->data();
  end_ = begin_ + owned_->size();
}

bool Table::allow(uint64_t size) {
  const uint64_t more = size - std::min<uint64_t>(size, elements.size());
  if (more > *allowance) return false;
  *allowance -= static_cast<uint32_t>(more);
  return true;
}

int64_t Table::grow(uint64_t delta, uint64_t value) {
  if (!can_grow(delta)) return -1;
  const auto before = static_cast<int64_t>(elements.size());
  elements.resize(elements.size() + delta, value);
  *allowance -= static_cast<uint32_t>(delta);
  return before;
}

uint64_t Instance::memory_bytes() const {
  uint64_t bytes = 0;
  for (const Memory* const memory : memories_) bytes += memory->size_bytes();
  return bytes + heap_->bytes();
}

void Instance::note_limit_was_hit() {
  if (memory_ != nullptr) memory_->note_limit_was_hit();
}

bool Instance::limit_was_hit() const {
  return std::ranges::any_of(memories_, [](const Memory* memory) { return memory->limit_was_hit(); });
}

std::optional<Extern> Instance::find_export(std::string_view name) {
  const wasm::Export* const found = module().find_export(name);
  if (found == nullptr) return std::nullopt;
  Extern e;
  e.kind = found->kind;
  switch (found->kind) {
    case ExternKind::kFunc: e.function = function(found->index); break;
    case ExternKind::kTable: e.table = tables_[found->index]; break;
    case ExternKind::kMemory: e.memory = memories_[found->index]; break;
    case ExternKind::kGlobal: e.global = globals_[found->index]; break;
    case ExternKind::kTag: e.tag = tags_[found->index]; break;
  }
  return e;
}

FunctionInstance* Instance::function(uint32_t index) {
  FunctionInstance* const inside =
      Machine::target(*this, reinterpret_cast<uint64_t>(Machine::function(*this, index)));
  if (home_ == this || inside->instance != home_) return inside;
  const auto is_it = [&](const auto& entry) { return entry->code == inside->code; };
  if (const auto found = std::ranges::find_if(entries_, is_it); found != entries_.end()) return found->get();
  entries_.push_back(std::make_unique<FunctionInstance>(*inside));
  entries_.back()->instance = this;
  return entries_.back().get();
}

std::optional<uint32_t> Instance::index_of(uint64_t function_reference) const {
  const size_t own_count = module().functions.size() - imports_.size();
  if (const auto own = Machine::place_among(own_, own_count, function_reference))
    return static_cast<uint32_t>(imports_.size()) + *own;
  for (uint32_t i = 0; i < imports_.size(); ++i)
    if (reinterpret_cast<uint64_t>(imports_[i]) == function_reference) return i;
  return std::nullopt;
}

FunctionInstance* Instance::find_function(std::string_view export_name) {
  const auto found = find_export(export_name);
  return found ? found->function : nullptr;
}

// -- the store ------------------------------------------------------------------------------

struct Store::Parts {
  std::vector<std::unique_ptr<Instance>> instances;
  struct Host {
    FunctionInstance instance;
    HostFunction function;
  };
  std::vector<std::unique_ptr<Host>> host_functions;
  std::vector<std::unique_ptr<wasm::FuncType>> host_types;
  std::vector<std::unique_ptr<Table>> tables;
  std::vector<std::unique_ptr<Memory>> memories;
  std::vector<std::unique_ptr<GlobalInstance>> globals;
  std::vector<std::unique_ptr<TagInstance>> tags;
  ExceptionArena exceptions;
  Heap heap;

  void show_roots(Tracer& tracer) const;
};

void Store::Parts::show_roots(Tracer& tracer) const {
  for (const auto& global : globals)
    tracer.show(traced_of({global->type.type, global->defined}), global->bits);
  const auto show_all = [&](Traced kind, std::span<const uint64_t> references) {
    if (kind == Traced::kNothing) return;
    for (const uint64_t bits : references) tracer.show(kind, bits);
  };
  for (const auto& table : tables) show_all(traced_of({table->element, table->defined}), table->elements);
  for (const auto& instance : instances) {
    const auto& segments = instance->module().elements;
    for (size_t i = 0; i < instance->elements_.size(); ++i)
      show_all(traced_of(instance->compiled().runtime_type(segments[i].type)), instance->elements_[i]);
  }
  for (uint64_t reference = 1; reference <= exceptions.size(); ++reference) {
    const ExceptionArena::Exception& exception = *exceptions.find(reference);
    const uint64_t* slot = exception.payload();
    for (const wasm::ValType type : exception.tag->type->params) {
      const Instance* const owner = exception.tag->instance;
      tracer.show(traced_of(owner == nullptr ? RuntimeValType{type} : owner->compiled().runtime_type(type)),
                  *slot);
      slot += slots_of(type);
    }
  }
}

Store::Store() : parts_(std::make_unique<Parts>()) {
  parts_->heap.roots = [parts = parts_.get()](Tracer& tracer) { parts->show_roots(tracer); };
}
Store::~Store() = default;

FunctionInstance* Store::add_host_function(const wasm::FuncType& type, HostFunction function) {
  parts_->host_types.push_back(std::make_unique<wasm::FuncType>(type));
  auto host = std::make_unique<Parts::Host>();
  host->function = std::move(function);
  FunctionInstance& f = host->instance;
  f.type = parts_->host_types.back().get();
  f.param_slots = slots_of(type.params);
  f.result_slots = slots_of(type.results);
  f.host = &host->function;
  parts_->host_functions.push_back(std::move(host));
  return &f;
}

Table* Store::add_table(const wasm::TableType& type, uint32_t limit) {
  return add_table(type, std::make_shared<uint32_t>(limit));
}

Table* Store::add_table(const wasm::TableType& type, const std::shared_ptr<uint32_t>& allowance,
                        bool is_filled) {
  if (type.limits.min > *allowance) return nullptr;
  *allowance -= static_cast<uint32_t>(type.limits.min);
  auto table = std::make_unique<Table>();
  table->element = type.element;
  if (is_filled) table->elements.resize(type.limits.min);
  table->has_max = type.limits.max.has_value();
  table->is_64 = type.limits.is_64;
  table->max = type.limits.max.value_or(type.limits.is_64 ? UINT64_MAX : UINT32_MAX);
  table->allowance = allowance;
  parts_->tables.push_back(std::move(table));
  return parts_->tables.back().get();
}

Result<Memory*> Store::add_memory(const wasm::MemoryType& type, uint64_t limit_bytes, MemoryBudget* shared,
                                  MemoryStart start) {
  MEMBRANE_ASSIGN(auto memory, Memory::create(type, limit_bytes, shared, std::move(start)));
  parts_->memories.push_back(std::move(memory));
  return parts_->memories.back().get();
}

GlobalInstance* Store::add_global(const wasm::GlobalType& type, Value value) {
  parts_->globals.push_back(
      std::make_unique<GlobalInstance>(GlobalInstance{type, value.bits, value.high_bits, nullptr}));
  return parts_->globals.back().get();
}

TagInstance* Store::add_tag(const wasm::FuncType& type) {
  parts_->host_types.push_back(std::make_unique<wasm::FuncType>(type));
  return add_tag({parts_->host_types.back().get(), slots_of(type.params), nullptr, 0});
}

TagInstance* Store::add_tag(TagInstance tag) {
  parts_->tags.push_back(std::make_unique<TagInstance>(tag));
  return parts_->tags.back().get();
}

uint64_t ExceptionArena::pages_to_add(const TagInstance& tag) const {
  const size_t words = words_of(tag);
  const uint64_t of_places = size_ % kPageWords == 0 ? 1 : 0;
  const uint64_t more = of_places + (words <= words_left_ ? 0 : pages_of(words));
  return std::max(page_count_ + more, kLentPages) - std::max(page_count_, kLentPages);
}

uint64_t ExceptionArena::add(const TagInstance* tag, const uint64_t* payload) {
  const size_t words = words_of(*tag);
  if (words > words_left_) {
    words_left_ = pages_of(words) * kPageWords;
    next_ = pages_.emplace_back(std::make_unique_for_overwrite<uint64_t[]>(words_left_)).get();
    page_count_ += pages_of(words);
  }
  if (size_ % kPageWords == 0) {
    places_.push_back(std::make_unique_for_overwrite<const Exception*[]>(kPageWords));
    ++page_count_;
  }
  auto* const made = new (next_) Exception{tag};
  if (tag->slots != 0) std::memcpy(made + 1, payload, tag->slots * sizeof(uint64_t));
  next_ += words;
  words_left_ -= words;
  places_.back()[size_ % kPageWords] = made;
  return ++size_;
}

bool Machine::keep_exception(Instance& instance, const TagInstance& tag, const uint64_t* payload,
                             uint64_t& reference) {
  ExceptionArena& arena = *instance.exceptions_;
  const uint64_t bytes = ExceptionArena::bytes_of(tag), pages = arena.pages_to_add(tag);
  if (bytes > instance.exception_bytes_left_ || pages > instance.memory_budget_.left_pages) return false;
  instance.exception_bytes_left_ -= bytes;
  instance.memory_budget_.left_pages -= pages;
  reference = arena.add(&tag, payload);
  return true;
}

// -- instantiation (specification 4.5.4), a step a function ---------------------------------------

// A function that a module defines, as that of an instance. Its type is last: compiled code that finds it right
// goes on to read the rest.
void make_function(FunctionInstance& f, CompiledModule& compiled, uint32_t index, Instance* instance) {
  const FunctionCode& code = compiled.function(index);
  f.code = &code;
  f.instance = instance;
  f.param_slots = code.param_slots;
  f.result_slots = code.result_slots;
  const wasm::FuncType* const type = compiled.canonical_type(compiled.module().functions[index].type);
  std::atomic_ref(f.type).store(type, std::memory_order_release);
}

CompiledModule::Lone& CompiledModule::lone() {
  std::call_once(lone_once_, [this] {
    lone_.home.reset(new Instance);
    lone_.functions =
        ZeroArray<FunctionInstance>(module_.functions.size() - module_.imported_function_count());
  });
  return lone_;
}

void CompiledModule::make_lone(FunctionInstance& f) {
  const auto own = static_cast<uint32_t>(&f - lone_.functions.get());
  const uint32_t index = module_.imported_function_count() + own;
  static_cast<void>(function(index));  // before the lock
  const std::lock_guard lock(make_mutex_);
  if (f.type == nullptr) make_function(f, *this, index, lone_.home.get());
}

struct Instantiation {
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
      const CompiledModule::Lone& lone = instance.module_->lone();
      instance.home_ = lone.home.get();
      instance.own_ = lone.functions.get();
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
                                          "a table of " + std::to_string(table.type.limits.min) +
                                              " elements brings the module's tables beyond the limit of " +
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

  // What may refer to a struct or an array is not made again in a thawed instance.
  bool is_in_snapshot(wasm::ValType type) const {
    return start.memories != nullptr && traced_of(instance.module_->runtime_type(type)) != Traced::kNothing;
  }

  // Of a validated constant expression.
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

std::expected<Instance*, LinkError> Store::instantiate(std::shared_ptr<CompiledModule> module,
                                                       const Resolver& resolver, const InstanceLimits& limits,
                                                       const InstanceStart& start) {
  // Kept also when it fails half-way: a table of another instance may refer to its functions by then.
  parts_->instances.push_back(std::unique_ptr<Instance>(new Instance));
  Instance& instance = *parts_->instances.back();
  instance.module_ = std::move(module);
  instance.heap_ = &parts_->heap;
  instance.memory_budget_.left_pages = limits.memory_bytes / wasm::kPageBytes;
  if (!instance.module().type_details.empty()) parts_->heap.allow(limits.heap_bytes);
  instance.exceptions_ = &parts_->exceptions;
  instance.exception_bytes_left_ = limits.exception_bytes;
  Instantiation steps{*this, instance, instance.module(), limits, start};
  if (auto done = steps.run(resolver); !done) return std::unexpected(std::move(done).error());
  return &instance;
}

std::expected<std::shared_ptr<Instance>, LinkError> Instance::create(std::shared_ptr<CompiledModule> module,
                                                                     const Resolver& resolver,
                                                                     const InstanceLimits& limits) {
  auto store = std::make_shared<Store>();
  auto instance = store->instantiate(std::move(module), resolver, limits);
  if (!instance) return std::unexpected(std::move(instance).error());
  return std::shared_ptr<Instance>(std::move(store), *instance);
}

}  // namespace membrane::engine
