#include "engine/instance/instance.h"

#include <algorithm>
#include <utility>

#include "engine/instance/machine.h"

namespace membrane::engine {

using wasm::ExternKind;

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

std::expected<std::shared_ptr<Instance>, LinkError> Instance::create(std::shared_ptr<CompiledModule> module,
                                                                     const Resolver& resolver,
                                                                     const InstanceLimits& limits) {
  auto store = std::make_shared<Store>();
  auto instance = store->instantiate(std::move(module), resolver, limits);
  if (!instance) return std::unexpected(std::move(instance).error());
  return std::shared_ptr<Instance>(std::move(store), *instance);
}

}  // namespace membrane::engine
