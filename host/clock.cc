#include "host/clock.h"

#include <chrono>
#include <limits>

namespace membrane::host {

int64_t Clock::now_ms() {
  if (real_) {
    const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::milliseconds>(since_epoch).count();
  }
  const int64_t now = next_ms_;
  if (next_ms_ < std::numeric_limits<int64_t>::max()) ++next_ms_;
  return now;
}

}  // namespace membrane::host
