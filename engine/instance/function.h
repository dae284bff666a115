// A function as instances have it: of a module, or of the host.
//
// Ownership: of the Store that has the instance, or of the module (LoneFunctions). Threads: those of the Store.
#pragma once

#include <cstdint>

#include "engine/code/code.h"
#include "engine/instance/host_call.h"

namespace membrane::engine {

// The part of a FunctionInstance that compiled code reads.
struct FunctionHandle {
  const FunctionCode* code = nullptr;  // null for a host function
  Instance* instance =
      nullptr;  // the owner, or what instances that stand alone have for their home (Instance);
                // null for a host function
  const wasm::FuncType* type = nullptr;
};

struct FunctionInstance : FunctionHandle {
  uint32_t param_slots = 0;
  uint32_t result_slots = 0;
  const HostFunction* host = nullptr;  // null for a function with code
};

}  // namespace membrane::engine
