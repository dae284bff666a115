// Faults in guest memory become traps.
//
// The interpreter's memory accesses are single instructions (access.h) that hold its
// registers in fixed places. When one faults inside the region of the running guest's
// memory, the signal handler takes those registers out of the machine context and jumps
// back into interpret(). Any other fault goes to the handler that was installed before.
//
// Threads: the handler is installed once for the process; the running Execution is
// per thread.
#pragma once

namespace membrane::engine {

struct Execution;

// Installs the handler at its first call.
void install_fault_handler();

// Marks `ex` as running on this thread while it lives.
class RunningScope {
 public:
  explicit RunningScope(Execution& ex);
  ~RunningScope();
  RunningScope(const RunningScope&) = delete;
  RunningScope& operator=(const RunningScope&) = delete;
};

}  // namespace membrane::engine
