// File requests at the door, for a language whose module has no WASI functions for them: JSON to wasi/file_calls.h,
// and back. For their form see host/door.h.
//
// Threads: one at a time.
#pragma once

#include <string_view>

#include "host/door.h"
#include "wasi/system.h"

namespace membrane::sandbox {

// Must not be called inside another call of the system.
host::DoorSession::JsonAnswer answer_files(wasi::System& system, host::Guest& guest,
                                           std::string_view request);

}  // namespace membrane::sandbox
