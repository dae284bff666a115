#include "base/ed25519.h"

#include <gtest/gtest.h>

#include "base/hex.h"

namespace membrane {
namespace {

std::string from_hex(std::string_view digits) {
  std::string bytes;
  for (size_t i = 0; i + 1 < digits.size(); i += 2)
    bytes += static_cast<char>(std::stoi(std::string(digits.substr(i, 2)), nullptr, 16));
  return bytes;
}

// RFC 8032, 7.1, tests 1 and 2.
TEST(Ed25519, SignsAsTheRfcDoes) {
  struct Case {
    const char *seed, *public_key, *message, *signature;
  };
  for (const Case& each :
       {Case{
            "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
            "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "",
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46b"
            "d25bf5f0595bbe24655141438e7a100b"},
        Case{
            "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
            "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "72",
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c"
            "387b2eaeb4302aeeb00d291612bb0c00"}}) {
    const auto signature = ed25519_sign(from_hex(each.seed), from_hex(each.message));
    ASSERT_TRUE(signature) << signature.error().to_string();
    EXPECT_EQ(hex_of(*signature), each.signature);
    EXPECT_TRUE(ed25519_verify(from_hex(each.public_key), from_hex(each.message), *signature).value());
  }
}

TEST(Ed25519, RefusesOtherMessagesKeysAndSignatures) {
  const Ed25519Pair pair = ed25519_generate().value(), other = ed25519_generate().value();
  EXPECT_NE(pair.public_key, other.public_key);
  const std::string signature = ed25519_sign(pair.private_key, "a message").value();
  EXPECT_TRUE(ed25519_verify(pair.public_key, "a message", signature).value());
  EXPECT_FALSE(ed25519_verify(pair.public_key, "a massage", signature).value());
  EXPECT_FALSE(ed25519_verify(other.public_key, "a message", signature).value());
  for (size_t i = 0; i < signature.size(); ++i) {
    std::string changed = signature;
    changed[i] ^= 1;
    EXPECT_FALSE(ed25519_verify(pair.public_key, "a message", changed).value()) << i;
  }
  EXPECT_FALSE(ed25519_verify(pair.public_key, "a message", signature.substr(1)).value());
  EXPECT_FALSE(ed25519_verify(pair.public_key.substr(1), "a message", signature).value());
  EXPECT_EQ(ed25519_sign("short", "a message").error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace membrane
