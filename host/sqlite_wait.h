// Waiting for another process's lock on an SQLite file, but not past a deadline.
#pragma once

#include <chrono>
#include <cstdint>
#include <thread>

#include "host/deadline.h"

namespace membrane::host {

// For a busy handler: `tries` counts from 0. False: the timeout has passed, or the run's time is up.
inline bool wait_for_lock(int tries, uint64_t timeout_ms, const Deadline& deadline) {
  constexpr int kStepMs = 5;
  if (static_cast<uint64_t>(tries) * kStepMs >= timeout_ms || deadline.passed()) return false;
  std::this_thread::sleep_for(std::chrono::milliseconds(kStepMs));
  return true;
}

}  // namespace membrane::host
