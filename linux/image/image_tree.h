// A sandbox's root directory over an image.
#pragma once

#include <string>

#include "base/result.h"
#include "linux/fs/tree.h"

namespace membrane::linux {

// The root of a writable tree over the image in the file `image`, or over nothing when that is "".
// `options.image` is set here. Errors: those of Layer::open().
Result<NodeRef> open_image_tree(const std::string& image, TreeOptions options = {});

}  // namespace membrane::linux
