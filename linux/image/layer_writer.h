// A file tree that is assembled from layered archives and directories, and then written as an image
// (layer.h). The same tree gives the same bytes, in whatever order it was assembled.
//
// Paths are relative to the root, and symbolic links inside them are followed as if that were the root
// directory, so nothing leads out.
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
  uint64_t most_bytes = uint64_t{64} << 30;             // of contents, and of attributes in archives
  uint64_t most_attribute_bytes = uint64_t{256} << 20;  // which stay in memory; names included
};

// Holds contents until they are written, in a nameless file. Errors: kUnavailable.
class Spool {
 public:
  static Result<std::shared_ptr<Spool>> create(const std::string& directory);
  ~Spool();
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;
  Status write(uint64_t offset, std::span<const std::byte> bytes);
  Status extend(uint64_t size);  // with zeros, unless it is long enough
  [[nodiscard]] int fd() const { return fd_; }
  uint64_t end = 0;

 private:
  Spool() = default;
  int fd_ = -1;
};

// Contents that are not in a file. The tree that uses them must be written while they exist.
class LayerContents {
 public:
  virtual ~LayerContents() = default;
  // Reads from `offset`; returns fewer bytes at the end.
  [[nodiscard]] virtual Result<size_t> read(uint64_t offset, std::span<std::byte> to) const = 0;
};

struct LayerItem {
  uint32_t mode = S_IFDIR | 0755;
  uint32_t uid = 0, gid = 0;
  timespec modified = {};
  uint64_t special = 0;
  std::string target = {};
  std::map<std::string, std::string> attributes = {};
  // For a regular file: `size` bytes of a spool or an image, which this keeps open.
  std::shared_ptr<const void> holder = nullptr;
  int fd = -1;
  uint64_t at = 0, size = 0;
  // Used instead of `holder`, with `size`; may be null.
  std::shared_ptr<const LayerContents> contents = nullptr;

  [[nodiscard]] uint64_t attribute_bytes() const;  // with their names
};

class LayerTree {
 public:
  explicit LayerTree(const LayerLimits& limits = {});

  // -- changes. Errors: kInvalidInput, with the path; kTooLong past the limits.
  // Loads everything in an image. The tree must be empty.
  Status load(const std::shared_ptr<const Layer>& image);
  // Starts a further layer, for make_opaque().
  void begin_layer() { ++generation_; }
  // Replaces the item at the path; putting a directory over a directory keeps its contents. Missing parents
  // are created.
  Status put(std::string_view path, LayerItem item);
  Status put_link(std::string_view path, std::string_view target);
  // Removes what earlier layers put there, with everything in it. Does nothing when it is absent.
  Status remove(std::string_view path);
  Status make_opaque(std::string_view path);  // removes what earlier layers put there

  // -- looks
  [[nodiscard]] const LayerItem* find(std::string_view path) const;  // follows links except the last
  // Visits everything, the root first, directories before their contents, by name. `first` is the path of a
  // hard link's first name, and empty for a file that was not visited yet. Errors: those of `visit`.
  using Visit =
      std::function<Status(const std::string& path, const LayerItem& item, const std::string& first)>;
  [[nodiscard]] Status visit_all(const Visit& visit) const;

  // Writes the image, and puts it at its path when it is complete, with the configuration of config.h.
  // Returns its digest. Errors: kUnavailable; kTooLong past the limits, holes of files included.
  [[nodiscard]] Result<std::string> write(const std::string& path, std::string_view config = "") const;
  // Writes the same into a file that is open for writing, from its start, except the digest: seal_image()
  // completes the image. For processes that have no library for digests.
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
  // Finds where the last part of a path is, or would be. `maker`, which is this tree, creates missing
  // directories before it; without one the result is then nothing.
  Result<std::optional<Spot>> look(std::string_view path, LayerTree* maker) const;
  Result<uint32_t> add(LayerItem item);
  Status count_attributes(const LayerItem& item);
  void empty_lower(uint32_t directory);
  [[nodiscard]] std::optional<uint32_t> at(const Spot& spot) const;

  template <typename Output>
  Result<LayerHeader> write_to(Output& output, std::string_view config) const;

  friend class LayerWriting;
  LayerLimits limits_;
  std::vector<Made> nodes_;
  uint64_t generation_ = 0;
  uint64_t attribute_bytes_ = 0;  // of all items so far, also of those that were replaced
};

// Completes what write_unsealed() wrote, in a file that is open for reading and writing. Nothing in it is
// trusted. Returns its digest. Errors: kInvalidInput for other bytes; kUnavailable.
Result<std::string> seal_image(int file);

}  // namespace membrane::linux
