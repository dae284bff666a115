// A writable in-memory file system over an optional read-only image, private to its sandbox. Nodes of the
// image are created on look-up and released when nothing needs them, unless they were changed; so a sandbox
// over a large image costs nothing at first.
//
// Everything that a guest can create is charged to the tree's quota: contents, names, link targets,
// attributes, nodes.
//
// Threads: the kernel's thread.
#pragma once

#include <functional>
#include <memory>

#include "linux/fs/node.h"
#include "linux/image/layer.h"

namespace membrane::linux {

class Devices;  // linux/files/devices.h

struct TreeOptions {
  std::shared_ptr<const Layer> image = nullptr;
  uint64_t most_bytes = 1u << 30;
  uint64_t most_nodes = 1'000'000;  // created by the guest, not counting the image's
  uint64_t device = 1;              // reported by stat()
  // Opens character devices. Without it, opening one is ENXIO. FIFOs need no help.
  std::shared_ptr<const Devices> devices = nullptr;
  std::function<timespec()> now = nullptr;  // the realtime clock; the host's by default
  uint32_t root_mode = 0755;                // without an image
};

// Returns the root. The tree ends with the last copy of it; open files of the tree live on, nameless.
NodeRef make_tree(TreeOptions options);

struct TreeUsage {
  uint64_t most_bytes = 0, used_bytes = 0, most_nodes = 0, used_nodes = 0;
  uint64_t refusals = 0;    // failures for lack of room
  uint64_t heap_bytes = 0;  // the part of used_bytes in this process's heap
};
// The usage of the tree that a node is in; nothing for nodes of other file systems.
std::optional<TreeUsage> usage_of(const Node& node);
// In the tree that a node is in, clamps the times of everything that differs from the image to this time.
// Does nothing to other file systems.
void clamp_times(const Node& node, timespec latest);

}  // namespace membrane::linux
