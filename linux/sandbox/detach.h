// A process that was forked to live independently of its owner.
#pragma once

#include "linux/platform/trap/host_file.h"

namespace membrane::linux {

// Drops everything of the owner's process: its files, its terminal, its signal handlers. Returns the one file
// that stays.
HostFile leave_owner(HostFile socket);

}  // namespace membrane::linux
