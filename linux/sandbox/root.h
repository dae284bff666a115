// The file system of a computer: a private tree over its image. What the kernel makes by itself is in linux/proc/mounts.h.
#pragma once

#include <memory>

#include "base/result.h"
#include "linux/files/devices.h"
#include "linux/fs/node.h"
#include "linux/sandbox/computer.h"

namespace membrane::linux {

// Errors: those of opening an image.
Result<NodeRef> make_root(const Computer& computer, const std::shared_ptr<const Devices>& devices);

}  // namespace membrane::linux
