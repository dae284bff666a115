// The platform `kvm`: guest threads run in ring 3 of a virtual machine that has no ring-0 code. Every system
// call and exception exits the machine, and the kernel process handles it.
//
//   this process ──┬─ nursery      as trap's (linux/platform/trap/trap.h), and the same walls
//                  └─ monitor …    a guest's process: its memory, a machine over it, a processor for each thread (monitor/)
//
// It is `trap` with another program in the guests' processes: the exchange between the kernel process and a
// monitor is the same, plus the machine's own memory (tables.h), which only the kernel process writes. A
// guest cannot reach the monitor at all, since the monitor's addresses are not mapped in the machine.
#pragma once

#include <chrono>
#include <memory>

#include "base/result.h"
#include "linux/platform/platform.h"
#include "linux/platform/trap/host_file.h"

namespace membrane::linux {

// Opens /dev/kvm if it can do what the platform needs. Errors: kUnsupported, with the reason.
Result<HostFile> open_kvm_device();

}  // namespace membrane::linux
