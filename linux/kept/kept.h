// A whole sandbox as one file, and back: snapshots, forks, pauses to disk, moves to another machine or platform.
//
//   keep: a frozen kernel ──► header │ pages of memory and of changed files │ state
//   restore: the file is mapped; its pages are the memory of the sandbox that goes on, by copy-on-write
//
// Keeping once and restoring many times forks a sandbox. What guests have of the outside (standard streams, terminals) is in the file
// as far as the sandbox has it: a restored one has ends that nobody holds, until its owner takes them (KeptCommand).
//
// Threads: the kernel's one.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "linux/fs/tree.h"
#include "linux/kept/kept_file.h"
#include "linux/kept/kernel_state.h"

namespace membrane::linux {

// The files alone: what differs from the image that the tree is over. `image` is the path of that image's file. The file is written from
// its beginning. Errors: kUnavailable when it cannot be written; kInvalidArgument for a root that is no tree's.
Status keep_files(const NodeRef& root, const std::string& image, int file);
// All of a frozen kernel, with the commands that its owner has started. Errors: as keep_files().
Status keep_sandbox(Kernel& kernel, const std::vector<KeptCommand>& commands, const std::string& image,
                    int file);

// The tree of a kept sandbox, and what of the file is read after it.
struct RestoredTree {
  NodeRef root;
  StateReader rest;
  std::vector<NodeRef> held;  // files without a name, which processes may have open
};
// `options.image` is the image that it was kept over, as its digest says. Errors: kInvalidInput; kExhausted for more than the options allow.
Result<RestoredTree> restore_tree(const KeptFile& kept, TreeOptions options);

// The processes, into a kernel that has none, over the root of `tree`, and whose system directories are mounted. It is frozen then. Where
// none were kept, nothing happens. Errors: kInvalidInput; kExhausted for more than the limits allow; kUnavailable.
Status restore_processes(Kernel& kernel, const KeptFile& kept, RestoredTree& tree,
                         std::vector<KeptCommand>& commands);

}  // namespace membrane::linux
