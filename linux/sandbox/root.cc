#include "linux/sandbox/root.h"

#include <cstring>

#include "linux/image/image_tree.h"
#include "linux/proc/mounts.h"

namespace membrane::linux {

Result<NodeRef> make_root(const Computer& computer, const std::shared_ptr<const Devices>& devices) {
  return open_image_tree(computer.image, {.most_bytes = computer.limits.disk_bytes, .devices = devices});
}

Status mount_systems(Kernel& kernel, const std::shared_ptr<Devices>& devices) {
  if (const Done mounted = mount_system_directories(kernel, devices); !mounted)
    return fail(ErrorCode::kInvalidInput, std::string("/proc, /sys and /dev cannot be mounted: ") + std::strerror(mounted.error()),
                "Make them directories in the image.");
  return {};
}

}  // namespace membrane::linux
