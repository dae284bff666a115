#include "base/sha256.h"

#include <gtest/gtest.h>

#include "base/shared_library.h"

namespace membrane {
namespace {

// FIPS 180-4's examples.
TEST(Sha256, TheKnownDigests) {
  EXPECT_EQ(sha256_hex("").value(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc").value(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex(std::string(1'000'000, 'a')).value(),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PartsAreOneText) { EXPECT_EQ(sha256_hex({"a", "", "bc"}).value(), sha256_hex("abc").value()); }

TEST(SharedLibrary, AMissingOneIsUnavailable) {
  const auto library = SharedLibrary::open("libmembrane-none.so.1", "none");
  ASSERT_FALSE(library);
  EXPECT_EQ(library.error().code, ErrorCode::kUnavailable);
}

TEST(SharedLibrary, AMissingSymbolIsUnavailable) {
  const auto library = SharedLibrary::open("libc.so.6", "libc6");
  ASSERT_TRUE(library);
  void (*function)() = nullptr;
  EXPECT_EQ(library->bind(function, "membrane_no_such_function").error().code, ErrorCode::kUnavailable);
  EXPECT_TRUE(library->bind(function, "getpid"));
  EXPECT_NE(function, nullptr);
}

}  // namespace
}  // namespace membrane
