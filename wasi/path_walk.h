// From a path to a place: name by name through the instance's own tree, and by name alone below a granted
// directory of the host, where the kernel resolves what is left (host/files/beneath.h).
//
//   - Paths are relative to a descriptor's directory and never leave it: not by "..", not by the target of a
//     symbolic link. (An absolute target means the root, which only the root's descriptor may reach.)
//   - ".." goes to the directory that the walk came from, so it means what POSIX says in the own tree, links
//     and all. Below a granted directory links look like what they lead to, and ".." is the directory that was
//     named before; it never reaches the kernel.
//
// Threads: one at a time.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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
  bool wants_directory = false;  // the path ends in "/", "." or ".."
};

enum class LastLink : uint8_t {
  kFollow,
  kKeep,   // but a path that ends in "/" means what it leads to
  kNever,  // for what removes or makes the name itself
};

// Whether the host has a directory of this guest path.
using HasDirectory = std::function<Done(const std::string& host_path)>;

// Adds to `steps` how many names it looked at, those of links too.
Answer<Walked> walk(const FileTree& tree, const Place& from, std::string_view path, LastLink last,
                    const HasDirectory& has_directory, uint64_t& steps);

// EINVAL for NUL, EILSEQ for what is not UTF-8, ENAMETOOLONG, ENOENT for "".
Done check_path(std::string_view path);

}  // namespace membrane::wasi
