// What building images has made, to be found again: after each instruction that changes files, what then differs from the image at the
// bottom (a kept sandbox without processes, linux/kept/), by a key that is the digest of all that made it; and whole images. All are in
// the directory ".layers" of the images' own.
//
// A file that is found is trusted, so the directory is the user's and closed to others.
//
// Threads: pure. Two builds at a time may make the same layer; one of the two stays, whole.
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
  // Nothing is pruned while it is open. Errors: kInvalidArgument for a directory that others may write to; kUnavailable.
  static Result<LayerCache> open();

  // nothing when it is not there
  [[nodiscard]] linux::HostFile layer(const std::string& key) const;
  [[nodiscard]] std::optional<std::string> image(const std::string& key) const;  // its path

  // A file to be written, which stands under its name when it is kept, and is gone otherwise.
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
  // Of a step whose layer may be another one each time: `own` is the layer's key, and the latest one of the step's.
  Status keep_latest(NewEntry layer, const std::string& key, const std::string& own) const;
  [[nodiscard]] std::optional<std::string> latest(const std::string& key) const;
  // A file that is never kept.
  [[nodiscard]] Result<NewEntry> add_scratch() const { return add(""); }
  // The image is there by its name too. `layers`: the keys of what it was made by.
  Status name_image(const std::string& key, const std::string& name,
                    const std::vector<std::string>& layers) const;

  struct Pruned {
    uint64_t files = 0, bytes = 0;
  };
  // Removes all that no image of the store was made by, and images that were removed or replaced. Errors: kUnavailable while
  // another one is open.
  [[nodiscard]] Result<Pruned> prune() const;

 private:
  LayerCache(std::string directory, linux::HostFile lock)
      : directory_(std::move(directory)), lock_(std::move(lock)) {}
  [[nodiscard]] std::string path_of(const std::string& key, const char* ending) const {
    return directory_ + "/" + key + ending;
  }
  [[nodiscard]] Result<NewEntry> add(const std::string& path) const;
  std::string directory_;
  linux::HostFile lock_;  // the directory, which builds share
};

}  // namespace membrane::computers
