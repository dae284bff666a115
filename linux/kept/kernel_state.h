// A frozen kernel in the state of a kept sandbox: its clock and random numbers, its trees, processes and tasks (docs/sandbox-format.md).
// Threads: the kernel's thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "linux/kept/kept_file.h"
#include "linux/kept/sandbox_state.h"

namespace membrane::linux {

// A process that the owner has started, and its connections to the outside: either the streams, or the master
// of a terminal.
struct KeptCommand {
  int process = 0;
  std::shared_ptr<OutsideInput> input;
  std::shared_ptr<OutsideOutput> output, errors;
  std::shared_ptr<PtyMaster> terminal;
};

class KernelState {
 public:
  // The kernel must be frozen.
  static void write(Kernel& kernel, const std::vector<KeptCommand>& commands, StateWriter& state,
                    PageWriter& pages);
  // Reads into a kernel without processes, whose root is that of the kept one, and whose system directories
  // are mounted. The kernel is then frozen. Errors: kInvalidInput; kExhausted for more than the limits allow;
  // kUnavailable when the platform has no room.
  static Status read(Kernel& kernel, StateReader& state, const std::shared_ptr<const PageFile>& file,
                     std::vector<NodeRef>& held, std::vector<KeptCommand>& commands);

 private:
  class Writer;
  class Reader;
};

}  // namespace membrane::linux
