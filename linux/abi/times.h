// Durations as the types of system calls.
//
// Threads: any.
#pragma once

#include <chrono>
#include <ctime>

namespace membrane::linux {

inline timespec timespec_of(std::chrono::nanoseconds time) {
  constexpr int64_t kSecond = 1'000'000'000;
  return {.tv_sec = time.count() / kSecond, .tv_nsec = time.count() % kSecond};
}

}  // namespace membrane::linux
