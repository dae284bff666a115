// The clock of a program without the real one: it starts at the grant's start, and advances by 1 ms at each reading
// and by the time that the program sleeps.
//
// Threads: values.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace membrane::wasi {

class VirtualClock {
 public:
  static constexpr uint64_t kReadingNs = 1'000'000;

  // The time since its start; the next reading is later.
  uint64_t read() {
    const uint64_t now = passed_ns_;
    sleep(kReadingNs);
    return now;
  }
  void sleep(uint64_t ns) { passed_ns_ += std::min(ns, kMostNs - passed_ns_); }
  [[nodiscard]] uint64_t passed_ns() const { return passed_ns_; }
  // Only forward.
  void go_to(uint64_t passed_ns) { passed_ns_ = std::min(passed_ns, kMostNs); }

 private:
  // Leaves room for a start time without wrapping around.
  static constexpr uint64_t kMostNs = std::numeric_limits<uint64_t>::max() / 2;
  uint64_t passed_ns_ = 0;
};

}  // namespace membrane::wasi
