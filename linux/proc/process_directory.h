// /proc/PID and /proc/PID/task/TID. Threads: the kernel's thread.
#pragma once

#include "linux/kernel/kernel.h"
#include "linux/proc/made_node.h"

namespace membrane::linux {

// The directory's entry for a process or one of its tasks. Errors: ENOENT.
Try<MadeDirectory::Child> process_child(Kernel& kernel, int id);
// The process that a directory belongs to; 0: it is not such a directory.
int process_of_directory(const Node& node);

}  // namespace membrane::linux
