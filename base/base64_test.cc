#include "base/base64.h"

#include <gtest/gtest.h>

namespace membrane {
namespace {

// RFC 4648, section 10.
TEST(Base64, TheVectorsOfTheRfc) {
  const std::pair<std::string_view, std::string_view> vectors[] = {{"", ""},
                                                                   {"f", "Zg=="},
                                                                   {"fo", "Zm8="},
                                                                   {"foo", "Zm9v"},
                                                                   {"foob", "Zm9vYg=="},
                                                                   {"fooba", "Zm9vYmE="},
                                                                   {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : vectors) {
    EXPECT_EQ(base64_encode(bytes), text);
    EXPECT_EQ(base64_decode(text), bytes);
  }
}

TEST(Base64, AnyBytesComeBack) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  for (size_t size = 0; size <= bytes.size(); ++size)
    EXPECT_EQ(base64_decode(base64_encode(bytes.substr(size))), bytes.substr(size));
}

TEST(Base64, RefusesWhatItWouldNotWrite) {
  for (const char* bad : {"Z", "Zg", "Zg=", "Zh==", "Zm9=", "====", "Z===", "Zg==Zg==", "Zm 9", "Zm9v\n",
                          "Zm-_", "=Zg=", "Zg=a"})
    EXPECT_FALSE(base64_decode(bad)) << bad;
}

}  // namespace
}  // namespace membrane
