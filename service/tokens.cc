#include "service/tokens.h"

#include <sys/random.h>

#include <algorithm>

#include "base/sha256.h"
#include "base/text.h"

namespace membrane::service {
namespace {

constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz234567", kTokenPrefix = "mbr_";
constexpr size_t kRandomLetters = 32;

bool is_token(std::string_view text) {
  return text.starts_with(kTokenPrefix) && text.size() == kTokenPrefix.size() + kRandomLetters &&
         text.find_first_not_of(kLetters, kTokenPrefix.size()) == std::string_view::npos;
}

}  // namespace

std::string new_id(std::string_view prefix) {
  unsigned char bytes[kRandomLetters];
  size_t filled = 0;
  while (filled < sizeof bytes) {
    const ssize_t got = getrandom(bytes + filled, sizeof bytes - filled, 0);
    if (got > 0) filled += static_cast<size_t>(got);
  }
  std::string id(prefix);
  for (const unsigned char byte : bytes) id += kLetters[byte % kLetters.size()];
  return id;
}

Result<std::string> owner_token(DurableFiles& files) {
  const auto kept = files.read(kOwnerTokenFile, 1'000);
  if (kept && is_token(trimmed(*kept))) return std::string(trimmed(*kept));
  if (kept || kept.error().code == ErrorCode::kTooLong)
    return fail(ErrorCode::kInvalidInput, std::string("the file ") + kOwnerTokenFile + " contains no token",
                "Bring it back from a backup, or remove it: the service then makes a new one.");
  if (kept.error().code != ErrorCode::kNotFound) return std::unexpected(kept.error());
  const std::string token = new_id(kTokenPrefix);
  MEMBRANE_TRY(files.write(kOwnerTokenFile, token + "\n"));
  return token;
}

Result<std::unique_ptr<Tokens>> Tokens::open(State& state) {
  auto tokens = std::make_unique<Tokens>();
  tokens->state_ = &state;
  MEMBRANE_ASSIGN(const std::vector<TokenRow> rows, state.tokens());
  for (const TokenRow& row : rows)
    tokens->by_hash_.emplace(row.hash, TokenInfo{row.id, row.tenant, row.name, row.scopes, row.created_at_ms,
                                                 row.expires_at_ms, Quotas::of_names(row.quotas)});
  return tokens;
}

Status Tokens::add(std::string_view token, TokenInfo info) {
  MEMBRANE_ASSIGN(const std::string hash, sha256_hex(token));
  const std::lock_guard lock(mutex_);
  by_hash_.insert_or_assign(hash, std::move(info));
  return {};
}

Result<Tokens::Made> Tokens::make(TokenInfo wanted, int64_t now_ms) {
  for (const std::string& scope : wanted.scopes)
    if (std::ranges::find(kScopes, scope) == std::end(kScopes))
      return fail(ErrorCode::kInvalidArgument, "there is no scope \"" + scope + "\"",
                  "GET /openapi.json lists them.");
  Made made{std::move(wanted), new_id(kTokenPrefix)};
  made.info.id = new_id("tok");
  made.info.created_at_ms = now_ms;
  if (made.info.tenant.empty()) made.info.tenant = made.info.id;
  MEMBRANE_ASSIGN(const std::string hash, sha256_hex(made.token));
  if (state_ != nullptr)
    MEMBRANE_TRY(
        state_->put(TokenRow{hash, made.info.id, made.info.tenant, made.info.name, made.info.scopes,
                             made.info.quotas.by_name(), made.info.created_at_ms, made.info.expires_at_ms}));
  const std::lock_guard lock(mutex_);
  by_hash_.emplace(hash, made.info);
  return made;
}

Answer<Caller> Tokens::find(std::string_view token, int64_t now_ms) const {
  const auto refused = [](std::string message) {
    return refuse(ApiCode::kUnauthorized, std::move(message),
                  "Send the token that membrane serve printed: Authorization: Bearer mbr_…");
  };
  if (token.empty()) return refused("the request has no token");
  const auto hash = sha256_hex(token);
  if (!hash) return std::unexpected(api_error(hash.error()));
  const std::lock_guard lock(mutex_);
  const auto found = by_hash_.find(*hash);
  if (found == by_hash_.end()) return refused("the token is not known here");
  const TokenInfo& info = found->second;
  if (info.expires_at_ms && *info.expires_at_ms <= now_ms) return refused("the token has expired");
  return Caller{info.tenant, info.id, {info.scopes.begin(), info.scopes.end()}};
}

bool Tokens::has(std::string_view id, int64_t now_ms) const {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(by_hash_, [&](const auto& pair) {
    const TokenInfo& info = pair.second;
    return info.id == id && (!info.expires_at_ms || *info.expires_at_ms > now_ms);
  });
}

std::vector<TokenInfo> Tokens::list() const {
  const std::lock_guard lock(mutex_);
  std::vector<TokenInfo> all;
  for (const auto& [hash, info] : by_hash_) all.push_back(info);
  std::ranges::sort(all, {}, &TokenInfo::created_at_ms);
  return all;
}

Result<bool> Tokens::remove(std::string_view id) {
  if (state_ != nullptr) MEMBRANE_TRY(state_->remove_token(std::string(id)));
  const std::lock_guard lock(mutex_);
  return std::erase_if(by_hash_, [&](const auto& pair) { return pair.second.id == id; }) > 0;
}

Quotas Tokens::quotas_of(std::string_view tenant) const {
  Quotas quotas;
  const std::lock_guard lock(mutex_);
  for (const auto& [hash, info] : by_hash_)
    if (info.tenant == tenant) quotas.narrow(info.quotas);
  return quotas;
}

}  // namespace membrane::service
