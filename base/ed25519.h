// Ed25519 signatures (RFC 8032), by OpenSSL's libcrypto, which is loaded at the first use.
//
// Keys and signatures are raw bytes: 32 for a private key (its seed), 32 for a public key, 64 for a signature.
//
// Threads: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace membrane {

inline constexpr size_t kEd25519KeyBytes = 32;
inline constexpr size_t kEd25519SignatureBytes = 64;

struct Ed25519Pair {
  std::string private_key;
  std::string public_key;
};

// All return kUnavailable when libcrypto is not installed or the system has no randomness, and kInternal when
// libcrypto fails.
Result<Ed25519Pair> ed25519_generate();
// kInvalidArgument for a key of another length.
Result<std::string> ed25519_sign(std::string_view private_key, std::string_view message);
// False if the signature was not made by the key, or if the key or the signature has the wrong length.
Result<bool> ed25519_verify(std::string_view public_key, std::string_view message,
                            std::string_view signature);

// Random bytes from the operating system. Errors: kUnavailable.
Result<std::string> system_random(size_t count);

}  // namespace membrane
