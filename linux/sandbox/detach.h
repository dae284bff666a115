// A process that was forked to live apart from its owner.
#pragma once

#include "linux/platform/trap/host_file.h"

namespace membrane::linux {

// Nothing of the owner's process is kept: its files, its terminal, what it does with signals. Returns the one file that stays.
HostFile leave_owner(HostFile socket);

}  // namespace membrane::linux
