// Read-only files that many instances share: the layers below what each of them writes.
//
// An image is created once; creating an instance over it does not depend on its size. Bytes are borrowed or shared,
// never copied.
//
// Threads: any, once created.
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
  std::string path;  // absolute; missing parent directories are created
  enum class Kind : uint8_t { kFile, kDirectory, kSymlink } kind = Kind::kFile;
  std::span<const uint8_t> bytes = {};             // for a file
  std::shared_ptr<const void> keep = {};           // keeps the bytes alive; null: they outlive every image
  std::string target = {};                         // for a link
  uint64_t modified_ns = 946'684'800'000'000'000;  // 2000-01-01
};

class Image {
 public:
  static constexpr size_t kMaxFiles = 1'000'000;

  // Later layers replace files of earlier ones. kInvalidArgument for a path that is not absolute, has "..", or leads
  // through something that is not a directory. /dev, with its devices, and /tmp always exist.
  static Result<std::shared_ptr<const Image>> make(const std::vector<Layer>& layers);
  // This image with layers on top. The cost depends on the layers, not on this image's size.
  [[nodiscard]] Result<std::shared_ptr<const Image>> with(const std::vector<Layer>& layers) const;
  // Without layers.
  static std::shared_ptr<const Image> empty();

  // A digest over all paths and bytes, which identifies the image of a frozen state. Computed at the first call.
  // kUnavailable when libcrypto is not installed.
  Result<std::string> digest() const;
  // Sets a stored digest, to avoid reading all bytes. Ignored when the digest is known already.
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

// "/a//b/./c" becomes {"a", "b", "c"}; nothing for a path that is not absolute, has ".." or NUL, or is not UTF-8.
std::optional<std::vector<std::string>> components_of(std::string_view path);

}  // namespace membrane::wasi
