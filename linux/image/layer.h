// A file tree as one read-only file, over which sandboxes are created. Opening one takes the same short time
// however large it is: only the header is read; names, attributes and contents are found in place.
//
//   header | contents, each at a page's start and padded with zeros | inodes | entries | strings
//
// Inodes are numbered breadth first from the root (0), the entries of a directory are next to each other and sorted by name.
// So a directory's number is greater than its parent's, and the same tree makes the same bytes (layer_writer.h).
//
// A file may be hostile: every number in it is checked when it is used, and invalid entries are treated as
// absent. The file must not be shortened while it is open.
//
// Threads: any; it does not change.
#pragma once

#include <sys/stat.h>
#include <time.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace membrane::linux {

constexpr uint64_t kPageBytes = 4096;
constexpr uint32_t kLayerVersion = 1;

// The file's structures, little-endian.
struct LayerHeader {
  char magic[8] = {'M', 'E', 'M', 'B', 'L', 'A', 'Y', 'R'};
  uint32_t version = kLayerVersion;
  uint32_t inode_count = 0;
  uint64_t entry_count = 0;
  uint64_t inodes_at = 0, entries_at = 0, strings_at = 0, string_bytes = 0;
  uint64_t config_at = 0,
           config_bytes = 0;  // in the strings: the configuration as JSON (config.h)
  uint64_t file_bytes = 0;
  char digest[64] = {};  // SHA-256, in hex, of everything after the first page
  uint64_t check = 0;    // FNV-1a of the header up to here
};

struct LayerInode {
  uint32_t mode = 0, uid = 0, gid = 0, links = 1;
  int64_t modified_s = 0;
  uint32_t modified_ns = 0;
  uint32_t parent = 0;  // of a directory
  uint64_t size = 0;    // bytes of a file or link; number of a directory's entries
  uint64_t at =
      0;  // of a file: in the file; of a directory: its first entry; of a link: in the strings; of a device: its number
  uint64_t attributes_at = 0;    // in the strings: (u16 name bytes, u32 value bytes, name, value)*
  uint32_t attribute_bytes = 0;  // of all
  uint32_t zero = 0;
};

struct LayerEntry {
  uint64_t name_at = 0;  // in the strings
  uint32_t name_bytes = 0;
  uint32_t inode = 0;
};

class Layer {
 public:
  // Errors: kUnavailable; kInvalidInput if the file is not a layer, or has another version.
  static Result<std::shared_ptr<const Layer>> open(const std::string& path);
  // For a file that is open for reading; `name` is for messages. The layer closes it.
  static Result<std::shared_ptr<const Layer>> open(int fd, const std::string& name);
  ~Layer();
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  // Reads all of it. Errors: kInvalidInput when it is not what was written.
  [[nodiscard]] Status verify() const;

  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] uint32_t inode_count() const { return header_.inode_count; }
  [[nodiscard]] uint64_t entry_count() const { return header_.entry_count; }
  [[nodiscard]] uint64_t file_bytes() const { return header_.file_bytes; }
  [[nodiscard]] std::string_view digest() const { return {header_.digest, sizeof header_.digest}; }
  [[nodiscard]] std::string_view config() const;  // "" for none
  [[nodiscard]] std::optional<LayerInode> inode(uint32_t number) const;

  struct Child {
    std::string_view name;
    uint32_t inode = 0;
  };
  // Returns the entry of a directory with that index, in order of names.
  [[nodiscard]] std::optional<Child> child(const LayerInode& directory, uint64_t index) const;
  [[nodiscard]] std::optional<uint32_t> find(const LayerInode& directory, std::string_view name) const;
  [[nodiscard]] std::optional<std::span<const std::byte>> content(const LayerInode& file) const;
  [[nodiscard]] std::optional<std::string_view> target(const LayerInode& link) const;
  [[nodiscard]] std::vector<std::pair<std::string_view, std::string_view>> attributes(
      const LayerInode& of) const;

 private:
  Layer() = default;
  [[nodiscard]] std::optional<std::string_view> string(uint64_t at, uint64_t bytes) const;

  int fd_ = -1;
  const std::byte* begin_ = nullptr;
  LayerHeader header_;
};

// The checksum of a header, without its last field.
uint64_t check_of(const LayerHeader& header);

}  // namespace membrane::linux
