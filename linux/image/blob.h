// Bytes that stand in a file: a layer, a manifest, what is in a spool. The file is kept open by what `holder` is.
//
// Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"

namespace membrane::linux {

struct Blob {
  std::shared_ptr<const void> holder;
  int fd = -1;
  uint64_t at = 0, size = 0;

  // From `offset` on; fewer bytes at the end. Errors: kUnavailable.
  [[nodiscard]] Result<size_t> read(uint64_t offset, std::span<std::byte> to) const;
};

// A regular file. Errors: kNotFound; kInvalidArgument for what is no regular file; kUnavailable.
Result<Blob> open_blob(const std::string& path);
// Of a descriptor, which becomes the blob's.
Result<Blob> blob_of(int fd, const std::string& path);
// Errors: kTooLong; those of read().
Result<std::string> text_of(const Blob& blob, uint64_t most_bytes);
// The SHA-256 in hex.
Result<std::string> digest_of(const Blob& blob);

}  // namespace membrane::linux
