// SHA-256 (FIPS 180-4), by OpenSSL's libcrypto, which is loaded at the first use.
//
// Threads: any.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "base/result.h"

namespace membrane {

// The digest of the parts one after the other, as 64 lower-case hex digits.
// kUnavailable when libcrypto is not installed.
Result<std::string> sha256_hex(std::initializer_list<std::string_view> parts);
inline Result<std::string> sha256_hex(std::string_view bytes) { return sha256_hex({bytes}); }

}  // namespace membrane
