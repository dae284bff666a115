// A layer: the unpacked files of some packages in one cache file, which every session maps and none copies.
//
//   "membrane layer 1\n"
//   8 bytes: length of the index; 8 bytes: XXH3 of all that follows (both little-endian)
//   index, a line each: "key KEY", then "file BYTES PATH" for each file, by path
//   the files' bytes, one after the other
//
// A layer is in a directory owned by the user, and is read only from a file that the user owns and others cannot
// access. Its checksum is verified when it is first found, and a seal records that (base/sealed_file.h).
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

inline constexpr size_t kMostLayerFiles = 120'000;  // including bytecode
inline constexpr uint64_t kMostLayerBytes = 1ull << 30;

struct LayerFile {
  std::string_view path;  // relative, without dot segments
  uint64_t offset = 0, bytes = 0;
};

// Parses a layer's index. The results are views into `text`. Errors, kInvalidInput: it is malformed, is for another
// key, or does not match the size of the content that follows it.
Result<std::vector<LayerFile>> read_layer_index(std::string_view text, std::string_view key,
                                                uint64_t content_bytes);

// Writes a layer of all regular files below a directory, and gives it its name only when it is complete. `key` says
// in one line what the layer holds. Errors: kInvalidInput for anything but a regular file or directory, and for a
// path that the guest could not have; kExhausted for too many files or bytes; kUnavailable when the system refuses.
Status write_layer(const std::string& path, std::string_view key, const std::string& directory);

class Layer {
 public:
  // Errors: kNotFound when it does not exist or is not private; kInvalidInput when it is damaged, or has another
  // key.
  static Result<Layer> open(const std::string& path, std::string_view key);

  // For wasi::Image: the files, below `guest`.
  [[nodiscard]] std::vector<wasi::Layer> files(std::string_view guest) const;

 private:
  std::shared_ptr<const FileMapping> mapping_;
  std::vector<LayerFile> files_;
};

}  // namespace membrane::packages
