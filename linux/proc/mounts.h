// What the kernel mounts by itself: /proc, /sys, and /dev with its terminals and devices. Threads: the kernel's thread.
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
  NodeRef device_files, shared_memory;  // the trees on /dev and /dev/shm
  std::vector<NodeRef> covered;         // the directories of the root that are mounted over
};

// Mounts them over directories of the root, which are made where they are missing, and sets kernel.system. Once, before the first
// process. `devices` are those that the root opens; they get /dev/ptmx. Errors: those of making a directory.
Done mount_system_directories(Kernel& kernel, std::shared_ptr<Devices> devices = nullptr);

// Mounts over a directory, which is made where it is missing, as those above it are. Before the first process. Asks nothing of what is
// mounted. Errors: ENOTDIR where a part of the path is something else; EBUSY below another mount; EINVAL for "/" and what is no path.
Done mount_at(Kernel& kernel, std::string_view path, const NodeRef& mounted);

}  // namespace membrane::linux
