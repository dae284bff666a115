// The walls around the kernel process itself: a guest that took it over would have no files, no network, and
// few system calls.
#pragma once

#include <string>
#include <vector>

#include "linux/platform/trap/trap.h"

namespace membrane::linux {

// Call it before the platform starts, in a process with one thread: it enters namespaces of its own, with an
// empty root that contains only /proc, through which the platform reaches the memory of guests. Returns the
// walls that this machine refuses.
std::vector<MissingWall> leave_host();

// Call it when everything is open: limits all threads to the system calls of kernel_calls.def; any other ends
// the process.
std::vector<MissingWall> allow_only_kernel_calls();

}  // namespace membrane::linux
