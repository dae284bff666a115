#include "linux/kernel/announcing.h"

#include "linux/files/inotify.h"

namespace membrane::linux {
namespace {

bool has_watches(const Kernel& kernel) { return kernel.watches != nullptr && !kernel.watches->is_empty(); }

uint32_t with_kind(Node& node, uint32_t mask) { return node.type() == S_IFDIR ? mask | IN_ISDIR : mask; }

}  // namespace

void announce(Kernel& kernel, const Location* at, Node& node, uint32_t mask) {
  if (!has_watches(kernel)) return;
  const bool has_directory = at != nullptr && at->parent != nullptr;
  kernel.watches->announce_both(has_directory ? at->parent->node.get() : nullptr,
                                has_directory ? std::string_view(at->name) : std::string_view(), node,
                                with_kind(node, mask));
}

void announce(Kernel& kernel, File& file, uint32_t mask) {
  if (has_watches(kernel)) announce(kernel, file.location.get(), *file.node(), mask);
}

void announce_in(Kernel& kernel, const Node& directory, std::string_view name, Node& node, uint32_t mask,
                 uint32_t cookie) {
  if (has_watches(kernel)) kernel.watches->announce(directory, with_kind(node, mask), name, cookie);
}

void announce_removal(Kernel& kernel, const Node& directory, std::string_view name, Node& node) {
  if (!has_watches(kernel)) return;
  const bool is_last = node.type() == S_IFDIR || node.attributes().links == 0;
  if (node.type() != S_IFDIR) kernel.watches->announce(node, IN_ATTRIB);
  if (is_last) kernel.watches->announce(node, IN_DELETE_SELF);
  announce_in(kernel, directory, name, node, IN_DELETE);
}

void announce_move(Kernel& kernel, const Parent& from, const Parent& to, Node& node) {
  if (!has_watches(kernel)) return;
  const uint32_t cookie = kernel.watches->next_cookie();
  announce_in(kernel, *from.directory->node, from.name, node, IN_MOVED_FROM, cookie);
  announce_in(kernel, *to.directory->node, to.name, node, IN_MOVED_TO, cookie);
  kernel.watches->announce(node, IN_MOVE_SELF);
}

}  // namespace membrane::linux
