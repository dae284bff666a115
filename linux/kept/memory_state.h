// The memory of a process in the state of a kept sandbox: its mappings, and the pages that the process owns.
// Those are in the file, which a restored process maps privately over what backs the area. Threads: the
// kernel's thread.
#pragma once

#include "linux/kept/sandbox_state.h"
#include "linux/kernel/memory.h"

namespace membrane::linux {

class MemoryState {
 public:
  static void write(SandboxWriter& to, Memory& memory, StateWriter& state);
  // Reads into a memory that has nothing mapped. False: the state is damaged.
  static bool read(SandboxReader& from, Memory& memory);

 private:
  static std::vector<PageRun> own_pages(SandboxWriter& to, Memory& memory, uint64_t start, const Area& area);
  static bool read_area(SandboxReader& from, Memory& memory, uint64_t& last);
  static bool read_pages(SandboxReader& from, Memory& memory, uint64_t& last, bool maps);
};

}  // namespace membrane::linux
