// Random bytes: a reproducible stream, and the source that a grant describes.
//
// Threads: one at a time.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "host/errno.h"
#include "policy/policy.h"

namespace membrane::host {

// The key stream of ChaCha20 (RFC 8439, section 2.4) with a zero nonce, from block 0 on:
// for a random key indistinguishable from random, the same on every machine, and small
// enough to stand in a snapshot.
class RandomStream {
 public:
  using Key = std::array<uint8_t, 32>;

  explicit RandomStream(const Key& key) : key_(key) {}
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

// What stands behind Broker::random_bytes: the kernel's entropy when the grant is for real
// randomness, else the stream whose key is the grant's seed.
class RandomSource {
 public:
  explicit RandomSource(const policy::RandomGrant& grant);

  static constexpr uint32_t kMaxBytes = 1u << 20;  // of one call; more is E2BIG
  HostResult<std::string> bytes(uint32_t count);
  // How many bytes of the seeded stream have been taken, and to go on behind them.
  [[nodiscard]] uint64_t position() const { return stream_.position(); }
  void go_to(uint64_t position) { stream_ = RandomStream(stream_.key(), position); }

 private:
  bool real_;
  RandomStream stream_;
};

}  // namespace membrane::host
