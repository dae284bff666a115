// Bytes stored in a file: a layer, a manifest, something in a spool. `holder` keeps the file open.
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

  // Reads from `offset`; returns fewer bytes at the end. Errors: kUnavailable.
  [[nodiscard]] Result<size_t> read(uint64_t offset, std::span<std::byte> to) const;
};

// A regular file. Errors: kNotFound; kInvalidArgument for anything but a regular file; kUnavailable.
Result<Blob> open_blob(const std::string& path);
// Takes ownership of the descriptor.
Result<Blob> blob_of(int fd, const std::string& path);
// Errors: kTooLong; those of read().
Result<std::string> text_of(const Blob& blob, uint64_t most_bytes);
// The SHA-256 in hex.
Result<std::string> digest_of(const Blob& blob);

}  // namespace membrane::linux
