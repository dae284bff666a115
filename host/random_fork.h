// Keys of random streams, for what forks.
//
// Threads: functions without state.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

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

// Of a seed of any length: each block is mixed into the key of a stream, whose beginning is the next key.
inline RandomStream::Key key_of_seed(std::string_view seed) {
  RandomStream::Key key = RandomStream::key_of(seed.size());
  for (size_t at = 0; at < seed.size(); at += key.size()) {
    const std::string_view block = seed.substr(at, key.size());
    for (size_t i = 0; i < block.size(); ++i) key[i] ^= static_cast<uint8_t>(block[i]);
    key = key_of_fork(key, at);
  }
  return key;
}

// Of the stream that goes on where `stream` stands, with another seed: none of what that one gives, and the same for the
// same seed at the same place.
inline RandomStream::Key key_of_both(const RandomStream& stream, const RandomStream::Key& seed) {
  RandomStream::Key key = key_of_fork(stream.key(), stream.position());
  for (size_t i = 0; i < key.size(); ++i) key[i] ^= seed[i];
  return key_of_fork(key, 0);
}

}  // namespace membrane::host
