// How much a run may still write in a granted directory, for statfs() of Linux sandboxes.
#pragma once

#include <cstdint>
#include <string_view>

#include "host/files/roots.h"

namespace membrane::host {

// For the grant of a path: its max_total and max_files, and what remains of them; at most the host file system's
// free bytes. Below a grant for reading nothing remains.
struct Room {
  uint64_t most_bytes = 0, free_bytes = 0, most_files = 0, free_files = 0;
};
HostResult<Room> room_of(Roots& roots, std::string_view path);

}  // namespace membrane::host
