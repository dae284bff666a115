#include "host/clock.h"

#include <algorithm>
#include <chrono>
#include <limits>

namespace membrane::host {

int64_t Clock::now_ms() {
  if (real_) {
    const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::milliseconds>(since_epoch).count();
  }
  const int64_t now = next_ms_;
  skip(1);
  return now;
}

void Clock::skip(uint64_t readings) {
  // Both saturate: the time at its maximum, and the count.
  const uint64_t room =
      static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) - static_cast<uint64_t>(next_ms_);
  next_ms_ = static_cast<int64_t>(static_cast<uint64_t>(next_ms_) + std::min(readings, room));
  readings_ += std::min(readings, std::numeric_limits<uint64_t>::max() - readings_);
}

}  // namespace membrane::host
