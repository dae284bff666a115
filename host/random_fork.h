// Keys of random streams for forks.
//
// Threads: functions without state.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "host/random.h"

namespace membrane::host {

// The key for fork `number` of the user of the stream of `key`: different for each number, and independent of that
// stream and of its other forks. It is the beginning of a stream that is not used otherwise.
inline RandomStream::Key key_of_fork(RandomStream::Key key, uint64_t number) {
  for (size_t i = 0; i < 8; ++i) key[16 + i] ^= static_cast<uint8_t>(number >> (8 * i));
  for (size_t i = 24; i < 32; ++i) key[i] ^= 0xF0;
  RandomStream::Key fork{};
  RandomStream(key).fill(fork);
  return fork;
}

// A key from a seed of any length: each block is mixed into the key of a stream, whose beginning is the next key.
inline RandomStream::Key key_of_seed(std::string_view seed) {
  RandomStream::Key key = RandomStream::key_of(seed.size());
  for (size_t at = 0; at < seed.size(); at += key.size()) {
    const std::string_view block = seed.substr(at, key.size());
    for (size_t i = 0; i < block.size(); ++i) key[i] ^= static_cast<uint8_t>(block[i]);
    key = key_of_fork(key, at);
  }
  return key;
}

// A key derived from the state of `stream` and another seed: unrelated to the numbers of `stream`, and the same for
// the same seed and state.
inline RandomStream::Key key_of_both(const RandomStream& stream, const RandomStream::Key& seed) {
  RandomStream::Key key = key_of_fork(stream.key(), stream.position());
  for (size_t i = 0; i < key.size(); ++i) key[i] ^= seed[i];
  return key_of_fork(key, 0);
}

}  // namespace membrane::host
