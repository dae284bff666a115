// A file that is only named (O_PATH). Threads: the kernel's one.
#pragma once

#include <string>
#include <utility>

#include "linux/files/regular_file.h"

namespace membrane::linux {

class PathFile final : public File {
 public:
  explicit PathFile(LocationRef at) : node_(at->node) { location = std::move(at); }
  [[nodiscard]] const NodeRef& node() const override { return node_; }
  [[nodiscard]] std::string description() const override { return description_of(location, *node_); }

 private:
  NodeRef node_;
};

}  // namespace membrane::linux
