#include "linux/abi/entropy.h"

#include <sys/random.h>

#include <cerrno>

namespace membrane::linux {

bool Entropy::fill(std::span<std::byte> bytes) {
  if (stream_) {
    stream_->fill({reinterpret_cast<uint8_t*>(bytes.data()), bytes.size()});
    return true;
  }
  while (!bytes.empty()) {
    const ssize_t got = getrandom(bytes.data(), bytes.size(), 0);
    if (got < 0 && errno != EINTR) return false;
    if (got > 0) bytes = bytes.subspan(static_cast<size_t>(got));
  }
  return true;
}

}  // namespace membrane::linux
