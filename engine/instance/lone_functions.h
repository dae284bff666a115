// The functions of a module that its instances that stand alone (InstanceStart) share, so that an instance costs little
// to make, however many functions there are.
//
// Each is made when a reference to it is first followed (Machine::target). Until then it has no type, so that compiled
// code takes the path for a wrong type.
//
// Ownership: of the module. Threads: any.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "base/zero_array.h"
#include "engine/code/compiled_module.h"
#include "engine/instance/function.h"

namespace membrane::engine {

class LoneFunctions {
 public:
  explicit LoneFunctions(CompiledModule& module);
  ~LoneFunctions();
  LoneFunctions(const LoneFunctions&) = delete;
  LoneFunctions& operator=(const LoneFunctions&) = delete;

  // What the functions have in place of an instance. Only its address is used.
  [[nodiscard]] Instance* home() const { return home_.get(); }
  // Those that the module defines, one after the other.
  [[nodiscard]] FunctionInstance* functions() const { return functions_.get(); }
  void make(FunctionInstance& function);

 private:
  CompiledModule& module_;
  std::unique_ptr<Instance> home_;
  ZeroArray<FunctionInstance> functions_;
  std::mutex mutex_;  // guards the making of functions
};

// Makes a function that a module defines, as that of `instance`.
void make_function(FunctionInstance& function, CompiledModule& module, uint32_t index, Instance* instance);

}  // namespace membrane::engine
