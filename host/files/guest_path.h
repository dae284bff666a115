// Guest paths: absolute, "/"-separated names of the program's own name space.
//
// Threads: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "host/errno.h"

namespace membrane::host {

using Components = std::vector<std::string>;

// "/data//a/./b/" becomes {"data", "a", "b"}; "/" becomes {}. EINVAL for a relative path, "..",
// NUL, what is not UTF-8, and what is too long.
HostResult<Components> parse_guest_path(std::string_view path);

// "/data/a/b".
std::string guest_text(const Components& components);
// Which directory to grant for an absolute path that is not granted: the one that it is in. A name at the root without a
// dot may be a directory's, and is its own.
std::string directory_to_grant(std::string_view guest_path);

}  // namespace membrane::host
