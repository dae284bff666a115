#include "service/idempotency.h"

#include <algorithm>

#include "base/json.h"
#include "base/sha256.h"

namespace membrane::service {
namespace {

// The answer as the database stores it: "" for one that is not kept.
std::string record_of(const Response& response) {
  if (response.source != nullptr || response.body.size() > Idempotency::kMostBodyBytes) return {};
  if (response.headers.find("Cache-Control") == "no-store") return {};  // a secret is in it
  nlohmann::json headers = nlohmann::json::array();
  for (const auto& [name, value] : response.headers.all()) headers.push_back({name, value});
  return json_text(nlohmann::json{{"status", response.status}, {"headers", std::move(headers)}}) + "\n" +
         response.body;
}

Result<Response> read_record(std::string_view record) {
  const size_t end = record.find('\n');
  const auto damaged = [] { return fail(ErrorCode::kInvalidInput, "a stored answer is damaged"); };
  if (end == std::string_view::npos) return damaged();
  MEMBRANE_ASSIGN(const auto head, read_json(record.substr(0, end)));
  const auto status = head.find("status"), headers = head.find("headers");
  if (status == head.end() || !status->is_number_integer() || headers == head.end() || !headers->is_array())
    return damaged();
  Response response{.status = status->get<int>(), .body = std::string(record.substr(end + 1))};
  for (const auto& each : *headers) {
    if (!each.is_array() || each.size() != 2 || !each[0].is_string() || !each[1].is_string())
      return damaged();
    response.headers.add(each[0].get<std::string>(), each[1].get<std::string>());
  }
  return response;
}

}  // namespace

bool Idempotency::is_key(std::string_view key) {
  return !key.empty() && key.size() <= 255 &&
         std::ranges::all_of(key, [](char c) { return c > ' ' && c <= '~'; });
}

Result<std::unique_ptr<Idempotency>> Idempotency::open(State& state, size_t most_kept) {
  std::unique_ptr<Idempotency> opened(new Idempotency(state, most_kept));
  MEMBRANE_ASSIGN(const std::vector<AnswerRow> rows, state.answers());
  for (const AnswerRow& row : rows) {
    Scope& scope = opened->scopes_[row.tenant];
    scope.kept.emplace(row.key, Kept{.request = row.request_hash,
                                     .began_at_ms = row.created_at_ms,
                                     .is_done = true,
                                     .size_bytes = row.size_bytes});
    scope.by_age.emplace_back(row.created_at_ms, row.key);
    scope.kept_bytes += row.size_bytes;
  }
  return opened;
}

// Under the mutex. Returns those that must also be removed from the database.
std::vector<Idempotency::Name> Idempotency::forget_old(int64_t now_ms) {
  std::vector<Name> gone;
  for (auto& [name, scope] : scopes_) {
    auto& by_age = scope.by_age;
    while (!by_age.empty() && (by_age.front().first + kKeptForMs <= now_ms || by_age.size() > most_kept_ ||
                               scope.kept_bytes > kMostKeptBytes)) {
      const auto found = scope.kept.find(by_age.front().second);
      if (found != scope.kept.end() && found->second.began_at_ms == by_age.front().first) {
        if (found->second.is_done) gone.emplace_back(name, found->first);
        scope.kept_bytes -= found->second.size_bytes;
        scope.kept.erase(found);
      }
      by_age.pop_front();
    }
  }
  std::erase_if(scopes_, [](const auto& each) { return each.second.by_age.empty(); });
  return gone;
}

Idempotency::Kept* Idempotency::find(std::string_view scope, std::string_view key) {
  const auto of = scopes_.find(scope);
  if (of == scopes_.end()) return nullptr;
  const auto found = of->second.kept.find(key);
  return found == of->second.kept.end() ? nullptr : &found->second;
}

Answer<std::optional<Response>> Idempotency::begin(std::string_view scope, std::string_view key,
                                                   std::string_view request, int64_t now_ms) {
  if (!is_key(key))
    return refuse(ApiCode::kInvalidRequest, "Idempotency-Key is not 1 to 255 printable characters",
                  "Use a random one, such as a UUID, for each operation.");
  const auto hash = sha256_hex(request);
  if (!hash) return std::unexpected(api_error(hash.error()));
  const Name name{scope, key};
  Kept kept;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [tenant, old] : forget_old(now_ms)) static_cast<void>(state_.remove_answer(tenant, old));
    Scope& of = scopes_[name.first];
    const auto [found, is_new] =
        of.kept.try_emplace(name.second, Kept{.request = *hash, .began_at_ms = now_ms});
    if (is_new) {
      of.by_age.emplace_back(now_ms, name.second);
      return std::nullopt;
    }
    kept = found->second;
  }
  if (kept.request != *hash)
    return refuse(ApiCode::kInvalidValue, "the Idempotency-Key was used for another request",
                  "Use a new key for each operation.");
  if (!kept.is_done)
    return refuse(ApiCode::kConflict, "a request with this Idempotency-Key is in progress",
                  "Wait for its answer, or send this again later.");
  if (kept.size_bytes == 0)
    return refuse(ApiCode::kConflict,
                  "the request with this Idempotency-Key was done, and its answer is not kept",
                  "Streams and large answers are not kept: get its result, as with GET …/execs/ID/events.");
  const auto row = state_.answer(name.first, name.second);
  if (!row) return std::unexpected(disk_error(row.error()));
  auto response = read_record(row->answer);
  if (!response) return std::unexpected(disk_error(response.error()));
  return *std::move(response);
}

void Idempotency::finish(std::string_view scope, std::string_view key, const Response& response) {
  const Name name{scope, key};
  AnswerRow row{.tenant = name.first, .key = name.second, .request_hash = {}};
  {
    const std::lock_guard lock(mutex_);
    const Kept* const found = find(scope, key);
    if (found == nullptr) return;
    const bool can_pass = response.status == 429 || response.status >= 500;
    if (can_pass) {
      scopes_[name.first].kept.erase(name.second);
      return;
    }
    row.request_hash = found->request;
    row.created_at_ms = found->began_at_ms;
  }
  row.answer = record_of(response);
  row.size_bytes = row.answer.size();
  const bool is_written = state_.put(row, Hold::kCrash).has_value();
  const std::lock_guard lock(mutex_);
  Kept* const found = find(scope, key);
  if (found == nullptr) return;
  found->is_done = true;
  found->size_bytes = is_written ? row.size_bytes : 0;
  scopes_[name.first].kept_bytes += found->size_bytes;
}

}  // namespace membrane::service
