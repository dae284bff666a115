// The roots of /proc and /sys. They hold a reference to the kernel, which outlives what its processes have open.
// Threads: the kernel's one.
#pragma once

#include "linux/kernel/kernel.h"

namespace membrane::linux {

NodeRef make_proc_directory(Kernel& kernel);
NodeRef make_sys_directory(Kernel& kernel);
<<<<<<< HEAD
=======
// With the terminals at pts/, and `shared_memory` at shm/; nullptr: there is none.
NodeRef make_dev_directory(const std::shared_ptr<const Devices>& devices,
                           const std::shared_ptr<Terminals>& terminals, const NodeRef& shared_memory);
>>>>>>> main

}  // namespace membrane::linux
