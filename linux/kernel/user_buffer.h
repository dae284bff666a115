// Guest memory as a Buffer: one range, or the ranges of an iovec list. Threads: the kernel's thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "linux/files/file.h"

namespace membrane::linux {

constexpr uint64_t kMostVectors = 1024;              // UIO_MAXIOV
constexpr uint64_t kMostTransferBytes = 0x7ffff000;  // MAX_RW_COUNT: the most that one call moves

struct UserRange {
  uint64_t address = 0, length = 0;
};

class UserBuffer final : public Buffer {
 public:
  // Uses at most kMostTransferBytes and ignores the rest.
  UserBuffer(Caller& caller, uint64_t address, uint64_t length);
  UserBuffer(Caller& caller, std::vector<UserRange> ranges);
  // Uses the `count` iovecs in guest memory at `vectors`. Errors: EFAULT, EINVAL.
  static Try<UserBuffer> from_vectors(Caller& caller, uint64_t vectors, uint64_t count);

  [[nodiscard]] size_t size() const override { return left_; }
  Try<size_t> take(std::span<std::byte> to) override;
  Try<size_t> put(std::span<const std::byte> from) override;
  // Skips bytes that were processed.
  void skip(uint64_t bytes);

 private:
  [[nodiscard]] UserRange next(size_t most) const;
  // Moves `bytes` bytes in pieces by `move(address, offset, length)`, down to single pages where one faults.
  template <typename Move>
  Try<size_t> go(size_t bytes, const Move& move);

  Caller* caller_;
  std::vector<UserRange> ranges_;
  size_t at_ = 0;        // in ranges_
  uint64_t inside_ = 0;  // bytes done of the current range
  size_t left_ = 0;
};

}  // namespace membrane::linux
