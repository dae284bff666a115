// What the kernel mounts by itself: /proc, /sys, and /dev with its terminals and devices. Threads: the
// kernel's thread.
#pragma once

#include <memory>
#include <vector>

#include "linux/abi/answer.h"
#include "linux/files/devices.h"
#include "linux/files/pty.h"
#include "linux/kernel/kernel.h"

namespace membrane::linux {

// Kept by the kernel (Kernel::system).
struct SystemDirectories {
  std::shared_ptr<Devices> devices;
  std::shared_ptr<Terminals> terminals;
  NodeRef device_files, shared_memory;  // the trees at /dev and /dev/shm
  std::vector<NodeRef> covered;         // directories of the root that are mounted over
};

// Mounts them over directories of the root, creating missing ones, and sets kernel.system. Call it once,
// before the first process. `devices` are the root's; /dev/ptmx is added to them. Errors: those of creating a
// directory.
Done mount_system_directories(Kernel& kernel, std::shared_ptr<Devices> devices = nullptr);

// Mounts over a directory; missing directories on its path are created. Call it before the first process.
// Does not access what is mounted. Errors: ENOTDIR where a part of the path is something else; EBUSY below
// another mount; EINVAL for "/" and for anything but a path.
Done mount_at(Kernel& kernel, std::string_view path, const NodeRef& mounted);

}  // namespace membrane::linux
