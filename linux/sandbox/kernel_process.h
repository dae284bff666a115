// The kernel process of a live computer (live_computer.h), from its first instruction to its last.
#pragma once

#include "linux/platform/trap/host_file.h"

namespace membrane::linux {

// What must be known before the platform starts.
struct KernelProcessOptions {
  bool traps_time_stamps = false;  // for a deterministic LiveSpec
  bool is_kvm = false;             // the platform; else it is `trap`
};

// Raises the walls, starts the platform, waits for the owner's LiveSpec on the socket, and serves until the
// owner is gone. Call it in a single-threaded process that was forked for this; its other descriptors are
// closed. Ends the process.
[[noreturn]] void run_kernel_process(HostFile socket, const KernelProcessOptions& options);

}  // namespace membrane::linux
