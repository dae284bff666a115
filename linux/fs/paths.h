// Resolves paths to nodes: symbolic links, "..", mounts, trailing slashes, permissions. Threads: the kernel's
// thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "linux/abi/answer.h"
#include "linux/fs/node.h"

namespace membrane::linux {

constexpr int kMostLinks = 40;  // followed in one walk, before ELOOP
constexpr size_t kMostPathBytes = 4096, kMostNameBytes = 255;

// A directory or file as it was reached: its node and the names on the way. getcwd() and /proc show the path.
struct Location {
  NodeRef node;
  std::shared_ptr<const Location> parent;  // nullptr for the root of all
  std::string name;                        // the name in the parent; empty for the root

  ~Location();  // not recursive, however deep it is
};
using LocationRef = std::shared_ptr<const Location>;

// The root, working directory and umask of a process.
struct Place {
  LocationRef root, directory;
  uint32_t umask = 022;
};

struct WalkOptions {
  bool follows_last = true;  // follow a symbolic link as the last part
  bool wants_directory = false;
  bool in_root = false, beneath = false, no_links = false, no_magic_links = false;  // openat2()
};

// The last part need not exist: for making, removing and renaming.
struct Parent {
  LocationRef directory;
  std::string name;        // may be "." or "..", which most callers reject
  bool has_slash = false;  // "name/"
};

// A mount: another file system on top of a directory.
class Mounts {
 public:
  void add(const Node& directory, NodeRef root);
  [[nodiscard]] NodeRef over(const NodeRef& node) const;  // the root mounted there, or the node itself

 private:
  std::vector<std::pair<std::shared_ptr<const Node>, NodeRef>> mounts_;  // directory, root
};

// A relative path starts at `from`. Errors: ENOENT, ENOTDIR, ELOOP, EACCES, ENAMETOOLONG; ENOENT for "".
Try<LocationRef> walk(const Mounts& mounts, const Place& place, const LocationRef& from,
                      std::string_view path, const Credentials& who, const WalkOptions& options = {});
Try<Parent> walk_to_parent(const Mounts& mounts, const Place& place, const LocationRef& from,
                           std::string_view path, const Credentials& who);
// The path as seen from the root of `place`; "(unreachable)/…" when it is not below it. Follows renames of
// directories since the location was reached. The path of a node without a name ends in " (deleted)".
std::string path_of(const Place& place, const Location& location);

// `wanted`: R_OK, W_OK, X_OK. Errors: EACCES.
Done may(const Credentials& who, const Attributes& attributes, int wanted);
// Whether `who` may remove or rename a name in the directory, by its write permission and sticky bit. Errors:
// EACCES, EPERM.
Done may_remove(const Credentials& who, const Attributes& directory, const Attributes& child);

}  // namespace membrane::linux
