#include "linux/sandbox/root.h"

#include <cstring>

#include "linux/image/image_tree.h"

namespace membrane::linux {

namespace {

struct Device {
  const char* name;
  uint64_t number;
};
constexpr Device kDevices[] = {{"null", kNullDevice}, {"zero", kZeroDevice},     {"full", kFullDevice},
                               {"random", kRandomDevice}, {"urandom", kUrandomDevice}, {"tty", kTtyDevice}};

Done fill_devices(Node& directory) {
  for (const Device& each : kDevices)
    LINUX_TRY(directory.create(each.name, {.mode = S_IFCHR | 0666, .special = each.number}));
  return {};
}

}  // namespace

Result<NodeRef> make_root(const Computer& computer, const std::shared_ptr<const Devices>& devices) {
  return open_image_tree(computer.image, {.most_bytes = computer.limits.disk_bytes, .devices = devices});
}

Status mount_systems(Kernel& kernel, const std::shared_ptr<const Devices>& devices) {
  const auto place = kernel.root->node->look_up("dev");
  if (!place) return fail(ErrorCode::kInvalidInput, "the image has no directory /dev", "Add an empty one.");
  const NodeRef directory = make_tree({.most_bytes = 1u << 20, .device = 5, .devices = devices});
  if (const Done filled = fill_devices(*directory); !filled)
    return fail(ErrorCode::kInternal, std::string("/dev cannot be made: ") + std::strerror(filled.error()));
  kernel.mounts.add(**place, directory);
  return {};
}

}  // namespace membrane::linux
