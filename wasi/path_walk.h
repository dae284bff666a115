// From a path to a place: name by name through the instance's own tree, and by name alone below a granted
// directory of the host, where the kernel resolves what is left (host/files/beneath.h).
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

// A file or directory: of the own tree, or of the host by its guest path.
struct Place {
  Inode inode = 0;   // 0: the host's
  std::string host;  // "/data/a"; where the own tree has it, empty

  [[nodiscard]] bool is_host() const { return inode == 0; }
  friend bool operator==(const Place&, const Place&) = default;
};

struct Walked {
  Place directory;   // that the name is in
  std::string name;  // the last name; empty when the path ends in "." or ".."
  std::optional<Place>
      found;  // nothing: there is no such name. The host's is only named, it may not be there
  bool wants_directory = false;               // the path ends in "/", "." or ".."
  std::optional<std::string> host_link = {};  // what it leads to, when `found` is a link of the host
};

enum class LastLink : uint8_t {
  kFollow,
  kKeep,   // but a path that ends in "/" means what it leads to
  kNever,  // for what removes or makes the name itself
};

// What a walk asks the host, by guest paths.
struct HostPaths {
  std::function<Done(const std::string& path)> has_directory;  // ENOENT, ENOTDIR
  // The first link that the path leads through or ends in; none where the grant has no links.
  std::function<Answer<host::LinkOnPath>(const std::string& path)> find_link;
  // The guest path of the grant that rules the path: no link there leads above it.
  std::function<std::string(const std::string& path)> grant_root;
};

// Adds to `steps` how many names it looked at, those of links too.
Answer<Walked> walk(const FileTree& tree, const Place& from, std::string_view path, LastLink last,
                    const HostPaths& host, uint64_t& steps);

// EINVAL for NUL, EILSEQ for what is not UTF-8, ENAMETOOLONG, ENOENT for "".
Done check_path(std::string_view path);

}  // namespace membrane::wasi
