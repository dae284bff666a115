// Memory without a name that processes share, in the state of a kept sandbox. Threads: the kernel's one.
#pragma once

#include "linux/kept/page_writer.h"
#include "linux/kept/sandbox_state.h"

namespace membrane::linux {

class SharedMemoryState {
 public:
  // Its length, and the pages that were touched.
  static void write(const SharedMemory& memory, StateWriter& state, PageWriter& pages);
  // A copy of the pages; nullptr after something that is wrong, or that the limit of the memory refuses.
  static FileRef read(SandboxReader& from);
};

}  // namespace membrane::linux
