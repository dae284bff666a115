// prctl() requests about capabilities. Threads: the kernel's thread.
#pragma once

#include <optional>

#include "linux/kernel/call.h"

namespace membrane::linux {

// nullopt when the call is about something else.
std::optional<int64_t> change_capabilities(Call& call);

}  // namespace membrane::linux
