#include "host/egress/secret_mask.h"

#include <gtest/gtest.h>

#include "base/base64.h"

namespace membrane::host {
namespace {

constexpr std::string_view kSecret = "se/kret\\=\"12";

std::string masked(std::string text, std::string_view secret = kSecret) {
  SecretMask(secret).apply(text);
  return text;
}

TEST(SecretMask, HidesItHoweverItIsEscaped) {
  for (const std::string spelling : {"se/kret\\=\"12", "se%2fkret%5c%3d%2212", "%73e/%6bret%5c%3D\"12",
                                     R"(se\/kret\u005c=\"12)", R"(se%2fkret\u005c%3d\"12)"})
    EXPECT_EQ(masked("<" + spelling + ">"), "<" + std::string(spelling.size(), '*') + ">");
  for (const char* other : {"<se%2kret>", "<se/kret\\=\"1%3", "", "s", "%", "\\", "\\u00", "%7"})
    EXPECT_EQ(masked(other), other);
}

TEST(SecretMask, ASecretThatLooksEscapedIsFoundAsItStands) {
  EXPECT_EQ(masked("x%41%42%43%44y", "%41%42%43%44"), "x************y");
  EXPECT_EQ(masked("xa%41\\\"bcdefy", "a%41\"bcdef"), "x***********y");
}

TEST(SecretMask, HidesItInBase64AtEachAlignmentAndInHex) {
  const std::string secret = "sekret-key-?>~\xff~123";
  for (const std::string before : {"", "a", "ab", "user:", "Bearer "})
    for (const std::string after : {"", "z", "yz"}) {
      const std::string text = base64_encode(before + secret + after);
      const std::string hidden = masked(text, secret);
      // All but what also holds bits of the neighbours.
      EXPECT_GE(std::count(hidden.begin(), hidden.end(), '*'),
                static_cast<ptrdiff_t>(secret.size() * 8 / 6) - 2)
          << hidden;
    }
  EXPECT_EQ(masked("736563726574736563726574", "secretsecret"), std::string(24, '*'));
  EXPECT_EQ(masked("<6A6B6C6D6A6B6C6D>", "jklmjklm"), "<****************>");
}

TEST(SecretMask, OverlappingOnesAreAllHidden) {
  EXPECT_EQ(masked(std::string(21, 'a'), "aaaaaaaa"), std::string(21, '*'));
  EXPECT_EQ(masked("abcabcabcabc", "abcabcabc"), "************");
  EXPECT_EQ(masked("xabcabcabxabcabcabcx", "abcabcabc"), "xabcabcabx*********x");
}

// A server knows the secret that it is sent: a body of almost-secrets must not cost their product.
TEST(SecretMask, ABodyOfBeginningsIsNoQuadraticWork) {
  const std::string secret = std::string(4000, 'a') + "b";
  const std::string body(4 << 20, 'a');
  EXPECT_EQ(masked(body, secret), body);
}

}  // namespace
}  // namespace membrane::host
