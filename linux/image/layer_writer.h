// A file tree that is put together and then written as an image (layer.h): from layers of archives one over the other, from
// directories. The same tree gives the same bytes, in whatever order it was made.
//
// Paths are taken relative to the root, and symbolic links in the middle of them as one in the root would: nothing leads out.
//
// Threads: one at a time.
#pragma once

#include <sys/stat.h>
#include <time.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "linux/image/layer.h"

namespace membrane::linux {

struct LayerLimits {
  uint64_t most_entries = 4'000'000;
  uint64_t most_bytes = uint64_t{64} << 30;  // of contents
};

// Contents that came by, until they are written: a file without a name. Errors: kUnavailable.
class Spool {
 public:
  static Result<std::shared_ptr<Spool>> create(const std::string& directory);
  ~Spool();
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;
  Status write(uint64_t offset, std::span<const std::byte> bytes);
  Status extend(uint64_t size);  // by zeros, unless it is as long
  [[nodiscard]] int fd() const { return fd_; }
  uint64_t end = 0;

 private:
  Spool() = default;
  int fd_ = -1;
};

// Contents that are in no file. The tree that has them must be written while they last.
class LayerContents {
 public:
  virtual ~LayerContents() = default;
  // From `offset` on; fewer bytes at the end.
  [[nodiscard]] virtual Result<size_t> read(uint64_t offset, std::span<std::byte> to) const = 0;
};

struct LayerItem {
  uint32_t mode = S_IFDIR | 0755;
  uint32_t uid = 0, gid = 0;
  timespec modified = {};
  uint64_t special = 0;
  std::string target = {};
  std::map<std::string, std::string> attributes = {};
  // Of a regular file: so many bytes of a spool or of an image, which are kept open.
  std::shared_ptr<const void> holder = nullptr;
  int fd = -1;
  uint64_t at = 0, size = 0;
  // In their place, with `size`; may be null.
  std::shared_ptr<const LayerContents> contents = nullptr;
};

class LayerTree {
 public:
  explicit LayerTree(const LayerLimits& limits = {});

  // -- changes. Errors: kInvalidInput, with the path; kTooLong past the limits.
  // All that is in an image. The tree is empty.
  Status load(const std::shared_ptr<const Layer>& image);
  // What comes now is of a further layer, for make_opaque().
  void begin_layer() { ++generation_; }
  // Replaces what is there; a directory keeps what is in it when a directory is put. Those above that are missing are made.
  Status put(std::string_view path, LayerItem item);
  Status put_link(std::string_view path, std::string_view target);
  // What layers before put there goes, with all that is in it. Nothing when it is not there.
  Status remove(std::string_view path);
  Status make_opaque(std::string_view path);  // what layers before put into the directory goes

  // -- looks
  [[nodiscard]] const LayerItem* find(std::string_view path) const;  // links in the middle are followed
  // All there is, the root first, directories before what is in them, by name. `first` is the path of a hard link's first name, and
  // empty for what has not come before. Errors: those of `visit`.
  using Visit =
      std::function<Status(const std::string& path, const LayerItem& item, const std::string& first)>;
  [[nodiscard]] Status visit_all(const Visit& visit) const;

  // The image, under its path when it is whole, with what config.h says of it. Gives its digest. Errors: kUnavailable;
  // kTooLong past the limits, holes of files included.
  [[nodiscard]] Result<std::string> write(const std::string& path, std::string_view config = "") const;
  // The same into a file that is open for writing, from its begin on, but for the digest: seal_image() makes it an image. For
  // processes that have no library for digests.
  [[nodiscard]] Status write_unsealed(int file, std::string_view config) const;

 private:
  struct Made {
    LayerItem item;
    std::map<std::string, uint32_t, std::less<>> children;
    uint64_t generation = 0;
  };
  struct Spot {
    uint32_t directory = 0;
    std::string name;  // empty for the root
  };
  // Where the last part of a path is, or would be. Directories before it that are missing are made by `maker`, which is this tree;
  // nothing without one.
  Result<std::optional<Spot>> look(std::string_view path, LayerTree* maker) const;
  Result<uint32_t> add(LayerItem item);
  void empty_lower(uint32_t directory);
  [[nodiscard]] std::optional<uint32_t> at(const Spot& spot) const;

  template <typename Output>
  Result<LayerHeader> write_to(Output& output, std::string_view config) const;

  friend class LayerWriting;
  LayerLimits limits_;
  std::vector<Made> nodes_;
  uint64_t generation_ = 0;
};

// What write_unsealed() wrote, in a file that is open for reading and writing. Nothing in it is trusted. Gives its digest. Errors:
// kInvalidInput for other bytes; kUnavailable.
Result<std::string> seal_image(int file);

}  // namespace membrane::linux
