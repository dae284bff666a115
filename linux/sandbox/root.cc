#include "linux/sandbox/root.h"

#include "linux/image/image_tree.h"

namespace membrane::linux {

Result<NodeRef> make_root(const Computer& computer, const std::shared_ptr<const Devices>& devices) {
  return open_image_tree(computer.image, {.most_bytes = computer.limits.disk_bytes, .devices = devices});
}

}  // namespace membrane::linux
