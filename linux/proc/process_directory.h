// /proc/PID and /proc/PID/task/TID. Threads: the kernel's thread.
#pragma once

#include "linux/kernel/kernel.h"
#include "linux/proc/made_node.h"

namespace membrane::linux {

// What stands for a process, or for one of its tasks, in the directory of all. Errors: ENOENT.
Try<MadeDirectory::Child> process_child(Kernel& kernel, int id);
// The process whose directory it is; 0: it is no such directory.
int process_of_directory(const Node& node);

}  // namespace membrane::linux
