// Where a session's time and randomness come from, where its embedder chooses them beside the policy.
//
// The functions are called on the thread of the run; those of sessions that are forks of each other may be called at once.
// They throw nothing.
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
  // Asked in the place of the machine's clock, where time.real is granted: nanoseconds since 1970; nothing where it cannot
  // say. Null: the machine's.
  std::function<std::optional<int64_t>()> now_ns;

  // How a sleep passes.
  enum class Sleep : uint8_t {
    kByClock,  // in real time on a real clock, else at once
    kAtOnce,   // the program's clock moves on by it
    kInTime,
    kAsked,  // by sleep_ns
  };
  Sleep sleep = Sleep::kByClock;
  // Returns when the time has passed, and soon after `must_stop` says so. False: it could not, and the program gets an error.
  std::function<bool(uint64_t ns, const std::function<bool()>& must_stop)> sleep_ns;

  // What a fork by way of bytes has from its parent: how far sleeps that took no real time have moved its clock on.
  uint64_t skipped_ns = 0;

  // Asked in the place of the kernel, where random.real is granted. False where it cannot. Null: the kernel.
  std::function<bool(std::span<uint8_t> bytes)> fill;
  // Of the seeded streams; nothing: the policy's seed.
  std::optional<RandomStream::Key> key;
};

}  // namespace membrane::host
