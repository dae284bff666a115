// The file system of a computer: a private tree over its image, and what the kernel makes by itself.
#pragma once

#include "base/result.h"
#include "linux/files/devices.h"
#include "linux/fs/node.h"
#include "linux/kernel/kernel.h"
#include "linux/sandbox/computer.h"

namespace membrane::linux {

// Errors: those of opening an image.
Result<NodeRef> make_root(const Computer& computer, const std::shared_ptr<const Devices>& devices);
// /dev.
Status mount_systems(Kernel& kernel, const std::shared_ptr<Devices>& devices);

}  // namespace membrane::linux
