// Permissions of files in granted directories, for Linux sandboxes: other programs have none.
//
// Paths are decided and opened as in file_handles.h. Threads: as for the roots.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "host/files/roots.h"

namespace membrane::host {

// Of a file, a directory or, below a grant with links, a link: 0777 at most.
HostResult<uint32_t> permissions_of(Roots& roots, std::string_view path);
// Write permission is never given to other users. No link is followed, in any component. EACCES if the file may not
// be written: below a grant for reading, or with another name that may be outside.
HostResult<void> set_permissions(Roots& roots, std::string_view path, uint32_t mode);

// Removes the set-user-id and set-group-id bits from a file that a program is about to write, so that its content
// runs with no other user's rights. (The kernel does so itself, except for a superuser.)
HostResult<void> drop_privileges(const Fd& fd, const std::string& text);

}  // namespace membrane::host
