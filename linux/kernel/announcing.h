// Announces what system calls do to watchers of files (inotify). Without watches nothing is done. Threads:
// the kernel's thread.
#pragma once

#include <sys/inotify.h>

#include <cstdint>
#include <string_view>

#include "linux/fs/paths.h"
#include "linux/kernel/kernel.h"

namespace membrane::linux {

// Announces an event of a file that was reached by this location: to its directory with its name, and to
// itself.
void announce(Kernel& kernel, const Location* at, Node& node, uint32_t mask);
// Announces an event of an open file.
void announce(Kernel& kernel, File& file, uint32_t mask);
// Announces an event in a directory: `node` was created, removed or renamed to this name. IN_ISDIR is added
// as needed.
void announce_in(Kernel& kernel, const Node& directory, std::string_view name, Node& node, uint32_t mask,
                 uint32_t cookie = 0);
// A name of the node was removed.
void announce_removal(Kernel& kernel, const Node& directory, std::string_view name, Node& node);
// After a rename.
void announce_move(Kernel& kernel, const Parent& from, const Parent& to, Node& node);

}  // namespace membrane::linux
