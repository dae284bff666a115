#include "host/local_broker.h"

#include <algorithm>
#include <chrono>

#include "host/decisions.h"
#include "host/files/permissions.h"

namespace membrane::host {
namespace {

using policy::Budget;
using policy::Resource;

// Opens into `slot` at the first call; a failure is returned again each time.
template <typename T, typename Open>
HostResult<T*> open_once(std::unique_ptr<T>& slot, Open open) {
  if (!slot) {
    auto opened = open();
    if (!opened) return std::unexpected(opened.error());
    slot = std::move(*opened);
  }
  return slot.get();
}

// The result of `act` on the opened object, or why it could not be opened.
template <typename T, typename Act>
auto then(HostResult<T*> opened, Act act) -> decltype(act(*opened)) {
  if (!opened) return std::unexpected(opened.error());
  return act(*opened);
}

// The failure of a request that had acted already.
std::unexpected<HostError> after_acting(HostError error) {
  error.acted = true;
  return std::unexpected(std::move(error));
}

}  // namespace

LocalBroker::LocalBroker(const policy::Policy& policy, Budget& budget, Model* model, Person* person,
                         Resolver* resolver, Secrets secrets, EgressWatch* watch, const Sources* sources)
    : policy_(policy),
      budget_(budget),
      deadline_(budget),
      model_(model),
      person_(person),
      resolver_(resolver != nullptr ? *resolver : system_resolver_),
      secrets_(secrets ? std::move(secrets) : environment_secrets()),
      watch_(watch),
      sources_(sources),
      clock_(policy.time),
      random_(policy.random, sources) {}

HostResult<void> LocalBroker::pay_out(size_t bytes) {
  if (budget_.take(Resource::kBytesOut, bytes)) return {};
  return refuse(Errno::kBudget, std::string(policy::used_up(policy::Resource::kBytesOut)));
}

HostResult<void> LocalBroker::pay_in(size_t bytes) {
  if (budget_.take(Resource::kBytesIn, bytes)) return {};
  return after_acting({Errno::kBudget, std::string(policy::used_up(policy::Resource::kBytesIn)), {}});
}

// -- http ----------------------------------------------------------------------------

HostResult<HttpEgress*> LocalBroker::egress() {
  if (!egress_) {
    auto made = HttpEgress::create(policy_.http, budget_, deadline_, resolver_, secrets_, watch_);
    if (!made) return refuse(Errno::kHost, "The http grants cannot be used: " + made.error().to_string());
    egress_ = std::move(*made);
  }
  return egress_.get();
}

HostResult<HttpResponse> LocalBroker::http(const HttpRequest& request) {
  return then(egress(), [&](HttpEgress* egress) { return egress->send(request, room_for_answers()); });
}

// The rest is for the answer in the form for the program.
uint64_t LocalBroker::room_for_answers() const { return left_for_call_ ? left_for_call_() / 2 : UINT64_MAX; }

std::vector<HostResult<HttpResponse>> LocalBroker::http_many(std::span<const HttpRequest> requests) {
  const auto opened = egress();
  if (!opened) return {requests.size(), std::unexpected(opened.error())};
  return (*opened)->send_many(requests, room_for_answers());
}

// -- files ---------------------------------------------------------------------------

HostResult<FileAccess*> LocalBroker::files() {
  return open_once(files_, [this] { return FileAccess::open(policy_.fs, budget_, &deadline_); });
}

HostResult<std::string> LocalBroker::file_read(std::string_view path, uint64_t most_bytes) {
  return then(files(), [&](FileAccess* access) { return access->read(path, most_bytes); });
}
HostResult<void> LocalBroker::file_write(std::string_view path, std::string_view bytes, FileMode mode) {
  return then(files(), [&](FileAccess* access) { return access->write(path, bytes, mode); });
}
HostResult<std::vector<FileInfo>> LocalBroker::file_list(std::string_view path) {
  return then(files(), [&](FileAccess* access) { return access->list(path); });
}
HostResult<FileInfo> LocalBroker::file_stat(std::string_view path) {
  return then(files(), [&](FileAccess* access) { return access->stat(path); });
}
HostResult<void> LocalBroker::file_remove(std::string_view path) {
  return then(files(), [&](FileAccess* access) { return access->remove(path); });
}

HostResult<OpenedFile> LocalBroker::file_open(std::string_view path, const FileOpening& how) {
  return then(files(), [&](FileAccess* access) { return access->handles().open(path, how); });
}
HostResult<std::string> LocalBroker::file_read_at(FileHandle file, uint64_t offset, uint32_t count) {
  return then(files(), [&](FileAccess* access) { return access->handles().read(file, offset, count); });
}
HostResult<void> LocalBroker::file_write_at(FileHandle file, uint64_t offset, std::string_view bytes) {
  return then(files(), [&](FileAccess* access) { return access->handles().write(file, offset, bytes); });
}
HostResult<void> LocalBroker::file_resize(FileHandle file, uint64_t size) {
  return then(files(), [&](FileAccess* access) { return access->handles().resize(file, size); });
}
HostResult<FileStatus> LocalBroker::file_status(FileHandle file) {
  return then(files(), [&](FileAccess* access) { return access->handles().status(file); });
}
HostResult<void> LocalBroker::file_sync(FileHandle file) {
  return then(files(), [&](FileAccess* access) { return access->handles().sync(file); });
}
HostResult<void> LocalBroker::file_close(FileHandle file) {
  return then(files(), [&](FileAccess* access) { return access->handles().close(file); });
}
HostResult<FileStatus> LocalBroker::path_status(std::string_view path) {
  return then(files(), [&](FileAccess* access) { return access->handles().status(path); });
}
HostResult<void> LocalBroker::path_set_times(std::string_view path, const FileTimes& times) {
  return then(files(), [&](FileAccess* access) { return access->handles().set_times(path, times); });
}
HostResult<LinkOnPath> LocalBroker::path_find_link(std::string_view path) {
  return then(files(), [&](FileAccess* access) { return access->handles().find_link(path); });
}
HostResult<void> LocalBroker::link_make_symbolic(std::string_view target, std::string_view path) {
  return then(files(), [&](FileAccess* access) { return access->handles().make_symlink(target, path); });
}
HostResult<void> LocalBroker::link_make_hard(std::string_view from, std::string_view to) {
  return then(files(), [&](FileAccess* access) { return access->handles().make_link(from, to); });
}
HostResult<void> LocalBroker::path_unlink(std::string_view path) {
  return then(files(), [&](FileAccess* access) { return access->handles().unlink(path); });
}
HostResult<void> LocalBroker::path_rename(std::string_view from, std::string_view to) {
  return then(files(), [&](FileAccess* access) { return access->handles().rename(from, to); });
}
HostResult<std::vector<FileInfo>> LocalBroker::path_list(std::string_view path, size_t most_entries) {
  return then(files(), [&](FileAccess* access) { return access->list(path, most_entries); });
}
HostResult<uint32_t> LocalBroker::path_permissions(std::string_view path) {
  return then(files(), [&](FileAccess* access) { return permissions_of(access->roots(), path); });
}
HostResult<void> LocalBroker::path_set_permissions(std::string_view path, uint32_t mode) {
  return then(files(), [&](FileAccess* access) { return set_permissions(access->roots(), path, mode); });
}
HostResult<Room> LocalBroker::path_room(std::string_view path) {
  return then(files(), [&](FileAccess* access) { return room_of(access->roots(), path); });
}
HostResult<void> LocalBroker::directory_make(std::string_view path) {
  return then(files(), [&](FileAccess* access) { return access->handles().make_directory(path); });
}
HostResult<void> LocalBroker::directory_remove(std::string_view path) {
  return then(files(), [&](FileAccess* access) { return access->handles().remove_directory(path); });
}

// -- kv and sql ------------------------------------------------------------------------

HostResult<KvStore*> LocalBroker::kv() {
  if (auto may = check_kv(policy_); !may) return std::unexpected(may.error());
  return open_once(kv_, [this] { return KvStore::open(*policy_.kv, deadline_); });
}

HostResult<std::string> LocalBroker::kv_get(std::string_view key) {
  auto store = kv();
  if (!store) return std::unexpected(store.error());
  auto value = (*store)->get(key);
  if (!value) return value;
  if (auto paid = pay_in(value->size()); !paid) return std::unexpected(paid.error());
  return value;
}

HostResult<void> LocalBroker::kv_set(std::string_view key, std::string_view value) {
  auto store = kv();
  if (!store) return std::unexpected(store.error());
  const size_t bytes = key.size() + value.size();
  if (auto paid = pay_out(bytes); !paid) return paid;
  auto written = (*store)->set(key, value);
  if (!written) budget_.give_back(Resource::kBytesOut, bytes);
  return written;
}

HostResult<void> LocalBroker::kv_remove(std::string_view key) {
  return then(kv(), [&](KvStore* store) { return store->remove(key); });
}

HostResult<std::vector<std::string>> LocalBroker::kv_keys(std::string_view prefix) {
  auto store = kv();
  if (!store) return std::unexpected(store.error());
  auto keys = (*store)->keys(prefix);
  if (!keys) return keys;
  size_t bytes = 0;
  for (const std::string& key : *keys) bytes += key.size();
  if (auto paid = pay_in(bytes); !paid) return std::unexpected(paid.error());
  return keys;
}

HostResult<SqlReader*> LocalBroker::database(std::string_view name) {
  const auto grant = find_database(policy_, name);
  if (!grant) return std::unexpected(grant.error());
  return open_once(databases_[(*grant)->name],
                   [&] { return SqlReader::open(**grant, [this] { return clock_ms().value_or(0); }); });
}

HostResult<std::string> LocalBroker::sql_query(std::string_view name, std::string_view sql,
                                               std::string_view parameters_json, Work& work) {
  auto reader = database(name);
  if (!reader) return std::unexpected(reader.error());
  if (deadline_.passed()) return refuse(Errno::kBudget, std::string(policy::kTimeIsUsedUp));
  uint64_t memory_bytes = SqlReader::kMaxQueryMemoryBytes;
  if (left_for_call_) memory_bytes = left_for_call_() / 4 * 3;  // the rest for the rows as text
  auto rows = (*reader)->query(sql, parameters_json, deadline_, work, memory_bytes);
  if (!rows) return rows;
  if (auto paid = pay_in(rows->size()); !paid) return std::unexpected(paid.error());
  return rows;
}

// -- model and person --------------------------------------------------------------------

HostResult<const policy::AiGrant*> LocalBroker::ai() {
  if (auto may = check_ai(policy_); !may) return std::unexpected(may.error());
  if (model_ == nullptr) return refuse(Errno::kUnsupported, "No model is configured.");
  if (budget_.left(Resource::kTokens) == 0)
    return refuse(Errno::kBudget, std::string(policy::used_up(policy::Resource::kTokens)));
  if (deadline_.left_ms() == 0) return refuse(Errno::kBudget, std::string(policy::kTimeIsUsedUp));
  return &*policy_.ai;
}

HostResult<ChatAnswer> LocalBroker::ai_complete(const ChatRequest& request) {
  auto grant = ai();
  if (!grant) return std::unexpected(grant.error());
  ChatRequest bounded = request;
  uint64_t most = std::min((*grant)->max_tokens_per_call, budget_.left(Resource::kTokens));
  if (request.max_tokens != 0) most = std::min<uint64_t>(most, request.max_tokens);
  bounded.max_tokens = static_cast<uint32_t>(std::min<uint64_t>(most, UINT32_MAX));
  if (auto paid = pay_out(request.system.size() + request.prompt.size()); !paid)
    return std::unexpected(paid.error());
  auto answer = model_->complete(bounded, std::min((*grant)->timeout_ms, deadline_.left_ms()));
  if (!answer) return after_acting(answer.error());
  // Known only now. The tokens have been spent even if they exceed the budget; the next call is refused.
  budget_.take_after(Resource::kTokens, answer->tokens_in + answer->tokens_out);
  if (auto paid = pay_in(answer->text.size()); !paid) return std::unexpected(paid.error());
  return answer;
}

HostResult<std::vector<float>> LocalBroker::ai_embed(std::string_view text) {
  auto grant = ai();
  if (!grant) return std::unexpected(grant.error());
  if (auto may = check_embedding(**grant); !may) return std::unexpected(may.error());
  if (auto paid = pay_out(text.size()); !paid) return std::unexpected(paid.error());
  auto vector = model_->embed(text, std::min((*grant)->timeout_ms, deadline_.left_ms()));
  if (!vector) return after_acting(vector.error());
  if (auto paid = pay_in(vector->size() * sizeof(float)); !paid) return std::unexpected(paid.error());
  return vector;
}

HostResult<std::string> LocalBroker::ask(std::string_view question) {
  if (auto may = check_ask(policy_); !may) return std::unexpected(may.error());
  if (person_ == nullptr) return refuse(Errno::kUnsupported, "No one is there to answer.");
  const uint64_t left_ms = deadline_.left_ms();
  if (left_ms == 0) return refuse(Errno::kBudget, std::string(policy::kTimeIsUsedUp));
  if (auto paid = pay_out(question.size()); !paid) return std::unexpected(paid.error());
  auto answer = person_->ask(question, left_ms);
  if (!answer) return after_acting(answer.error());
  if (auto paid = pay_in(answer->size()); !paid) return std::unexpected(paid.error());
  return answer;
}

// -- clock and randomness ------------------------------------------------------------------

HostResult<int64_t> LocalBroker::asked_ns() const {
  const auto now_ns = sources_->now_ns();
  if (!now_ns || *now_ns < 0) return refuse(Errno::kHost, "the embedder's clock could not be read");
  return *now_ns;
}
HostResult<int64_t> LocalBroker::clock_ms() {
  constexpr int64_t kNsPerMs = 1'000'000;
  if (!policy_.time.real || sources_ == nullptr || !sources_->now_ns) return clock_.now_ms();
  MEMBRANE_ASSIGN(const int64_t ns, asked_ns());
  return ns / kNsPerMs;
}
HostResult<int64_t> LocalBroker::clock_ns() {
  if (!policy_.time.real) return Broker::clock_ns();
  if (sources_ != nullptr && sources_->now_ns) return asked_ns();
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since_epoch).count();
}
HostResult<std::string> LocalBroker::random_bytes(uint32_t count) { return random_.bytes(count); }

}  // namespace membrane::host
