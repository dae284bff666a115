// A file opened with O_PATH: it can only be named. Threads: the kernel's thread.
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
