// Permissions of files in granted directories, for Linux sandboxes: other programs know none.
//
// Paths are decided and opened as by file_handles.h. Threads: as for the roots.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "host/files/roots.h"

namespace membrane::host {

// Of a file, a directory or, below a grant with links, a link: 0777 at most.
HostResult<uint32_t> permissions_of(Roots& roots, std::string_view path);
// But nobody else gets the right to write. No link is followed, in no component. EACCES where the file may not be written: below a grant for
// reading, or with another name that may lie outside.
HostResult<void> set_permissions(Roots& roots, std::string_view path, uint32_t mode);

// Takes the set-user-id and set-group-id bits from a file that a program is about to write: what it writes runs as nobody else.
// (The kernel does so itself, but for a superuser.)
HostResult<void> drop_privileges(const Fd& fd, const std::string& text);

}  // namespace membrane::host
