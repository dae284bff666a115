// Keys of random streams, for what forks.
//
// Threads: functions without state.
#pragma once

#include <cstdint>

#include "host/random.h"

namespace membrane::host {

// Of the fork `number` of what draws from the stream of `key`: another for each number, and independent of what that
// stream gives, or its other forks. It is the beginning of a stream that nobody reads otherwise.
inline RandomStream::Key key_of_fork(RandomStream::Key key, uint64_t number) {
  for (size_t i = 0; i < 8; ++i) key[16 + i] ^= static_cast<uint8_t>(number >> (8 * i));
  for (size_t i = 24; i < 32; ++i) key[i] ^= 0xF0;
  RandomStream::Key fork{};
  RandomStream(key).fill(fork);
  return fork;
}

}  // namespace membrane::host
