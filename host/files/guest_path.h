// Guest paths: absolute, "/"-separated names in the program's own name space.
//
// Threads: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "host/errno.h"

namespace membrane::host {

using Components = std::vector<std::string>;

// "/data//a/./b/" becomes {"data", "a", "b"}; "/" becomes {}. EINVAL for a relative path, "..", NUL, invalid UTF-8,
// and a path that is too long.
HostResult<Components> parse_guest_path(std::string_view path);

// "/data/a/b".
std::string guest_text(const Components& components);
// The directory to grant for an absolute path that is not granted: its parent. A name at the root without a dot may
// be a directory, and is returned itself.
std::string directory_to_grant(std::string_view guest_path);

}  // namespace membrane::host
