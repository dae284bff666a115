#include "linux/kernel/user_buffer.h"

#include <algorithm>
#include <utility>

namespace membrane::linux {
namespace {

constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t kPieceBytes = 64u << 10;

}  // namespace

UserBuffer::UserBuffer(Caller& caller, uint64_t address, uint64_t length)
    : UserBuffer(caller, std::vector<UserRange>{{address, length}}) {}

UserBuffer::UserBuffer(Caller& caller, std::vector<UserRange> ranges)
    : caller_(&caller), ranges_(std::move(ranges)) {
  for (UserRange& range : ranges_) {
    range.length = std::min<uint64_t>(range.length, kMostTransferBytes - left_);
    left_ += range.length;
  }
}

Try<UserBuffer> UserBuffer::from_vectors(Caller& caller, uint64_t vectors, uint64_t count) {
  if (count > kMostVectors) return err(EINVAL);
  std::vector<UserRange> ranges(count);
  MEMBRANE_TRY(caller.read_memory(vectors, std::as_writable_bytes(std::span(ranges))));
  for (const UserRange& range : ranges)
    if (static_cast<int64_t>(range.length) < 0) return err(EINVAL);
  return UserBuffer(caller, std::move(ranges));
}

UserRange UserBuffer::next(size_t most) const {
  const UserRange& range = ranges_[at_];
  return {range.address + inside_, std::min<uint64_t>({range.length - inside_, most, kPieceBytes})};
}

void UserBuffer::skip(uint64_t bytes) {
  bytes = std::min<uint64_t>(bytes, left_);
  left_ -= bytes;
  while (bytes > 0) {
    const uint64_t piece = std::min(ranges_[at_].length - inside_, bytes);
    inside_ += piece;
    bytes -= piece;
    if (inside_ == ranges_[at_].length) {
      ++at_;
      inside_ = 0;
    }
  }
}

template <typename Move>
Try<size_t> UserBuffer::go(size_t bytes, const Move& move) {
  bytes = std::min(bytes, left_);
  size_t done = 0;
  bool is_careful = false;  // page by page, after a fault
  while (done < bytes) {
    while (ranges_[at_].length == inside_) {
      ++at_;
      inside_ = 0;
    }
    UserRange piece = next(bytes - done);
    if (piece.address + piece.length < piece.address) is_careful = true;
    if (is_careful) piece.length = std::min(piece.length, kPageBytes - piece.address % kPageBytes);
    if (!move(piece.address, done, piece.length)) {
      if (is_careful) break;
      is_careful = true;
      continue;
    }
    skip(piece.length);
    done += piece.length;
  }
  if (done == 0 && bytes > 0) return err(EFAULT);
  return done;
}

Try<size_t> UserBuffer::take(std::span<std::byte> to) {
  return go(to.size(), [&](uint64_t address, size_t offset, size_t length) {
    return caller_->read_memory(address, to.subspan(offset, length)).has_value();
  });
}

Try<size_t> UserBuffer::put(std::span<const std::byte> from) {
  return go(from.size(), [&](uint64_t address, size_t offset, size_t length) {
    return caller_->write_memory(address, from.subspan(offset, length)).has_value();
  });
}

}  // namespace membrane::linux
