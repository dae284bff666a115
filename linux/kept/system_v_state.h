// Segments, semaphores and message queues of System V in the state of a kept sandbox. Threads: the kernel's thread.
#pragma once

#include "linux/kept/sandbox_state.h"

namespace membrane::linux {

struct SystemV;

class SystemVState {
 public:
  static void write(SandboxWriter& to, const SystemV& all, StateWriter& state);
  // After the files, which segments refer to.
  static void read(SandboxReader& from, SystemV& all);
};

}  // namespace membrane::linux
