// A reproducible stream of random bytes.
//
// Threads: one at a time.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace membrane {

// The key stream of ChaCha20 (RFC 8439, section 2.4) with a zero nonce, from block 0: indistinguishable from random
// for a random key, the same on every machine, and small enough for a snapshot.
class RandomStream {
 public:
  using Key = std::array<uint8_t, 32>;

  explicit RandomStream(const Key& key) : key_(key) {}
  // The key for the stream of a seed.
  static Key key_of(uint64_t seed);
  // A stream from which `position` bytes have been taken.
  RandomStream(const Key& key, uint64_t position);

  void fill(std::span<uint8_t> bytes);
  uint32_t next_u32();
  uint64_t next_u64();

  // How many bytes have been taken; together with the key, the whole state.
  [[nodiscard]] uint64_t position() const { return position_; }
  [[nodiscard]] const Key& key() const { return key_; }

 private:
  void make_block(uint64_t index);

  Key key_;
  uint64_t position_ = 0;
  std::array<uint8_t, 64> block_{};  // the block at position_, when position_ % 64 != 0
};

}  // namespace membrane
