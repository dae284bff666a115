// Authentication: bearer tokens with scopes and an expiry. A token is shown once, when it is created; only
// its SHA-256 is stored. It has 160 bits of randomness, so no slower hash is needed.
//
// With a State they are stored on disk; each change is stored before it is answered. The owner's token is not
// among them: it is in a file that only its user can read, and stays the same as long as the file exists.
//
// Threads: any.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "service/durable_files.h"
#include "service/errors.h"
#include "service/quotas.h"
#include "service/state.h"

namespace membrane::service {

// The scopes; "admin" allows everything.
inline constexpr std::string_view kScopes[] = {"admin",      "sandboxes:read", "sandboxes:write", "exec",
                                               "files:read", "files:write",    "policy:widen",    "secrets",
                                               "logs",       "approve"};

// The caller: sandboxes belong to the tenant.
struct Caller {
  std::string tenant;
  std::string token_id;
  std::set<std::string, std::less<>> scopes;

  [[nodiscard]] bool may(std::string_view scope) const {
    return scope.empty() || scopes.contains("admin") || scopes.contains(scope);
  }
};

struct TokenInfo {
  std::string id;
  std::string tenant;
  std::string name;
  std::vector<std::string> scopes;
  int64_t created_at_ms = 0;
  std::optional<int64_t> expires_at_ms = {};
  Quotas quotas = {};  // its tenant's; if several tokens name a quota, the smallest counts
};

class Tokens {
 public:
  // In memory only.
  Tokens() = default;
  // Loads the tokens from `state`, which is borrowed. Errors: those of State.
  static Result<std::unique_ptr<Tokens>> open(State& state);

  struct Made {
    TokenInfo info;
    std::string token;  // shown only here
  };
  // Errors: kUnavailable without libcrypto; kInvalidArgument for an unknown scope.
  Result<Made> make(TokenInfo wanted, int64_t now_ms);
  // Adds a token for `info`, which is not stored on disk. Errors: kUnavailable without libcrypto.
  Status add(std::string_view token, TokenInfo info);
  // The caller with this token. Errors: kUnauthorized.
  [[nodiscard]] Answer<Caller> find(std::string_view token, int64_t now_ms) const;
  // Whether a token of this id still exists.
  [[nodiscard]] bool has(std::string_view id, int64_t now_ms) const;
  [[nodiscard]] std::vector<TokenInfo> list() const;
  // False when there is none. Errors: those of State; then it still exists.
  Result<bool> remove(std::string_view id);
  // The quotas that a tenant's tokens name.
  [[nodiscard]] Quotas quotas_of(std::string_view tenant) const;

 private:
  State* state_ = nullptr;
  mutable std::mutex mutex_;
  std::map<std::string, TokenInfo, std::less<>> by_hash_;
};

// The owner's token from the file `owner.token`, which is created if missing. Errors: kInvalidInput for a
// file with other contents; those of Disk.
// holds something else; as Disk.
inline constexpr const char* kOwnerTokenFile = "owner.token";
inline constexpr const char* kOwnerTokenId = "owner";
Result<std::string> owner_token(DurableFiles& files);

// A prefix, and 160 random bits in 32 letters and digits that are safe in names, paths and host names.
std::string new_id(std::string_view prefix);

}  // namespace membrane::service
