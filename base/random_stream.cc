#include "base/random_stream.h"

#include <algorithm>
#include <bit>

namespace membrane {
namespace {

uint32_t load_u32(const uint8_t* bytes) {
  return static_cast<uint32_t>(bytes[0]) | static_cast<uint32_t>(bytes[1]) << 8 |
         static_cast<uint32_t>(bytes[2]) << 16 | static_cast<uint32_t>(bytes[3]) << 24;
}

void quarter_round(uint32_t& a, uint32_t& b, uint32_t& c, uint32_t& d) {
  a += b, d = std::rotl(d ^ a, 16);
  c += d, b = std::rotl(b ^ c, 12);
  a += b, d = std::rotl(d ^ a, 8);
  c += d, b = std::rotl(b ^ c, 7);
}

}  // namespace

RandomStream::Key RandomStream::key_of(uint64_t seed) {
  Key key{};
  for (size_t i = 0; i < 8; ++i) key[i] = static_cast<uint8_t>(seed >> (8 * i));
  return key;
}

// RFC 8439, section 2.3, with the 64-bit counter of the original ChaCha: words 12 and 13.
void RandomStream::make_block(uint64_t index) {
  std::array<uint32_t, 16> input = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574};
  for (size_t i = 0; i < 8; ++i) input[4 + i] = load_u32(&key_[4 * i]);
  input[12] = static_cast<uint32_t>(index);
  input[13] = static_cast<uint32_t>(index >> 32);

  std::array<uint32_t, 16> x = input;
  for (int round = 0; round < 10; ++round) {
    quarter_round(x[0], x[4], x[8], x[12]);
    quarter_round(x[1], x[5], x[9], x[13]);
    quarter_round(x[2], x[6], x[10], x[14]);
    quarter_round(x[3], x[7], x[11], x[15]);
    quarter_round(x[0], x[5], x[10], x[15]);
    quarter_round(x[1], x[6], x[11], x[12]);
    quarter_round(x[2], x[7], x[8], x[13]);
    quarter_round(x[3], x[4], x[9], x[14]);
  }
  for (size_t i = 0; i < 16; ++i) {
    const uint32_t word = x[i] + input[i];
    for (size_t k = 0; k < 4; ++k) block_[4 * i + k] = static_cast<uint8_t>(word >> (8 * k));
  }
}

RandomStream::RandomStream(const Key& key, uint64_t position) : key_(key), position_(position) {
  if (position_ % block_.size() != 0) make_block(position_ / block_.size());
}

void RandomStream::fill(std::span<uint8_t> bytes) {
  while (!bytes.empty()) {
    const size_t offset = position_ % block_.size();
    if (offset == 0) make_block(position_ / block_.size());
    const size_t count = std::min(bytes.size(), block_.size() - offset);
    std::copy_n(block_.begin() + static_cast<ptrdiff_t>(offset), count, bytes.begin());
    position_ += count;
    bytes = bytes.subspan(count);
  }
}

uint32_t RandomStream::next_u32() {
  std::array<uint8_t, 4> bytes{};
  fill(bytes);
  return load_u32(bytes.data());
}

uint64_t RandomStream::next_u64() {
  const uint64_t low = next_u32();
  return low | static_cast<uint64_t>(next_u32()) << 32;
}

}  // namespace membrane
