// Locks by fcntl(), which sys_fcntl passes to calls_locks.cc.
#pragma once

#include "linux/kernel/call.h"

namespace membrane::linux {

// `command`: F_GETLK, F_SETLK, F_SETLKW, and F_OFD_*, with a struct flock at argument 2.
int64_t lock_records(Call& call, File& file, int command);

}  // namespace membrane::linux
