// /proc/PID and /proc/PID/task/TID. Threads: the kernel's one.
#pragma once

#include "linux/kernel/kernel.h"
#include "linux/proc/made_node.h"

namespace membrane::linux {

// What stands for a process, or for one of its tasks, in the directory of all. Errors: ENOENT.
Try<MadeDirectory::Child> process_child(Kernel& kernel, int id);

}  // namespace membrane::linux
