// The compression functions of MD5 (RFC 1321), SHA-1, SHA-256 and SHA-512 (FIPS 180-4): the expensive part of a
// hash. The caller handles initial values and padding. Not for use on secrets.
//
// Threads: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace membrane {

enum class HashKind : uint8_t { kMd5, kSha1, kSha256, kSha512 };

// In 32-bit words; a word of SHA-512 takes two, the higher half first.
constexpr size_t hash_state_words(HashKind kind) {
  switch (kind) {
    case HashKind::kMd5: return 4;
    case HashKind::kSha1: return 5;
    case HashKind::kSha256: return 8;
    case HashKind::kSha512: return 16;
  }
  return 0;
}
constexpr size_t hash_block_bytes(HashKind kind) { return kind == HashKind::kSha512 ? 128 : 64; }

// Compresses whole blocks into the state. The sizes must be those above, or a multiple of them.
void compress_hash(HashKind kind, std::span<uint32_t> state, std::string_view blocks);

}  // namespace membrane
