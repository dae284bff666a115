// The roots of /proc and /sys. They refer to the kernel, which outlives the files that its processes have
// open.
// Threads: the kernel's thread.
#pragma once

#include "linux/kernel/kernel.h"

namespace membrane::linux {

NodeRef make_proc_directory(Kernel& kernel);
NodeRef make_sys_directory(Kernel& kernel);

}  // namespace membrane::linux
