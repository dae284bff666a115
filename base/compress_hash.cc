#include "base/compress_hash.h"

#include <array>
#include <bit>
#include <cstring>

namespace membrane {
namespace {

// Fractional parts of the cube roots of the first primes; SHA-256 uses the upper halves of the first 64.
constexpr uint64_t kRounds[80] = {
    0x428a2f98d728ae22, 0x7137449123ef65cd, 0xb5c0fbcfec4d3b2f, 0xe9b5dba58189dbbc, 0x3956c25bf348b538,
    0x59f111f1b605d019, 0x923f82a4af194f9b, 0xab1c5ed5da6d8118, 0xd807aa98a3030242, 0x12835b0145706fbe,
    0x243185be4ee4b28c, 0x550c7dc3d5ffb4e2, 0x72be5d74f27b896f, 0x80deb1fe3b1696b1, 0x9bdc06a725c71235,
    0xc19bf174cf692694, 0xe49b69c19ef14ad2, 0xefbe4786384f25e3, 0x0fc19dc68b8cd5b5, 0x240ca1cc77ac9c65,
    0x2de92c6f592b0275, 0x4a7484aa6ea6e483, 0x5cb0a9dcbd41fbd4, 0x76f988da831153b5, 0x983e5152ee66dfab,
    0xa831c66d2db43210, 0xb00327c898fb213f, 0xbf597fc7beef0ee4, 0xc6e00bf33da88fc2, 0xd5a79147930aa725,
    0x06ca6351e003826f, 0x142929670a0e6e70, 0x27b70a8546d22ffc, 0x2e1b21385c26c926, 0x4d2c6dfc5ac42aed,
    0x53380d139d95b3df, 0x650a73548baf63de, 0x766a0abb3c77b2a8, 0x81c2c92e47edaee6, 0x92722c851482353b,
    0xa2bfe8a14cf10364, 0xa81a664bbc423001, 0xc24b8b70d0f89791, 0xc76c51a30654be30, 0xd192e819d6ef5218,
    0xd69906245565a910, 0xf40e35855771202a, 0x106aa07032bbd1b8, 0x19a4c116b8d2d0c8, 0x1e376c085141ab53,
    0x2748774cdf8eeb99, 0x34b0bcb5e19b48a8, 0x391c0cb3c5c95a63, 0x4ed8aa4ae3418acb, 0x5b9cca4f7763e373,
    0x682e6ff3d6b2b8a3, 0x748f82ee5defb2fc, 0x78a5636f43172f60, 0x84c87814a1f0ab72, 0x8cc702081a6439ec,
    0x90befffa23631e28, 0xa4506cebde82bde9, 0xbef9a3f7b2c67915, 0xc67178f2e372532b, 0xca273eceea26619c,
    0xd186b8c721c0c207, 0xeada7dd6cde0eb1e, 0xf57d4f7fee6ed178, 0x06f067aa72176fba, 0x0a637dc5a2c898a6,
    0x113f9804bef90dae, 0x1b710b35131c471b, 0x28db77f523047d84, 0x32caab7b40c72493, 0x3c9ebe0a15c9bebc,
    0x431d67c49c100d4c, 0x4cc5d4becb3e42b6, 0x597f299cfc657e2a, 0x5fcb6fab3ad6faec, 0x6c44198c4a475817,
};
// Sines of 1 to 64.
constexpr uint32_t kSines[64] = {
    0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
    0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
    0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
    0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
    0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
    0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
    0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
    0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391,
};

template <typename Word, std::endian kOrder>
Word word_at(const char* from) {
  Word word;
  std::memcpy(&word, from, sizeof word);
  return kOrder == std::endian::native ? word : std::byteswap(word);
}

void md5(std::span<uint32_t> state, const char* block) {
  static constexpr int kTurns[4][4] = {{7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}};
  std::array<uint32_t, 16> w;
  for (size_t i = 0; i < w.size(); ++i) w[i] = word_at<uint32_t, std::endian::little>(block + 4 * i);
  uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
  for (uint32_t i = 0; i < 64; ++i) {
    uint32_t f = 0, at = 0;
    switch (i / 16) {
      case 0: f = (b & c) | (~b & d), at = i; break;
      case 1: f = (d & b) | (~d & c), at = 5 * i + 1; break;
      case 2: f = b ^ c ^ d, at = 3 * i + 5; break;
      default: f = c ^ (b | ~d), at = 7 * i; break;
    }
    const uint32_t sum = a + f + kSines[i] + w[at % 16];
    a = d;
    d = c;
    c = b;
    b += std::rotl(sum, kTurns[i / 16][i % 4]);
  }
  state[0] += a;
  state[1] += b;
  state[2] += c;
  state[3] += d;
}

void sha1(std::span<uint32_t> state, const char* block) {
  std::array<uint32_t, 80> w;
  for (size_t i = 0; i < 16; ++i) w[i] = word_at<uint32_t, std::endian::big>(block + 4 * i);
  for (size_t i = 16; i < w.size(); ++i) w[i] = std::rotl(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
  uint32_t a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];
  for (size_t i = 0; i < w.size(); ++i) {
    const uint32_t f = i < 20   ? ((b & c) | (~b & d)) + 0x5a827999
                       : i < 40 ? (b ^ c ^ d) + 0x6ed9eba1
                       : i < 60 ? ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc
                                : (b ^ c ^ d) + 0xca62c1d6;
    const uint32_t sum = std::rotl(a, 5) + f + e + w[i];
    e = d;
    d = c;
    c = std::rotl(b, 30);
    b = a;
    a = sum;
  }
  state[0] += a;
  state[1] += b;
  state[2] += c;
  state[3] += d;
  state[4] += e;
}

// What differs between SHA-256 and SHA-512.
template <typename Word>
struct Sha2;
template <>
struct Sha2<uint32_t> {
  static constexpr size_t kCount = 64;
  static constexpr int kBig0[] = {2, 13, 22}, kBig1[] = {6, 11, 25}, kSmall0[] = {7, 18, 3},
                       kSmall1[] = {17, 19, 10};
  static uint32_t round(size_t i) { return static_cast<uint32_t>(kRounds[i] >> 32); }
};
template <>
struct Sha2<uint64_t> {
  static constexpr size_t kCount = 80;
  static constexpr int kBig0[] = {28, 34, 39}, kBig1[] = {14, 18, 41}, kSmall0[] = {1, 8, 7},
                       kSmall1[] = {19, 61, 6};
  static uint64_t round(size_t i) { return kRounds[i]; }
};

template <typename Word>
void sha2(std::span<Word, 8> state, const char* block) {
  using Kind = Sha2<Word>;
  const auto big = [](Word x, const int(&by)[3]) {
    return std::rotr(x, by[0]) ^ std::rotr(x, by[1]) ^ std::rotr(x, by[2]);
  };
  const auto small = [](Word x, const int(&by)[3]) {
    return std::rotr(x, by[0]) ^ std::rotr(x, by[1]) ^ (x >> by[2]);
  };
  std::array<Word, Kind::kCount> w;
  for (size_t i = 0; i < 16; ++i) w[i] = word_at<Word, std::endian::big>(block + sizeof(Word) * i);
  for (size_t i = 16; i < w.size(); ++i)
    w[i] = w[i - 16] + small(w[i - 15], Kind::kSmall0) + w[i - 7] + small(w[i - 2], Kind::kSmall1);
  auto [a, b, c, d, e, f, g, h] =
      std::array<Word, 8>{state[0], state[1], state[2], state[3], state[4], state[5], state[6], state[7]};
  for (size_t i = 0; i < w.size(); ++i) {
    const Word t = h + big(e, Kind::kBig1) + ((e & f) ^ (~e & g)) + Kind::round(i) + w[i];
    const Word u = big(a, Kind::kBig0) + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + t;
    d = c;
    c = b;
    b = a;
    a = t + u;
  }
  const Word made[] = {a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < 8; ++i) state[i] += made[i];
}

void sha512(std::span<uint32_t> halves, const char* block) {
  std::array<uint64_t, 8> state;
  for (size_t i = 0; i < 8; ++i) state[i] = uint64_t{halves[2 * i]} << 32 | halves[2 * i + 1];
  sha2<uint64_t>(state, block);
  for (size_t i = 0; i < 8; ++i) {
    halves[2 * i] = static_cast<uint32_t>(state[i] >> 32);
    halves[2 * i + 1] = static_cast<uint32_t>(state[i]);
  }
}

}  // namespace

void compress_hash(HashKind kind, std::span<uint32_t> state, std::string_view blocks) {
  const size_t size = hash_block_bytes(kind);
  for (; blocks.size() >= size; blocks.remove_prefix(size)) {
    switch (kind) {
      case HashKind::kMd5: md5(state, blocks.data()); break;
      case HashKind::kSha1: sha1(state, blocks.data()); break;
      case HashKind::kSha256: sha2<uint32_t>(state.first<8>(), blocks.data()); break;
      case HashKind::kSha512: sha512(state, blocks.data()); break;
    }
  }
}

}  // namespace membrane
