// Nameless memory that processes share, in the state of a kept sandbox. Threads: the kernel's thread.
#pragma once

#include "linux/kept/page_writer.h"
#include "linux/kept/sandbox_state.h"

namespace membrane::linux {

class SharedMemoryState {
 public:
  // Its length, and the pages that were touched.
  static void write(const SharedMemory& memory, StateWriter& state, PageWriter& pages);
  // Returns a copy of the pages; nullptr when the state is damaged or the memory limit refuses it.
  static FileRef read(SandboxReader& from);
};

}  // namespace membrane::linux
