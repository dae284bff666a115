// Saves a whole sandbox to one file and restores it: snapshots, forks, pauses to disk, moves to another
// machine or platform.
//
//   keep: a frozen kernel ──► header │ pages of memory and of changed files │ state
//   keep: a frozen kernel ──► header │ pages of memory and of changed files │ state
//   restore: the file is mapped; its pages become the restored sandbox's memory, copy-on-write
// Keeping once and restoring many times forks a sandbox. What guests have of the outside (standard streams, terminals) is in the file
// Keeping once and restoring many times forks a sandbox. Connections of guests to the outside (standard
// streams, terminals) are saved as far as the sandbox holds them: in a restored sandbox their other ends are
// unattached until its owner attaches (KeptCommand).
// Threads: the kernel's thread.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "linux/fs/tree.h"
#include "linux/kept/kept_file.h"
#include "linux/kept/kernel_state.h"

namespace membrane::linux {

// Saves only the files: the differences of the tree from its image. `image` is the path of that image's file.
// Writes the file from its start. Errors: kUnavailable when it cannot be written; kInvalidArgument for a root
// that does not belong to a tree.
Status keep_files(const NodeRef& root, const std::string& image, int file);
// Saves all of a frozen kernel, with the commands that its owner has started. Errors: as keep_files().
Status keep_sandbox(Kernel& kernel, const std::vector<KeptCommand>& commands, const std::string& image,
                    int file);

// The tree of a kept sandbox, and what of the file remains to be read.
struct RestoredTree {
  NodeRef root;
  StateReader rest;
  std::vector<NodeRef> held;  // nameless files, which processes may have open
};
// `options.image` must be the image that it was kept over, by digest. Errors: kInvalidInput; kExhausted for
// more than the options allow.
Result<RestoredTree> restore_tree(const KeptFile& kept, TreeOptions options);

// Restores the processes into a kernel that has none, over the root of `tree`, with its system directories
// mounted. The kernel is then frozen. Does nothing if no processes were kept. Errors: kInvalidInput;
// kExhausted for more than the limits allow; kUnavailable.
Status restore_processes(Kernel& kernel, const KeptFile& kept, RestoredTree& tree,
                         std::vector<KeptCommand>& commands);

}  // namespace membrane::linux
