// A whole sandbox as one file, and back: snapshots, forks, pauses to disk, moves to another machine or platform.
//
//   keep: a frozen kernel ──► header │ pages of memory and of changed files │ state
//   restore: the file is mapped; its pages are the memory of the sandbox that goes on, by copy-on-write
//
// Keeping once and restoring many times forks a sandbox. What guests have of the outside (standard streams, terminals, connections) is not
// in the file: a restored sandbox has ends of them that nobody holds, until it is given new ones (outside.h, outside_terminal.h).
//
// Threads: the kernel's one.
#pragma once

#include <string>

#include "base/result.h"
#include "linux/fs/tree.h"
#include "linux/kept/kept_file.h"

namespace membrane::linux {

// The files alone: what differs from the image that the tree is over. `image` is the path of that image's file. The file is written from
// its beginning. Errors: kUnavailable when it cannot be written; kInvalidArgument for a root that is no tree's.
Status keep_files(const NodeRef& root, const std::string& image, int file);

// The tree of a kept sandbox. `options.image` is the image that it was kept over, as its digest says. Errors: kInvalidInput; kExhausted for
// more than the options allow.
Result<NodeRef> restore_files(const KeptFile& kept, TreeOptions options);
// The same, with the image at a path; "": where it was when the sandbox was kept. Errors: also those of Layer::open().
Result<NodeRef> restore_files(const KeptFile& kept, const std::string& image, TreeOptions options);

}  // namespace membrane::linux
