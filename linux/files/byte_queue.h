// Bytes on their way from a writer to a reader, in pipes, sockets and terminals. The owner limits how many
// there are.
// Threads: the owner's thread.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "linux/files/file.h"

namespace membrane::linux {

class ByteQueue {
 public:
  [[nodiscard]] size_t size() const { return bytes_.size() - head_; }
  [[nodiscard]] bool is_empty() const { return size() == 0; }
  [[nodiscard]] std::span<const std::byte> bytes() const { return std::span(bytes_).subspan(head_); }

  void append(std::span<const std::byte> bytes);
  void append(std::byte byte) { append(std::span(&byte, 1)); }
  void drop(size_t count);       // from the front
  void drop_last(size_t count);  // from the end
  void clear();

  // Moves up to `most` bytes from the buffer to the end, or from the front to the buffer. Errors: EFAULT when not one moved.
  Try<size_t> take_from(Buffer& buffer, size_t most);
  Try<size_t> give_to(Buffer& buffer, size_t most);
  // Like give_to(), but the bytes stay in the queue.
  Try<size_t> show_to(Buffer& buffer, size_t most) const;

 private:
  void compact();
  std::vector<std::byte> bytes_;
  size_t head_ = 0;  // in bytes_: the bytes before it have been read
};

}  // namespace membrane::linux
