// Copies directories of the host into images.
//
// Threads: pure.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "linux/image/layer_writer.h"

namespace membrane::linux {

struct Owner {
  uint32_t uid = 0, gid = 0;
};

// Puts a directory of the host, with everything in it on its file system, at the path `under` of the tree.
// Owners are kept, unless `owner` names one. Sockets are left out. Contents are stored in the spool. Errors:
// kUnavailable; kTooLong past the limits; kInvalidInput.
Status apply_directory(LayerTree& tree, const std::string& directory, const std::string& under,
                       const std::shared_ptr<Spool>& spool, const std::optional<Owner>& owner,
                       const LayerLimits& limits = {});

}  // namespace membrane::linux
