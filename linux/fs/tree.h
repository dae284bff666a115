// A writable file system in memory over an optional read-only image, private to its sandbox. Nodes of the image come to be when they
// are looked up and go when nothing needs them, unless they were changed; so a sandbox over a large image costs nothing at first.
//
// Everything that a guest can make is charged to the tree's quota: contents, names, links' targets, attributes, nodes.
//
// Threads: the kernel's one.
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
  uint64_t most_nodes = 1'000'000;  // made by the guest; those of the image do not count
  uint64_t device = 1;              // as stat() says it
  // What opens character devices. Where there is none, opening one is ENXIO. FIFOs open by themselves.
  std::shared_ptr<const Devices> devices = nullptr;
  std::function<timespec()> now = nullptr;  // of the realtime clock; the host's by default
  uint32_t root_mode = 0755;                // without an image
};

// The root. The tree goes with the last copy of what is returned; open files of it live on, without names.
NodeRef make_tree(TreeOptions options);

struct TreeUsage {
  uint64_t most_bytes = 0, used_bytes = 0, most_nodes = 0, used_nodes = 0;
  uint64_t refusals = 0;    // how often there was no room
  uint64_t heap_bytes = 0;  // of used_bytes: what is in this process's heap
};
// Of the tree that a node is in. Nothing for nodes of other file systems.
std::optional<TreeUsage> usage_of(const Node& node);
// Of the tree that a node is in: what is not as in the image has no later times than this. Nothing happens to other file systems.
void clamp_times(const Node& node, timespec latest);

}  // namespace membrane::linux
