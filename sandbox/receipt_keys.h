// The keys that sign receipts, with the times during which they did.
//
//   generated ──▶ signs ──(rotate)──▶ retired: its receipts verify, and it signs no more
//                   └────(revoke)──▶ revoked: nothing that it signed is believed
//
// A key is identified by the first 32 hex digits of the SHA-256 of its public key. The owner's ring has the private
// half of only the signing key: rotating discards the private half of the old one. The published document has only
// public keys.
//
// Threads: values.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace membrane::sandbox {

struct ReceiptKey {
  std::string id;
  std::string public_key;   // bytes
  std::string private_key;  // bytes; "" unless it signs
  std::string created;      // receipt_time_now()
  std::string retired;      // "" while it signs
  std::string revoked;      // "" if it is not revoked

  // "signs", "retired" or "revoked".
  [[nodiscard]] std::string_view state() const;
};

class KeyRing {
 public:
  static constexpr size_t kMaxBytes = 1u << 20, kMaxKeys = 1'000;

  // Parses a ring's own file, or a published document. Errors: kInvalidInput, kTooLong; kUnavailable without
  // libcrypto.
  static Result<KeyRing> parse(std::string_view text, std::string_view name);
  // One JSON document. With private keys it must only be stored in the owner's file.
  [[nodiscard]] std::string to_json(bool with_private_keys) const;

  [[nodiscard]] const std::vector<ReceiptKey>& keys() const { return keys_; }
  [[nodiscard]] const ReceiptKey* find(std::string_view id) const;
  // The signing key; null when there is none.
  [[nodiscard]] const ReceiptKey* signing() const;

  // Adds the other ring's keys. For a key in both, a time of retirement or revocation in either counts.
  void add(const KeyRing& other);

  // Retires the signing key, if there is one, and adds one that signs from now on. Errors: those of
  // ed25519_generate(); kExhausted.
  Status rotate(const std::string& now);
  // Errors: kNotFound.
  Status revoke(std::string_view id, const std::string& now);

 private:
  std::vector<ReceiptKey> keys_;  // in order of creation
};

// Errors: kUnavailable without libcrypto.
Result<std::string> id_of_public_key(std::string_view public_key);

// The owner's file: $XDG_CONFIG_HOME/membrane/receipt-keys.json, else below ~/.config; "" without a home.
std::string default_key_file();
// Errors: kNotFound when there is no file; kDenied when users other than the owner can read or write it; as parse().
Result<KeyRing> load_own_keys(const std::string& path);
// The signing key. Errors: as load_own_keys(); kNotFound when no key signs any more.
Result<ReceiptKey> load_signing_key(const std::string& path);
// Writes the file atomically, accessible to the owner only. Errors: kUnavailable; kInvalidArgument for a directory
// that others can write to.
Status save_own_keys(const KeyRing& keys, const std::string& path);

}  // namespace membrane::sandbox
