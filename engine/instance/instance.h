// A module's instance: its functions, memories, tables, globals and tags, linked.
//
//   auto module = compile_module(std::move(wasm_module));             // execution/module.h: validates
//   auto instance = Instance::create(*module, resolver, limits);      // links, fills memory and tables
//   Execution run(limits);                                            // execution/execution.h
//   run.start((*instance)->find_function("add"), arguments);
//   run.add_fuel(1'000'000);
//   switch (run.resume()) { … }                                        // values, a trap, or a pause
//
// A start function is not run by create(): Module::start names it, and the caller runs it like any other, under the
// same limits.
//
// Ownership. A Store is the arena of instances that link with each other. An instance made alone has a Store of its
// own. Handles are shared_ptr<Instance> that keep the Store alive.
//
// Threads: a CompiledModule is shared by any number of threads; an instance belongs to one thread at a time, as its
// Store does.
//
// Specification: WebAssembly 2.0, chapters 4.2 (runtime structure) and 4.5 (modules).
#pragma once

#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/zero_array.h"
#include "engine/instance/store.h"

namespace membrane::engine {

class Instance {
 public:
  // In a Store of its own.
  static std::expected<std::shared_ptr<Instance>, LinkError> create(std::shared_ptr<CompiledModule> module,
                                                                    const Resolver& resolver,
                                                                    const InstanceLimits& limits);

  [[nodiscard]] CompiledModule& compiled() const { return *module_; }
  [[nodiscard]] const std::shared_ptr<CompiledModule>& share_compiled() const { return module_; }
  [[nodiscard]] const wasm::Module& module() const { return module_->module(); }
  [[nodiscard]] std::optional<Extern> find_export(std::string_view name);
  [[nodiscard]] FunctionInstance* find_function(std::string_view export_name);  // null when there is none
  // To be called from outside.
  [[nodiscard]] FunctionInstance* function(uint32_t index);
  // The module's function that a reference inside refers to; nothing when it is none of them.
  [[nodiscard]] std::optional<uint32_t> index_of(uint64_t function_reference) const;
  [[nodiscard]] Memory* memory() const { return memory_; }  // memory 0, null when it has none
  [[nodiscard]] uint64_t memory_bytes() const;  // the present size of all its memories, and of the heap
  [[nodiscard]] Heap& heap() const { return *heap_; }  // of its Store
  [[nodiscard]] bool limit_was_hit() const;            // a grow of a memory was refused by the owner's limit
  void note_limit_was_hit();  // as if one had been: for an instance that continues from a kept state

 private:
  friend class Store;
  friend class LoneFunctions;
  friend struct Instantiation;
  friend struct Machine;
  Instance() = default;

  std::shared_ptr<CompiledModule> module_;
  Memory* memory_ = nullptr;  // the first of memories_
  std::vector<Memory*> memories_;
  MemoryBudget memory_budget_;  // of its own memories, when there are several
  // Functions refer to their instance, by which a call tells whether it stays inside. The functions of an instance
  // that stands alone, which shares nothing with another, can only be called inside: they belong to the module,
  // are the same in each of its instances, and refer to a common home. `entries_` are those for callers outside.
  Instance* home_ = this;
  std::vector<FunctionInstance*> imports_;
  FunctionInstance* own_ = nullptr;
  std::vector<std::unique_ptr<FunctionInstance>> entries_;
  std::vector<Table*> tables_;
  std::vector<GlobalInstance*> globals_;
  std::vector<TagInstance*> tags_;
  Heap* heap_ = nullptr;
  uint64_t first_object_ = 0;  // of a thawed instance: how many numbers of objects there were before
  ExceptionArena* exceptions_ = nullptr;  // of its Store
  uint64_t exception_bytes_left_ = 0;
  uint64_t first_exception_ = 0;                 // of a thawed instance: how many there were before its own
  ZeroArray<FunctionInstance> own_functions_;    // null when it stands alone
  std::vector<std::vector<uint64_t>> elements_;  // of each segment; empty once dropped
  std::vector<bool> dropped_datas_;
};

}  // namespace membrane::engine
