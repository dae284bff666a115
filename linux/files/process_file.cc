#include "linux/files/process_file.h"

#include <fcntl.h>

#include "linux/files/anonymous_node.h"

namespace membrane::linux {

ProcessFile::ProcessFile(std::shared_ptr<ProcessEnd> end, int with_flags)
    : end_(std::move(end)), node_(make_anonymous_node(AnonymousDevice::kOthers, 0600)) {
  flags = O_RDWR | (with_flags & O_NONBLOCK);
}

}  // namespace membrane::linux
