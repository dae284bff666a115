// The interpreter's memory accesses, and the handling of those that fault.
//
// They are single instructions (memory/access.h) that hold the interpreter's registers in fixed places. When one faults
// inside the region of the running guest's memory, those registers are taken out of the machine context, and control
// jumps back into interpret().
//
// Threads: lives on the thread that runs the interpreter.
#pragma once

#include "engine/instance/run.h"
#include "engine/memory/fault.h"

namespace membrane::engine {

class InterpretedCode final : public GuestCode {
 public:
  explicit InterpretedCode(Run& run) : run_(run) {}
  bool take_fault(const void* address, void* context) override;

 private:
  [[maybe_unused]] Run& run_;
};

}  // namespace membrane::engine
