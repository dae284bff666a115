// Read-only files that many instances see at once: the layers below what each of them writes.
//
// An image is made once; an instance over it costs nothing for its size. Bytes are borrowed or shared, never
// copied.
//
// Threads: any, once made.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "wasi/file_tree.h"

namespace membrane::wasi {

struct Layer {
  std::string path;  // absolute; directories above it are made
  enum class Kind : uint8_t { kFile, kDirectory, kSymlink } kind = Kind::kFile;
  std::span<const uint8_t> bytes = {};             // of a file
  std::shared_ptr<const void> keep = {};           // holds the bytes; null: they outlive every image
  std::string target = {};                         // of a link
  uint64_t modified_ns = 946'684'800'000'000'000;  // 2000-01-01
};

class Image {
 public:
  static constexpr size_t kMaxFiles = 1'000'000;

  // Later layers replace files of earlier ones. kInvalidArgument for a path that is not absolute, has "..", or
  // leads through what is no directory. /dev, with its devices, and /tmp are always there.
  static Result<std::shared_ptr<const Image>> make(const std::vector<Layer>& layers);
  // The files of this image, and layers over them. It costs what the layers cost, however large this image is.
  [[nodiscard]] Result<std::shared_ptr<const Image>> with(const std::vector<Layer>& layers) const;
  // Without layers.
  static std::shared_ptr<const Image> empty();

  // Of all paths and bytes: what a frozen state must find again. Computed at the first call. kUnavailable when
  // libcrypto is not installed.
  Result<std::string> digest() const;
  // Who has kept it knows it without reading all bytes. Ignored when it is known already.
  void know_digest(std::string digest) const;

  [[nodiscard]] const FileTree& tree() const { return tree_; }

 private:
  Image() = default;
  Status add(const Layer& layer);
  Status add_devices();

  FileTree tree_;
  mutable std::once_flag once_;
  mutable Result<std::string> digest_;
};

// "/a//b/./c" as {"a", "b", "c"}; nothing for what is not absolute, has "..", NUL, or what is not UTF-8.
std::optional<std::vector<std::string>> components_of(std::string_view path);

}  // namespace membrane::wasi
