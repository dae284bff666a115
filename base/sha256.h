// SHA-256 (FIPS 180-4), by OpenSSL's libcrypto, which is loaded at the first use.
//
// Threads: any; one thread at a time per Sha256.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace membrane {

// Computes the digest of data that is added piece by piece.
class Sha256 {
 public:
  // kUnavailable when libcrypto is not installed.
  static Result<Sha256> begin();
  void add(std::string_view bytes);
  // 64 lower-case hex digits. Nothing can be added afterwards.
  Result<std::string> finish();

 private:
  struct Free {
    void operator()(void* context) const;
  };
  std::unique_ptr<void, Free> context_;
  bool ok_ = false;
};

// The digest of the concatenated parts.
Result<std::string> sha256_hex(std::initializer_list<std::string_view> parts);
// The SHA-1 of the concatenated parts, which is how git names file contents. Not used for security.
Result<std::string> sha1_hex(std::initializer_list<std::string_view> parts);
inline Result<std::string> sha256_hex(std::string_view bytes) { return sha256_hex({bytes}); }
// Whether a text can be what sha256_hex() returns.
bool is_sha256_hex(std::string_view text);

}  // namespace membrane
