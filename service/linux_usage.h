// What a live Linux sandbox uses of memory, disk and processors.
//
// Threads: those of linux::LiveComputer.
#pragma once

#include "linux/sandbox/live_computer.h"
#include "service/guest.h"

namespace membrane::service {

// Errors: those of computer_error() (service/linux_files.h).
Answer<GuestUsage> usage_of(linux::LiveComputer& computer);

}  // namespace membrane::service
