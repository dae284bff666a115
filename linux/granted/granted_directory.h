// A directory of the owner's machine as a sandbox's programs see it. Nothing of it is stored here: each
// look-up, read and change is a request to the owner's DirectoryBroker (computers/directories/), which opens
// paths beneath the directory and holds the grant.
//
// Permissions are the host's; everything belongs to the superuser. The broker performs chmod(), and may leave
// bits as they are. chown() to the current owner does nothing; to another it is refused. A file is copied
// when it is mapped: the mapping does not see later changes by others, and cannot be shared for writing.
//
// Threads: the kernel's thread, which waits for the answers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "linux/fs/node.h"
#include "linux/platform/trap/host_file.h"

namespace membrane::linux {

struct GrantedOptions {
  uint64_t device = 0;
  bool is_writable = false;
  uint64_t most_mapped_bytes = 256u << 20;  // of copies, together
  // The bytes of existing copies, including those that only mappings still use; shared with whatever counts
  // them.
  std::shared_ptr<uint64_t> copied_bytes = std::make_shared<uint64_t>(0);
};

// `socket`: one end of a pair whose other end the broker serves. The returned node is the directory; its
// parent is itself.
NodeRef make_granted_directory(HostFile socket, const GrantedOptions& options);

}  // namespace membrane::linux
