// A cache of build results. After each instruction that changes files it stores the difference from the base
// image (a kept sandbox without processes, linux/kept/), under a key that is the digest of everything that
// determined it; it also stores whole images. Everything is in the directory ".layers" of the images'
// directory.
//
// Files in the cache are trusted, so the directory belongs to the user and is closed to others.
//
// Threads: pure. Two concurrent builds may make the same layer; one of the two stays, complete.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "linux/platform/trap/host_file.h"

namespace membrane::computers {

class LayerCache {
 public:
  // While it is open nothing is pruned. Errors: kInvalidArgument for a directory that others may write to;
  // kUnavailable.
  static Result<LayerCache> open();

  // Nothing when it does not exist.
  [[nodiscard]] linux::HostFile layer(const std::string& key) const;
  [[nodiscard]] std::optional<std::string> image(const std::string& key) const;  // its path

  // A file to be written: it gets its name when it is kept, and is removed otherwise.
  class NewEntry {
   public:
    NewEntry(NewEntry&& other) noexcept;
    NewEntry& operator=(NewEntry&&) = delete;
    ~NewEntry();
    [[nodiscard]] int number() const { return file_.number(); }
    // Returns the file's path.
    Result<std::string> keep();

   private:
    friend class LayerCache;
    NewEntry() = default;
    linux::HostFile file_;
    std::string beside_, path_;
  };
  [[nodiscard]] Result<NewEntry> add_layer(const std::string& key) const;
  [[nodiscard]] Result<NewEntry> add_image(const std::string& key) const;
  // For a step whose layer may differ each time: `own` is the layer's key, which becomes the step's latest.
  Status keep_latest(NewEntry layer, const std::string& key, const std::string& own) const;
  [[nodiscard]] std::optional<std::string> latest(const std::string& key) const;
  // A file that is never kept.
  [[nodiscard]] Result<NewEntry> add_scratch() const { return add(""); }
  // The image also exists by its name. `layers`: the keys of the layers that it was made from.
  Status name_image(const std::string& key, const std::string& name,
                    const std::vector<std::string>& layers) const;

  struct Pruned {
    uint64_t files = 0, bytes = 0;
  };
  // Removes everything from which no image of the store was made, and images that were removed or replaced.
  // Errors: kUnavailable while another cache is open.
  [[nodiscard]] Result<Pruned> prune() const;

 private:
  LayerCache(std::string directory, linux::HostFile lock)
      : directory_(std::move(directory)), lock_(std::move(lock)) {}
  [[nodiscard]] std::string path_of(const std::string& key, const char* ending) const {
    return directory_ + "/" + key + ending;
  }
  [[nodiscard]] Result<NewEntry> add(const std::string& path) const;
  std::string directory_;
  linux::HostFile lock_;  // of the directory, shared by builds
};

}  // namespace membrane::computers
