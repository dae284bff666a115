#include "base/zlib.h"

#include <gtest/gtest.h>

namespace membrane {
namespace {

TEST(Zlib, BytesComeBack) {
  for (const std::string& bytes : {std::string(), std::string("a"), std::string(100'000, 'x')}) {
    const auto compressed = compress_bytes(bytes);
    ASSERT_TRUE(compressed);
    EXPECT_EQ(decompress_bytes(*compressed, bytes.size()), bytes);
  }
}

TEST(Zlib, OtherSizesAndDamageAreRefused) {
  const std::string compressed = compress_bytes("some bytes").value();
  for (const size_t size : {0u, 9u, 11u, 1'000u}) EXPECT_FALSE(decompress_bytes(compressed, size)) << size;
  EXPECT_FALSE(decompress_bytes(compressed + "x", 10));
  EXPECT_FALSE(decompress_bytes(compressed.substr(1), 10));
  EXPECT_FALSE(decompress_bytes("", 0));
}

}  // namespace
}  // namespace membrane
