// The object that a name in the file system refers to: a file, directory, link or device. A node lives as
// long as a name, an open file or a mapping needs it. Nodes check no permissions: paths.h does, and it alone
// walks from name to name.
//
// Threads: the kernel's thread. Errors are those of Linux.
#pragma once

#include <sys/stat.h>
#include <time.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "linux/abi/answer.h"
#include "linux/platform/platform.h"

namespace membrane::linux {

struct Credentials {
  uint32_t uid = 0, gid = 0, euid = 0, egid = 0, suid = 0, sgid = 0, fsuid = 0, fsgid = 0;
  std::vector<uint32_t> groups = {};
  [[nodiscard]] bool is_root() const { return fsuid == 0; }
  [[nodiscard]] bool is_in(uint32_t group) const;
};

struct Attributes {
  uint64_t device = 1, number = 0;
  uint32_t mode = 0;  // S_IFMT and permissions
  uint32_t links = 1, uid = 0, gid = 0;
  uint64_t special = 0;           // for a device: its number
  uint64_t size = 0, blocks = 0;  // bytes; units of 512 bytes
  timespec accessed = {}, modified = {}, changed = {}, created = {};
};

// The attributes to change; absent ones stay. Changing anything but times sets `changed` to now.
struct AttributeChange {
  std::optional<uint32_t> mode;  // permissions only
  std::optional<uint32_t> uid, gid;
  std::optional<timespec> accessed, modified;
};

struct DirectoryEntry {
  std::string_view name;
  uint64_t number = 0;
  uint8_t type = 0;  // DT_*
  int64_t next = 0;  // position after this entry
};

class Node;
class File;
class FileLocks;  // linux/files/locks.h
struct Location;  // paths.h
class Caller;
using NodeRef = std::shared_ptr<Node>;

struct NewNode {
  uint32_t mode = S_IFREG | 0644;  // with the type; the umask was already applied
  uint32_t uid = 0, gid = 0;
  uint64_t special = 0;
  std::string target = {};  // for a symbolic link
  // For create_nameless(): the file appears as this one except for its bytes, and attribute changes apply to
  // that one. Not preserved in a kept sandbox.
  std::shared_ptr<class Node> copy_of = nullptr;
};

// The file system's values for statfs().
struct FileSystemRoom {
  uint64_t most_bytes = 0, free_bytes = 0, most_nodes = 0, free_nodes = 0;
};

class Node : public std::enable_shared_from_this<Node> {
 public:
  virtual ~Node() = default;
  [[nodiscard]] virtual Attributes attributes() = 0;
  virtual Done change(const AttributeChange&) { return err(EPERM); }
  [[nodiscard]] virtual FileSystemRoom room() { return {}; }  // zeros if nothing is stored
  [[nodiscard]] uint32_t type() { return attributes().mode & S_IFMT; }
  std::shared_ptr<FileLocks> locks;  // created with the first lock

  // -- directories. Names have no '/', and are neither "." nor "..". Errors: ENOTDIR; ENOENT; EEXIST; ENOTEMPTY; ENOSPC; EROFS.
  virtual Try<NodeRef> look_up(std::string_view /*name*/) { return err(ENOTDIR); }
  virtual Try<NodeRef> create(std::string_view /*name*/, const NewNode&) { return err(ENOTDIR); }
  virtual Done link(std::string_view /*name*/, const NodeRef& /*target*/) { return err(ENOTDIR); }
  virtual Done unlink(std::string_view /*name*/) { return err(ENOTDIR); }  // not directories: EISDIR
  virtual Done remove_directory(std::string_view /*name*/) { return err(ENOTDIR); }
  // `flags`: RENAME_NOREPLACE, RENAME_EXCHANGE. The caller has checked for loops.
  virtual Done rename(std::string_view /*name*/, Node& /*to*/, std::string_view /*new_name*/,
                      unsigned /*flags*/) {
    return err(ENOTDIR);
  }
  // A nameless file (O_TMPFILE); link() may name it.
  virtual Try<NodeRef> create_nameless(const NewNode&) { return err(EOPNOTSUPP); }
  // Lists the entries from `position` on (0 at first; then the `next` of an entry), without "." and "..".
  // Stable under changes: an entry that exists the whole time is listed once.
  virtual Done list(int64_t /*position*/, const std::function<bool(const DirectoryEntry&)>& /*add*/) {
    return err(ENOTDIR);
  }
  [[nodiscard]] virtual NodeRef parent() {
    return nullptr;
  }  // for directories; the root's parent is the root

  // -- regular files. Reads give fewer bytes at the end. Errors: EISDIR, EINVAL, EFBIG, ENOSPC.
  virtual Try<size_t> read(uint64_t /*offset*/, std::span<std::byte>) { return err(EINVAL); }
  virtual Try<size_t> write(uint64_t /*offset*/, std::span<const std::byte>) { return err(EINVAL); }
  virtual Done resize(uint64_t /*size*/) { return err(EINVAL); }
  // fallocate(): FALLOC_FL_KEEP_SIZE, PUNCH_HOLE, ZERO_RANGE. And SEEK_DATA, SEEK_HOLE.
  virtual Done allocate(int /*mode*/, uint64_t /*offset*/, uint64_t /*length*/) { return err(EOPNOTSUPP); }
  virtual Try<uint64_t> seek_data(uint64_t /*offset*/, bool /*hole*/) { return err(EINVAL); }
  virtual Try<Backing> mapping(uint64_t /*offset*/, uint64_t /*length*/, bool /*is_shared*/) {
    return err(ENODEV);
  }
  // Whether writes to a shared mapping reach the file. If not, there is no shared mapping for writing.
  [[nodiscard]] virtual bool shares_writes() const { return true; }

  // -- symbolic links
  virtual Try<std::string> target() { return err(EINVAL); }
  // For a magic link (/proc/self/fd/3, /proc/7/exe): where a walk that follows it continues, whatever
  // target() reads. nullptr for other links. Errors: ENOENT.
  virtual Try<std::shared_ptr<const Location>> jump() { return std::shared_ptr<const Location>(); }

  // -- extended attributes. Errors: ENODATA, EEXIST, ERANGE is the caller's.
  virtual Try<std::string> attribute(std::string_view /*name*/) { return err(EOPNOTSUPP); }
  virtual Done set_attribute(std::string_view /*name*/, std::string_view /*value*/, int /*flags*/) {
    return err(EOPNOTSUPP);
  }
  virtual Done remove_attribute(std::string_view /*name*/) { return err(EOPNOTSUPP); }
  virtual Try<std::vector<std::string>> attribute_names() { return std::vector<std::string>(); }

  // Opens a node that makes a file of its own kind (devices, FIFOs, /proc); nullptr for nodes that are opened
  // as usual. `flags` as in open(). Declared here, since every file system has such nodes.
  virtual Try<std::shared_ptr<File>> open(Caller&, int /*flags*/) { return std::shared_ptr<File>(); }
};

}  // namespace membrane::linux
