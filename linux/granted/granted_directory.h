// A directory of the owner's machine, as programs of a sandbox see it. Nothing of it is here: each look, read and change is asked of the
// owner's DirectoryBroker (computers/directories/), which opens paths beneath the directory and holds the grant.
//
// Permissions are the host's; the owner of all is the superuser. chmod() is the broker's to do, which may leave bits as they are; chown()
// to what it is changes nothing, to another is refused. A file that is mapped is copied for it: what others change later is not seen in
// the mapping, and it cannot be shared for writing.
//
// Threads: the kernel's one, which waits for the answers.
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
  // The bytes of copies that there are, also of those that are only mapped yet; shared with whoever counts them.
  std::shared_ptr<uint64_t> copied_bytes = std::make_shared<uint64_t>(0);
};

// `socket`: one end of a pair whose other end the broker serves. The node is the directory; its parent is itself.
NodeRef make_granted_directory(HostFile socket, const GrantedOptions& options);

}  // namespace membrane::linux
