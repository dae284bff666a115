// The only access to the private state of instances and runs, for the parts of the engine that run guest code or
// freeze it. Everything is inlined away.
//
// Threads: one at a time, as for the Store.
#pragma once

#include <atomic>
#include <csetjmp>
#include <optional>
#include <span>
#include <vector>

#include "engine/instance/instance.h"
#include "engine/instance/lone_functions.h"
#include "engine/instance/run.h"
#include "engine/memory/access.h"

namespace membrane::engine {

struct Machine {
  MEMBRANE_INLINE static MachineState& state(Run& run) { return run.machine_; }
  MEMBRANE_INLINE static const ExecutionLimits& limits(const Run& run) { return run.limits_; }
  MEMBRANE_INLINE static sigjmp_buf& fault_jump(Run& run) { return run.fault_jump_; }

  MEMBRANE_INLINE static Memory* memory(const Instance& i) { return i.memory_; }
  MEMBRANE_INLINE static Memory& memory(const Instance& i, uint32_t index) { return *i.memories_[index]; }
  static std::span<Memory* const> memories(const Instance& i) { return i.memories_; }
  MEMBRANE_INLINE static uint8_t* memory_base(const Instance& i) {  // of memory 0; null when it has none
    return i.memory_ == nullptr ? nullptr : i.memory_->base();
  }
  MEMBRANE_INLINE static GlobalInstance* global(const Instance& i, uint32_t index) {
    return i.globals_[index];
  }
  MEMBRANE_INLINE static const TagInstance* tag(const Instance& i, uint32_t index) { return i.tags_[index]; }
  // Whether an address is in memory 0 of the instance, which may be null, or in what is reserved for it.
  static bool reserves(const Instance* i, const void* address) {
    return i != nullptr && i->memory_ != nullptr && i->memory_->reserves(address);
  }
  static ExceptionArena& exceptions(const Instance& i) { return *i.exceptions_; }
  static MemoryBudget* memory_budget(Instance& i) { return &i.memory_budget_; }
  static uint64_t& first_object(Instance& i) { return i.first_object_; }
  // Adds an exception to those of its Store. False: its limit or the memory limit has no room for another.
  static bool keep_exception(Instance& i, const TagInstance& tag, const uint64_t* payload,
                             uint64_t& reference);
  static uint64_t& first_exception(Instance& i) { return i.first_exception_; }
  MEMBRANE_INLINE static Table* table(const Instance& i, uint32_t index) { return i.tables_[index]; }
  // The function that the instance's code means by an index.
  MEMBRANE_INLINE static FunctionInstance* function(const Instance& i, uint32_t index) {
    const size_t imported = i.imports_.size();
    return index < imported ? i.imports_[index] : i.own_ + (index - imported);
  }
  // The index, in an array of functions, of the one that a reference refers to; nothing when it is none of them.
  static std::optional<uint32_t> place_among(const FunctionInstance* functions, size_t count,
                                             uint64_t reference) {
    const uint64_t distance = reference - reinterpret_cast<uint64_t>(functions);
    if (distance >= count * sizeof(FunctionInstance)) return std::nullopt;
    return static_cast<uint32_t>(distance / sizeof(FunctionInstance));
  }
  // The function that a reference in the instance leads to, filled in so that its fields can be read; null for
  // null.
  MEMBRANE_INLINE static FunctionInstance* target(const Instance& i, uint64_t reference) {
    auto* const function = reinterpret_cast<FunctionInstance*>(reference);
    if (function != nullptr && std::atomic_ref(function->type).load(std::memory_order_acquire) == nullptr)
        [[unlikely]]
      i.module_->lone().make(*function);
    return function;
  }
  MEMBRANE_INLINE static Instance* home(const Instance& i) { return i.home_; }
  static FunctionInstance* own_functions(const Instance& i) { return i.own_; }
  MEMBRANE_INLINE static FrameRecord* frames(Run& run) { return run.frames_; }
  static GlobalInstance* const* globals(const Instance& i) { return i.globals_.data(); }
  static std::span<Table* const> tables(const Instance& i) { return i.tables_; }
  static std::span<FunctionInstance* const> imports(const Instance& i) { return i.imports_; }
  static const wasm::FuncType* const* types(const Instance& i) { return i.module_->canonical_types(); }
  MEMBRANE_INLINE static std::vector<uint64_t>& elements(Instance& i, uint32_t index) {
    return i.elements_[index];
  }
  MEMBRANE_INLINE static const wasm::FuncType* type(const Instance& i, uint32_t index) {
    return i.module_->canonical_type(index);
  }
  static std::vector<bool>& dropped_datas(Instance& i) { return i.dropped_datas_; }
  static std::vector<std::vector<uint64_t>>& segments(Instance& i) { return i.elements_; }
  static FunctionInstance*& entry(Run& run) { return run.entry_; }
  static uint64_t* slots(Run& run) { return run.slots_; }
  static void owe(Run& run, uint64_t fuel);  // HostCall::owe
  static void set_fell_short(Run& run) { run.fell_short_ = true; }
  static void drop_data(Instance& i, uint32_t index) { i.dropped_datas_[index] = true; }
  static std::span<const uint8_t> data(const Instance& i, uint32_t index) {
    if (i.dropped_datas_[index]) return {};
    const wasm::Module& module = i.module_->module();
    return module.view(module.datas[index].data);
  }
};

}  // namespace membrane::engine
