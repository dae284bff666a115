// Who may ask for what: bearer tokens with scopes and an end. A token is shown once, when it is made; what is kept is
// its SHA-256. It has 160 bits of randomness, so nothing slower is needed.
//
// With a State they are kept on the disk; each change is there before it is answered. The owner's token is not among them:
// it is in a file that only its user can read, and stays the same as long as the file is there.
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

// What a token can allow; "admin" allows all.
inline constexpr std::string_view kScopes[] = {"admin",      "sandboxes:read", "sandboxes:write", "exec",
                                               "files:read", "files:write",    "policy:widen",    "secrets",
                                               "logs",       "approve"};

// Who asks: sandboxes belong to the tenant.
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
  Quotas quotas = {};  // of its tenant; where several tokens of a tenant name one, the smallest counts
};

class Tokens {
 public:
  // In memory only.
  Tokens() = default;
  // Those that `state` has, which is borrowed. Errors: as State.
  static Result<std::unique_ptr<Tokens>> open(State& state);

  struct Made {
    TokenInfo info;
    std::string token;  // the only time that it is seen
  };
  // Errors: kUnavailable without libcrypto; kInvalidArgument for a scope that is none.
  Result<Made> make(TokenInfo wanted, int64_t now_ms);
  // One for `info`, which is not kept on the disk. Errors: kUnavailable without libcrypto.
  Status add(std::string_view token, TokenInfo info);
  // Who shows this token. Errors: kUnauthorized.
  [[nodiscard]] Answer<Caller> find(std::string_view token, int64_t now_ms) const;
  // Whether there is still a token of this id.
  [[nodiscard]] bool has(std::string_view id, int64_t now_ms) const;
  [[nodiscard]] std::vector<TokenInfo> list() const;
  // False when there is none. Errors: as State; then it is there still.
  Result<bool> remove(std::string_view id);
  // What the tokens of a tenant name.
  [[nodiscard]] Quotas quotas_of(std::string_view tenant) const;

 private:
  State* state_ = nullptr;
  mutable std::mutex mutex_;
  std::map<std::string, TokenInfo, std::less<>> by_hash_;
};

// The owner's token: of the file `owner.token`, which is made when it is not there. Errors: kInvalidInput for a file that
// holds something else; as Disk.
inline constexpr const char* kOwnerTokenFile = "owner.token";
inline constexpr const char* kOwnerTokenId = "owner";
Result<std::string> owner_token(DurableFiles& files);

// A prefix, and 160 random bits in 32 letters and digits that are safe in names, paths and host names.
std::string new_id(std::string_view prefix);

}  // namespace membrane::service
