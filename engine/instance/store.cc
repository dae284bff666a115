#include "engine/instance/store.h"

#include <span>
#include <utility>

#include "engine/instance/instance.h"
#include "engine/instance/instantiation.h"

namespace membrane::engine {

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
  if (auto done = Instantiation::run(*this, instance, resolver, limits, start); !done)
    return std::unexpected(std::move(done).error());
  return &instance;
}

}  // namespace membrane::engine
