// A reproducible stream of random bytes.
//
// Threads: one at a time.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace membrane {

// The key stream of ChaCha20 (RFC 8439, section 2.4) with a zero nonce, from block 0 on:
// for a random key indistinguishable from random, the same on every machine, and small
// enough to stand in a snapshot.
class RandomStream {
 public:
  using Key = std::array<uint8_t, 32>;

  explicit RandomStream(const Key& key) : key_(key) {}
  // Of the stream that a seed names.
  static Key key_of(uint64_t seed);
  // As it stands when so many bytes have been taken.
  RandomStream(const Key& key, uint64_t position);

  void fill(std::span<uint8_t> bytes);
  uint32_t next_u32();
  uint64_t next_u64();

  // How many bytes have been taken: with the key, the whole state.
  [[nodiscard]] uint64_t position() const { return position_; }
  [[nodiscard]] const Key& key() const { return key_; }

 private:
  void make_block(uint64_t index);

  Key key_;
  uint64_t position_ = 0;
  std::array<uint8_t, 64> block_{};  // the one that position_ stands in, when position_ % 64 != 0
};

}  // namespace membrane
