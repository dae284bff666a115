#include "linux/image/image_tree.h"

namespace membrane::linux {

Result<NodeRef> open_image_tree(const std::string& image, TreeOptions options) {
  if (!image.empty()) {
    MEMBRANE_ASSIGN(options.image, Layer::open(image));
  }
  return make_tree(std::move(options));
}

}  // namespace membrane::linux
