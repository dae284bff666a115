// Buffers over the kernel's own memory. Threads: any one at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>

#include "linux/files/file.h"

namespace membrane::linux {

// Bytes to be written to a file.
class MemorySource final : public Buffer {
 public:
  explicit MemorySource(std::span<const std::byte> bytes) : left_(bytes) {}
  explicit MemorySource(std::string_view text) : left_(std::as_bytes(std::span(text))) {}
  [[nodiscard]] size_t size() const override { return left_.size(); }
  Try<size_t> take(std::span<std::byte> to) override {
    const size_t count = std::min(to.size(), left_.size());
    if (count != 0) std::memcpy(to.data(), left_.data(), count);
    left_ = left_.subspan(count);
    return count;
  }
  Try<size_t> put(std::span<const std::byte>) override { return err(EFAULT); }

 private:
  std::span<const std::byte> left_;
};

// Room for bytes to be read from a file.
class MemoryTarget final : public Buffer {
 public:
  explicit MemoryTarget(std::span<std::byte> room) : left_(room) {}
  [[nodiscard]] size_t size() const override { return left_.size(); }
  Try<size_t> take(std::span<std::byte>) override { return err(EFAULT); }
  Try<size_t> put(std::span<const std::byte> from) override {
    const size_t count = std::min(from.size(), left_.size());
    if (count != 0) std::memcpy(left_.data(), from.data(), count);
    left_ = left_.subspan(count);
    return count;
  }

 private:
  std::span<std::byte> left_;
};

}  // namespace membrane::linux
