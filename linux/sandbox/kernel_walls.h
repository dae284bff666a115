// The walls around the kernel process itself: if a guest took it over, it would have no files, no network, and few system calls.
#pragma once

#include <string>
#include <vector>

#include "linux/platform/trap/trap.h"

namespace membrane::linux {

// Before the platform is started, by a process with one thread: namespaces of its own, and an empty root with nothing but /proc, by
// which the platform reaches the memory of guests. Returns what this machine refuses.
std::vector<MissingWall> leave_host();

// After everything is open: all threads are left with the system calls of kernel_calls.def; another one ends the process.
std::vector<MissingWall> allow_only_kernel_calls();

}  // namespace membrane::linux
