// The ways in and out of compiled code: pieces of machine code that are made once for the process.
//
// Threads: any; made by the first caller, and constant from then on.
#pragma once

#include <cstdint>

#include "engine/code/trap.h"
#include "engine/native/code_arena.h"
#include "engine/native/state.h"

namespace membrane::engine::native {

// All are null where there is no room for code.
struct Trampolines {
  CodeBlock block;
  void (*enter)(NativeState*) = nullptr;
  const void* exit_fuel = nullptr;
  const void* exit_call = nullptr;
  const void* exit_instance = nullptr;
  const void* exit_helper = nullptr;
  const void* exit_overflow = nullptr;
  const void* exit_fault = nullptr;
  const void* returned = nullptr;
  const void* exit_trap[kTrapKinds] = {};

  static const Trampolines& instance() {
    static const Trampolines* const trampolines = new Trampolines;
    return *trampolines;
  }

 private:
  Trampolines();
};

}  // namespace membrane::engine::native
