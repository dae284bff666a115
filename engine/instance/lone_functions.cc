#include "engine/instance/lone_functions.h"

#include <atomic>

#include "engine/instance/instance.h"

namespace membrane::engine {

// The type is written last: compiled code that finds it right reads the rest.
void make_function(FunctionInstance& f, CompiledModule& compiled, uint32_t index, Instance* instance) {
  const FunctionCode& code = compiled.function(index);
  f.code = &code;
  f.instance = instance;
  f.param_slots = code.param_slots;
  f.result_slots = code.result_slots;
  const wasm::FuncType* const type = compiled.canonical_type(compiled.module().functions[index].type);
  std::atomic_ref(f.type).store(type, std::memory_order_release);
}

LoneFunctions::LoneFunctions(CompiledModule& module)
    : module_(module),
      home_(new Instance),
      functions_(module.module().functions.size() - module.module().imported_function_count()) {}
LoneFunctions::~LoneFunctions() = default;

void LoneFunctions::make(FunctionInstance& f) {
  const auto own = static_cast<uint32_t>(&f - functions_.get());
  const uint32_t index = module_.module().imported_function_count() + own;
  const std::lock_guard lock(mutex_);
  if (f.type == nullptr) make_function(f, module_, index, home_.get());
}

}  // namespace membrane::engine
