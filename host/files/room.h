// How much a run may still write in a granted directory, for statfs() of Linux sandboxes.
#pragma once

#include <cstdint>
#include <string_view>

#include "host/files/roots.h"

namespace membrane::host {

// Of the grant that a path is in: its max_total and max_files, and what is left of them; no more bytes than the host's file system has
// free. Below a grant for reading nothing is left.
struct Room {
  uint64_t most_bytes = 0, free_bytes = 0, most_files = 0, free_files = 0;
};
HostResult<Room> room_of(Roots& roots, std::string_view path);

}  // namespace membrane::host
