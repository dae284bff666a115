// How the tree of a sandbox differs from its image, and the tree as an image of its own.
//
// Mounts that the kernel makes by itself (/proc, /sys, /dev) are left out, with the directories that were
// created for them. Nothing here recurses over data that a guest has made.
//
// Threads: the kernel's thread.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "linux/fs/tree.h"
#include "linux/image/layer_writer.h"
#include "linux/sandbox/live_computer.h"

namespace membrane::linux {

// `covered`: directories with mounts over them. Directories come before their contents, sorted by name. A
// path counts as modified when its type, mode, owner, bytes, target, device number or extended attributes
// differ; times and link counts are ignored. Errors: kTooLong for more than an answer may have; kInvalidInput
// for a damaged image.
Result<std::vector<ChangedPath>> changes_of(const NodeRef& root, const std::vector<NodeRef>& covered);

// The whole tree except sockets. Its contents are read when it is written; the tree must not change
// meanwhile. Errors: kTooLong; kInvalidInput.
Result<LayerTree> layer_tree_of(const NodeRef& root, const std::vector<NodeRef>& covered);

}  // namespace membrane::linux
