// Requests about files at the door, of a language whose module has no WASI functions for them: JSON to wasi/file_calls.h,
// and back. host/door.h says what they look like.
//
// Threads: one at a time.
#pragma once

#include <string_view>

#include "host/door.h"
#include "wasi/system.h"

namespace membrane::sandbox {

// Not inside of another call of the system.
host::DoorSession::JsonAnswer answer_files(wasi::System& system, host::Guest& guest,
                                           std::string_view request);

}  // namespace membrane::sandbox
