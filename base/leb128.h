// LEB128 integers (DWARF; WebAssembly specification, chapter 5.2.2).
#pragma once

#include <cstdint>
#include <type_traits>
#include <vector>

namespace membrane {

// Reads an integer of `Bits` bits from [at, end). Returns the position after it, or nullptr when
// the bytes end inside it, when it is longer than ceil(Bits/7) bytes, or when the unused bits
// of its last byte are not its sign (or zero, for an unsigned T).
template <typename T, unsigned Bits = sizeof(T) * 8>
const uint8_t* read_leb128(const uint8_t* at, const uint8_t* end, T& out) {
  using U = std::make_unsigned_t<T>;
  constexpr bool kSigned = std::is_signed_v<T>;
  constexpr unsigned kMaxBytes = (Bits + 6) / 7;
  if (at != end && *at < 0x40) [[likely]] {  // one byte, and positive also when signed
    out = static_cast<T>(*at);
    return at + 1;
  }
  U value = 0;
  unsigned shift = 0;
  for (unsigned i = 0; i < kMaxBytes; ++i, shift += 7) {
    if (at == end) return nullptr;
    const uint8_t byte = *at++;
    value |= static_cast<U>(byte & 0x7F) << shift;
    if (byte & 0x80) continue;
    if (i + 1 == kMaxBytes) {
      constexpr unsigned kUsed = Bits - 7 * (kMaxBytes - 1);  // bits of the last byte that count
      if constexpr (kSigned) {
        const int8_t top = static_cast<int8_t>(static_cast<uint8_t>(byte << 1)) >> kUsed;
        if (top != 0 && top != -1) return nullptr;
      } else {
        if ((byte >> kUsed) != 0) return nullptr;
      }
    }
    if constexpr (kSigned) {
      const unsigned used = shift + 7;
      if (used < sizeof(T) * 8 && (byte & 0x40)) value |= ~U{0} << used;
    }
    out = static_cast<T>(value);
    return at;
  }
  return nullptr;
}

// Appends the shortest encoding.
template <typename T>
void write_leb128(std::vector<uint8_t>& out, T value) {
  for (;;) {
    const auto byte = static_cast<uint8_t>(value & 0x7F);
    value >>= 7;  // arithmetic for a signed T
    bool done = value == 0;
    if constexpr (std::is_signed_v<T>)
      done = (value == 0 && !(byte & 0x40)) || (value == -1 && (byte & 0x40));
    out.push_back(done ? byte : static_cast<uint8_t>(byte | 0x80));
    if (done) return;
  }
}

}  // namespace membrane
