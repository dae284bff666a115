// Ed25519 signatures (RFC 8032), by OpenSSL's libcrypto, which is loaded at the first use.
//
// Keys and signatures are bytes: 32 of a private key (its seed), 32 of a public key, 64 of a signature.
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

// Errors of all: kUnavailable when libcrypto is not installed; kInternal when it fails.
// Also kUnavailable when the system has no randomness.
Result<Ed25519Pair> ed25519_generate();
// kInvalidArgument for a key of another length.
Result<std::string> ed25519_sign(std::string_view private_key, std::string_view message);
// False for a signature that is not the key's, and for a key or a signature of another length.
Result<bool> ed25519_verify(std::string_view public_key, std::string_view message,
                            std::string_view signature);

// Bytes of the system's own randomness. Errors: kUnavailable.
Result<std::string> system_random(size_t count);

}  // namespace membrane
