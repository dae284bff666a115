// Resolves a path to a place: name by name through the instance's own tree, and lexically below a granted directory
// of the host, where the kernel resolves the rest (host/files/beneath.h).
//
//   - Paths are relative to a descriptor's directory and never leave it: not by "..", not by the target of a
//     symbolic link. (An absolute target means the root, which only the root's descriptor may reach.)
//   - ".." goes to the directory that the walk came from, so it means what POSIX says in the own tree and below a
//     grant with links. Below one without, links look like what they lead to, and ".." is the directory that was
//     named before. It never reaches the kernel.
//   - Below a grant with links the walk follows them itself, one request for each, and hands on a path that has none.
//     A host's link whose target is absolute or leads above its grant is not followed.
//
// Threads: one at a time.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/broker.h"
#include "wasi/file_tree.h"

namespace membrane::wasi {

// A file or directory: in the own tree, or on the host by its guest path.
struct Place {
  Inode inode = 0;   // 0: on the host
  std::string host;  // "/data/a"; empty if the place is in the own tree

  [[nodiscard]] bool is_host() const { return inode == 0; }
  friend bool operator==(const Place&, const Place&) = default;
};

struct Walked {
  Place directory;   // the directory of the name
  std::string name;  // the last name; empty when the path ends in "." or ".."
  std::optional<Place>
      found;  // nothing: there is no such name. A place on the host is only named, and may not exist
  bool wants_directory = false;               // the path ends in "/", "." or ".."
  std::optional<std::string> host_link = {};  // its target, when `found` is a link of the host
};

enum class LastLink : uint8_t {
  kFollow,
  kKeep,   // but a path that ends in "/" means the link's target
  kNever,  // for operations that remove or create the name itself
};

// Requests of a walk to the host, by guest paths.
struct HostPaths {
  std::function<Done(const std::string& path)> has_directory;  // ENOENT, ENOTDIR
  // The first link in the path, including its last name; none if the grant has no links.
  std::function<Answer<host::LinkOnPath>(const std::string& path)> find_link;
  // The guest path of the grant that covers the path: no link there leads above it.
  std::function<std::string(const std::string& path)> grant_root;
};

// Adds to `steps` the number of names that it looked at, including those of links.
Answer<Walked> walk(const FileTree& tree, const Place& from, std::string_view path, LastLink last,
                    const HostPaths& host, uint64_t& steps);

// EINVAL for NUL, EILSEQ if it is not UTF-8, ENAMETOOLONG, ENOENT for "".
Done check_path(std::string_view path);

}  // namespace membrane::wasi
