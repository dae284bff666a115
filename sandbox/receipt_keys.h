// The keys that receipts are signed by, with the times in which they did.
//
//   generated ──▶ signs ──(rotate)──▶ retired: its receipts verify, and it signs no more
//                   └────(revoke)──▶ revoked: nothing that it signed is believed
//
// A key is known by its id, the first 32 hex digits of the SHA-256 of its public key. The owner's ring has the private half of
// the key that signs, and of no other: rotating a key forgets it. What is published has public keys alone.
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
  std::string revoked;      // "" of one that is believed

  // "signs", "retired" or "revoked".
  [[nodiscard]] std::string_view state() const;
};

class KeyRing {
 public:
  static constexpr size_t kMaxBytes = 1u << 20, kMaxKeys = 1'000;

  // Of a ring's own file, or of what was published. Errors: kInvalidInput, kTooLong; kUnavailable without libcrypto.
  static Result<KeyRing> parse(std::string_view text, std::string_view name);
  // One JSON document. With the private keys it is for the owner's file alone.
  [[nodiscard]] std::string to_json(bool with_private_keys) const;

  [[nodiscard]] const std::vector<ReceiptKey>& keys() const { return keys_; }
  [[nodiscard]] const ReceiptKey* find(std::string_view id) const;
  // The one that signs; null when there is none.
  [[nodiscard]] const ReceiptKey* signing() const;

  // Adds the other's keys. Of a key that both have, a time at which it was retired or revoked counts whoever knows of it.
  void add(const KeyRing& other);

  // Retires the key that signs, if there is one, and adds one that signs from now on. Errors: those of ed25519_generate();
  // kExhausted.
  Status rotate(const std::string& now);
  // Errors: kNotFound.
  Status revoke(std::string_view id, const std::string& now);

 private:
  std::vector<ReceiptKey> keys_;  // as they were made
};

// Errors: kUnavailable without libcrypto.
Result<std::string> id_of_public_key(std::string_view public_key);

// The owner's file: $XDG_CONFIG_HOME/membrane/receipt-keys.json, else below ~/.config; "" without a home.
std::string default_key_file();
// Errors: kNotFound when there is no file; kDenied when others than the owner may read or write it; as parse().
Result<KeyRing> load_own_keys(const std::string& path);
// The key of them that signs. Errors: as load_own_keys(); kNotFound where none signs any more.
Result<ReceiptKey> load_signing_key(const std::string& path);
// Writes it whole, for the owner alone. Errors: kUnavailable; kInvalidArgument for a directory that others may write to.
Status save_own_keys(const KeyRing& keys, const std::string& path);

}  // namespace membrane::sandbox
