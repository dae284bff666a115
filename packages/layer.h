// A layer: the unpacked files of some packages in one file of the cache, which every session maps and none copies.
//
//   "membrane layer 1\n"
//   8 bytes: length of the index; 8 bytes: XXH3 of all that follows (both little-endian)
//   index, a line each: "key KEY", then "file BYTES PATH" for each file, by path
//   the files' bytes, one after the other
//
// It stands in a directory of the user's own, and is read only from a file that is the user's own and closed to others.
// Its checksum is computed when it is first found, and a seal notes that (base/sealed_file.h).
//
// Threads: values, once made.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_mapping.h"
#include "base/result.h"
#include "wasi/image.h"

namespace membrane::packages {

inline constexpr size_t kMostLayerFiles = 120'000;  // with bytecode
inline constexpr uint64_t kMostLayerBytes = 1ull << 30;

struct LayerFile {
  std::string_view path;  // relative, without dot segments
  uint64_t offset = 0, bytes = 0;
};

// What the index of a layer says. Views go into `text`. Errors, kInvalidInput: it is malformed, is for another key, or does not
// fit the bytes of content that follow it.
Result<std::vector<LayerFile>> read_layer_index(std::string_view text, std::string_view key,
                                                uint64_t content_bytes);

// Writes a layer of all regular files below a directory, and gives it its name when it is whole. `key` says what it is of, in
// one line. Errors: kInvalidInput for what is no regular file or directory, and for a path that the guest could not have;
// kExhausted for too many files or bytes; kUnavailable for what the system refuses.
Status write_layer(const std::string& path, std::string_view key, const std::string& directory);

class Layer {
 public:
  // Errors: kNotFound when it is not there or is not private; kInvalidInput when it is damaged, or of another key.
  static Result<Layer> open(const std::string& path, std::string_view key);

  // For wasi::Image: the files, below `guest`.
  [[nodiscard]] std::vector<wasi::Layer> files(std::string_view guest) const;

 private:
  std::shared_ptr<const FileMapping> mapping_;
  std::vector<LayerFile> files_;
};

}  // namespace membrane::packages
