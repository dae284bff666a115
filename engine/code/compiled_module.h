// A module made ready to run, as the translator, the tiers and instances see it: its functions' code, and its types.
//
// compile_module() (execution/module.h) makes it; this is the part that the rest of the engine reads.
//
// Threads: shared by any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/zero_array.h"
#include "engine/code/code.h"
#include "engine/code/tier.h"
#include "engine/heap/runtime_types.h"
#include "engine/memory/memory_image.h"
#include "wasm/module.h"

namespace membrane::engine {

class LoneFunctions;
namespace native {
struct FrameSlots;
class ModuleCode;
}  // namespace native

class CompiledModule {
 public:
  virtual ~CompiledModule();
  CompiledModule(const CompiledModule&) = delete;
  CompiledModule& operator=(const CompiledModule&) = delete;

  [[nodiscard]] const wasm::Module& module() const { return module_; }
  [[nodiscard]] FunctionCode& function(uint32_t index) {
    FunctionCode& code = functions_[index];
    if (code.entry.load(std::memory_order_acquire) == nullptr) [[unlikely]]
      make(index);
    return code;
  }
  // Only for calculating addresses: function() makes what is not there yet.
  [[nodiscard]] FunctionCode* functions() const { return functions_.get(); }
  // The run-time type of `types[index]`: equal types have equal pointers.
  [[nodiscard]] const wasm::FuncType* canonical_type(uint32_t index) const { return canonical_types_[index]; }
  [[nodiscard]] const wasm::FuncType* const* canonical_types() const { return canonical_types_.data(); }
  [[nodiscard]] RuntimeValType runtime_type(wasm::ValType type) const {
    return {type, wasm::is_indexed(type) ? canonical_types_[wasm::type_index_of(type)] : nullptr};
  }
  [[nodiscard]] Tier tier() const { return tier_; }

  // Makes the function's internal code and publishes it in its `entry`. Idempotent; thread-safe.
  virtual void translate_function(uint32_t index) = 0;
  // The frames of the functions that it defines.
  [[nodiscard]] virtual std::vector<native::FrameSlots> frames() const = 0;
  // Its machine code, made when it is first asked for. Not for Tier::kInterpreter.
  [[nodiscard]] virtual native::ModuleCode& native_code() = 0;
  // Bytes of machine code; 0 when nothing is compiled.
  [[nodiscard]] virtual size_t native_code_bytes() const = 0;
  [[nodiscard]] virtual size_t native_function_count() const = 0;  // functions that have machine code
  // What its instances that stand alone share (InstanceStart). Made when first asked for.
  [[nodiscard]] virtual LoneFunctions& lone() = 0;
  // The module's own memory 0 as its data segments leave it, when these are large enough for an image to pay.
  // Null otherwise, and for the first instance: it may be the only one.
  [[nodiscard]] virtual std::shared_ptr<const MemoryImage> data_image() = 0;

 protected:
  CompiledModule(wasm::Module module, Tier tier);
  // Fills in a function whose `entry` is null, when it is known; thread-safe.
  virtual void make(uint32_t index) = 0;

  wasm::Module module_;
  ZeroArray<FunctionCode> functions_;
  ModuleTypes canonical_types_;
  Tier tier_;
};

}  // namespace membrane::engine
