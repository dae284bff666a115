// Untrusted archives as layers over a small tree: accepted or refused, and never outside the tree.
#include <cstdlib>

#include "linux/image/tar.h"

namespace membrane::linux {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 1u << 18) return 0;
  const auto spool = Spool::create("/tmp");
  if (!spool) return 0;
  const LayerLimits limits = {.most_entries = 500, .most_bytes = 4u << 20};
  LayerTree tree(limits);
  (void)tree.put("a/b", {.mode = S_IFREG | 0644});
  (void)tree.put("link", {.mode = S_IFLNK | 0777, .target = "../a"});
  (void)apply_tar_bytes(tree, {reinterpret_cast<const char*>(data), size}, *spool, limits);
  const auto visited = tree.visit_all([](const std::string& path, const LayerItem& item, const std::string&) {
    if (path == ".." || path.starts_with("../") || path.find("/../") != path.npos || path.starts_with('/'))
      std::abort();
    if (item.size > 4u << 20) std::abort();
    return Status();
  });
  if (!visited || tree.find("") == nullptr) std::abort();
  return 0;
}

}  // namespace membrane::linux
