#include "base/compress_hash.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace membrane {
namespace {

// The padded block of the message "abc": its length comes first or last.
std::string abc(HashKind kind) {
  std::string block = "abc\x80";
  block.resize(hash_block_bytes(kind), '\0');
  block[kind == HashKind::kMd5 ? 56 : block.size() - 1] = 24;
  return block;
}

// The examples of RFC 1321 and FIPS 180-4.
TEST(CompressHash, OfAbc) {
  std::vector<uint32_t> md5 = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};
  std::vector<uint32_t> sha1 = md5;
  compress_hash(HashKind::kMd5, md5, abc(HashKind::kMd5));
  EXPECT_EQ(md5, (std::vector<uint32_t>{0x98500190, 0xb04fd23c, 0x7d3f96d6, 0x727fe128}));
  sha1.push_back(0xc3d2e1f0);
  compress_hash(HashKind::kSha1, sha1, abc(HashKind::kSha1));
  EXPECT_EQ(sha1, (std::vector<uint32_t>{0xa9993e36, 0x4706816a, 0xba3e2571, 0x7850c26c, 0x9cd0d89d}));
  std::vector<uint32_t> sha256 = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                  0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  compress_hash(HashKind::kSha256, sha256, abc(HashKind::kSha256));
  EXPECT_EQ(sha256, (std::vector<uint32_t>{0xba7816bf, 0x8f01cfea, 0x414140de, 0x5dae2223, 0xb00361a3,
                                           0x96177a9c, 0xb410ff61, 0xf20015ad}));
  std::vector<uint32_t> sha512 = {0x6a09e667, 0xf3bcc908, 0xbb67ae85, 0x84caa73b, 0x3c6ef372, 0xfe94f82b,
                                  0xa54ff53a, 0x5f1d36f1, 0x510e527f, 0xade682d1, 0x9b05688c, 0x2b3e6c1f,
                                  0x1f83d9ab, 0xfb41bd6b, 0x5be0cd19, 0x137e2179};
  compress_hash(HashKind::kSha512, sha512, abc(HashKind::kSha512));
  EXPECT_EQ(sha512,
            (std::vector<uint32_t>{0xddaf35a1, 0x93617aba, 0xcc417349, 0xae204131, 0x12e6fa4e, 0x89a97ea2,
                                   0x0a9eeee6, 0x4b55d39a, 0x2192992a, 0x274fc1a8, 0x36ba3c23, 0xa3feebbd,
                                   0x454d4423, 0x643ce80e, 0x2a9ac94f, 0xa54ca49f}));
}

TEST(CompressHash, OfManyBlocksIsOfOneAfterTheOther) {
  for (const HashKind kind : {HashKind::kMd5, HashKind::kSha1, HashKind::kSha256, HashKind::kSha512}) {
    std::vector<uint32_t> at_once(hash_state_words(kind), 7), one_by_one = at_once;
    std::string blocks;
    for (size_t i = 0; i < 5 * hash_block_bytes(kind); ++i) blocks += static_cast<char>(i * 31);
    compress_hash(kind, at_once, blocks);
    for (size_t at = 0; at < blocks.size(); at += hash_block_bytes(kind))
      compress_hash(kind, one_by_one, std::string_view(blocks).substr(at, hash_block_bytes(kind)));
    EXPECT_EQ(at_once, one_by_one);
  }
}

}  // namespace
}  // namespace membrane
