// The files of one instance: a tree of directories, regular files, symbolic links, devices, and mount points of
// granted directories of the host. It lives in memory, over an image that is shared and immutable.
//
// Copying a tree copies a few numbers and a pointer: shared parts are copied when one side writes them
// (node_table.h, content.h). What the program creates is bounded by a quota, to the byte and to the name.
//
// Functions take single names in a directory; for whole paths see path_walk.h.
//
// Threads: a tree is used by one thread; fork() may be called from several concurrently.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "wasi/files/content.h"
#include "wasi/files/node_table.h"
#include "wasi/interface/types.h"

namespace membrane::wasi {

enum class Device : uint8_t { kNull, kZero, kRandom, kMembrane };

struct Directory {
  std::map<std::string, Inode, std::less<>> entries;
  Inode parent = 0;
};
struct Symlink {
  std::string target;
};
// The mount point of a granted directory or file of the host: its guest path.
struct Mount {
  std::string guest;
  Inode parent = 0;
};

struct Node {
  Owner owner = kNobody;
  uint64_t links = 1;
  uint64_t accessed_ns = 0, modified_ns = 0, changed_ns = 0;
  uint64_t charged_bytes = 0;  // charged to the quota
  bool is_counted = false;     // its first name is charged to the quota; further names always are
  bool is_written = false;     // created or changed by the program
  std::variant<Directory, Content, Symlink, Device, Mount> is;

  [[nodiscard]] FileType type() const;
  [[nodiscard]] uint64_t size() const;
};

struct FileQuota {
  uint64_t bytes = 64ull << 20;  // files that the program created or changed, in full, and targets of links
  uint64_t files = 10'000;       // names that it created
};

class Image;

class FileTree {
 public:
  static constexpr Inode kRoot = 1;
  static constexpr uint64_t kDevice = 1;  // the device number of every file here

  FileTree(std::shared_ptr<const Image> image, FileQuota quota);
  FileTree(const FileTree&) = delete;
  FileTree& operator=(const FileTree&) = delete;
  // A copy for another owner. The cost does not depend on the number of files.
  [[nodiscard]] std::unique_ptr<FileTree> fork() const;

  [[nodiscard]] const Node* find(Inode inode) const { return nodes_.find(inode); }
  [[nodiscard]] const Directory* directory(Inode inode) const;
  // 0 when there is no such name.
  [[nodiscard]] Inode child(Inode directory, std::string_view name) const;
  [[nodiscard]] FileStat stat(Inode inode) const;

  // Operations of a program. `now_ns` becomes the times that POSIX prescribes.
  Answer<Inode> make_file(Inode directory, std::string_view name, uint64_t now_ns);
  Answer<Inode> make_directory(Inode directory, std::string_view name, uint64_t now_ns);
  Done make_symlink(Inode directory, std::string_view name, std::string_view target, uint64_t now_ns);
  Done link(Inode file, Inode directory, std::string_view name, uint64_t now_ns);
  // After a file's last name is removed, its node stays in the tree until release().
  Done unlink(Inode directory, std::string_view name, uint64_t now_ns);
  Done remove_directory(Inode directory, std::string_view name, uint64_t now_ns);
  // As rename(2). A file at the target is unlinked, and stays until release().
  Done rename(Inode from, std::string_view old_name, Inode to, std::string_view new_name, uint64_t now_ns);
  // Frees the node if it has no name; call it when the node is no longer open.
  void release(Inode inode);

  size_t read(Inode file, uint64_t offset, std::span<uint8_t> to) const;
  // All or nothing: EFBIG, ENOSPC.
  Done write(Inode file, uint64_t offset, std::span<const uint8_t> bytes, uint64_t now_ns);
  Done resize(Inode file, uint64_t size, uint64_t now_ns);
  void set_times(Inode inode, uint64_t accessed_ns, uint64_t modified_ns, uint64_t now_ns);

  // Operations of the tree's owner; not charged. Missing parent directories are created. EEXIST, ENOTDIR, ENOTEMPTY
  // when something else is there. A mount at the root (no components) ranks below the tree's own names: only names
  // that the root does not have belong to the mount.
  Done mount(const std::vector<std::string>& components, std::string guest);
  // Leaves empty directories in place.
  void unmount_all();
  [[nodiscard]] bool has_root_mount() const { return has_root_mount_; }

  [[nodiscard]] const std::shared_ptr<const Image>& image() const { return image_; }
  [[nodiscard]] bool is_of_image(Inode inode) const;
  [[nodiscard]] uint64_t bytes_used() const { return bytes_used_; }
  [[nodiscard]] uint64_t files_used() const { return files_used_; }
  // Host memory in use: the charged part of the quota, and kNameBytes per name.
  static constexpr uint64_t kNameBytes = 512;
  [[nodiscard]] uint64_t held_bytes() const { return bytes_used_ + kNameBytes * files_used_; }
  // From now on, refuses to create anything that would bring held_bytes() above this; existing files stay.
  void hold_to(uint64_t bytes) { most_held_bytes_ = bytes; }
  [[nodiscard]] const FileQuota& quota() const { return quota_; }

  // Calls `visit` for every name of a file, a directory or a link: the root, then each directory's entries by name,
  // with what is below them. The path is valid during the call. Takes time proportional to the names and memory
  // proportional to one path, however deep directories are.
  void visit_names(const std::function<void(const std::string& path, Inode inode)>& visit) const;
  // All of them, sorted by path; takes as much memory as the paths have bytes. Not for trees of programs.
  struct Named {
    std::string path;
    Inode inode;
  };
  [[nodiscard]] std::vector<Named> all_names() const;
  // The first violated invariant, or "": for tests and for thawed trees.
  [[nodiscard]] std::string broken_invariant(const std::vector<Inode>& open) const;

 private:
  friend class Image;
  friend class FrozenTree;
  FileTree() = default;

  Node* to_write(Inode inode) { return nodes_.find_to_write(inode, owner_.load(std::memory_order_relaxed)); }
  Directory* directory_to_write(Inode inode);
  Answer<Inode> make(Inode directory, std::string_view name, Node node, uint64_t now_ns);
  Inode insert(Node node);
  Done charge(Node& node, uint64_t bytes);
  Done add_name();
  void drop_link(Inode inode, uint64_t now_ns);
  [[nodiscard]] bool has_room(uint64_t bytes) const {
    return bytes <= most_held_bytes_ - std::min(held_bytes(), most_held_bytes_);
  }
  [[nodiscard]] bool is_below(Inode directory, Inode above) const;
  void touch_directory(Inode directory, uint64_t now_ns);
  [[nodiscard]] bool can_have_names(Inode directory) const;
  [[nodiscard]] bool is_of_devices(Inode directory) const;

  std::shared_ptr<const Image> image_;
  NodeTable<Node> nodes_;
  mutable std::atomic<Owner> owner_{kNobody};
  Inode next_ = kRoot + 1;
  FileQuota quota_;
  uint64_t bytes_used_ = 0;
  uint64_t files_used_ = 0;
  uint64_t most_held_bytes_ = UINT64_MAX;
  std::vector<Inode> mounts_;
  bool has_root_mount_ = false;
};

}  // namespace membrane::wasi
