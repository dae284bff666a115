// What system calls say to those who watch files (inotify). Without watches nothing is done. Threads: the kernel's thread.
#pragma once

#include <sys/inotify.h>

#include <cstdint>
#include <string_view>

#include "linux/fs/paths.h"
#include "linux/kernel/kernel.h"

namespace membrane::linux {

// What happens to a file that was reached so: its directory is told its name, too.
void announce(Kernel& kernel, const Location* at, Node& node, uint32_t mask);
// Of an open file.
void announce(Kernel& kernel, File& file, uint32_t mask);
// In a directory: `node` came, went or was named so. IN_ISDIR is added by what it is.
void announce_in(Kernel& kernel, const Node& directory, std::string_view name, Node& node, uint32_t mask,
                 uint32_t cookie = 0);
// The name of a node is gone.
void announce_removal(Kernel& kernel, const Node& directory, std::string_view name, Node& node);
// After a rename.
void announce_move(Kernel& kernel, const Parent& from, const Parent& to, Node& node);

}  // namespace membrane::linux
