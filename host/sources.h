// The sources of a session's time and randomness, if its embedder replaces the policy's.
//
// The functions are called on the thread of the run; sessions that are forks of each other may call them
// concurrently. They must not throw.
//
// Threads: constant.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "base/random_stream.h"

namespace membrane::host {

struct Sources {
  // Replaces the machine's clock, if time.real is granted: nanoseconds since 1970; nothing on failure. Null: the
  // machine's clock.
  std::function<std::optional<int64_t>()> now_ns;

  // How a sleep passes.
  enum class Sleep : uint8_t {
    kByClock,  // in real time on a real clock, else at once
    kAtOnce,   // the program's clock advances by it
    kInTime,
    kAsked,  // by sleep_ns
  };
  Sleep sleep = Sleep::kByClock;
  // Returns when the time has passed, or soon after `must_stop` returns true. False: it failed, and the program gets
  // an error.
  std::function<bool(uint64_t ns, const std::function<bool()>& must_stop)> sleep_ns;

  // For a fork through bytes, the parent's value: the time that sleeps which took no real time have added to its
  // clock.
  uint64_t skipped_ns = 0;

  // Replaces the kernel's entropy, if random.real is granted. False on failure. Null: the kernel's.
  std::function<bool(std::span<uint8_t> bytes)> fill;
  // The key of the seeded streams; absent: the policy's seed.
  std::optional<RandomStream::Key> key;
};

}  // namespace membrane::host
