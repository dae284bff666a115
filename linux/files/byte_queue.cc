#include "linux/files/byte_queue.h"

#include <algorithm>

namespace membrane::linux {

void ByteQueue::compact() {
  if (head_ == bytes_.size()) {
    bytes_.clear();
    head_ = 0;
    if (bytes_.capacity() > 4096) bytes_.shrink_to_fit();
  } else if (head_ >= 4096 && head_ >= bytes_.size() / 2) {
    bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<ptrdiff_t>(head_));
    head_ = 0;
  }
}

void ByteQueue::append(std::span<const std::byte> bytes) {
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
}

void ByteQueue::drop(size_t count) {
  head_ += std::min(count, size());
  compact();
}

void ByteQueue::drop_last(size_t count) { bytes_.resize(bytes_.size() - std::min(count, size())); }

void ByteQueue::clear() {
  head_ = bytes_.size();
  compact();
}

Try<size_t> ByteQueue::take_from(Buffer& buffer, size_t most) {
  const size_t before = bytes_.size();
  const size_t wanted = std::min(most, buffer.size());
  bytes_.resize(before + wanted);
  auto taken = buffer.take(std::span(bytes_).subspan(before));
  bytes_.resize(before + (taken ? std::min(*taken, wanted) : 0));
  return taken;
}

Try<size_t> ByteQueue::show_to(Buffer& buffer, size_t most) const {
  return buffer.put(bytes().first(std::min({most, size(), buffer.size()})));
}

Try<size_t> ByteQueue::give_to(Buffer& buffer, size_t most) {
  MEMBRANE_ASSIGN(const size_t given, show_to(buffer, most));
  drop(given);
  return given;
}

}  // namespace membrane::linux
