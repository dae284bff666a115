#include "host/kv/kv_store.h"

#include <algorithm>
#include <optional>

#include "base/sqlite.h"
#include "base/text.h"
#include "host/broker/decisions.h"
#include "host/sql/read_only_file.h"
#include "host/sql/sqlite_wait.h"

namespace membrane::host {
namespace {

constexpr uint64_t kBusyTimeoutMs = 2'000;
constexpr int kProgressOps = 1'000;  // virtual machine steps between checks of the clock

// "MBkv": identifies our files, so that another program's database is not written to.
constexpr int64_t kApplicationId = 0x4D426B76;

// Triggers keep the usage, so that it is right for any writer. length() of a text counts characters and stops at
// NUL; of a blob it counts bytes.
constexpr const char* kSchema = R"sql(
  CREATE TABLE kv (key TEXT PRIMARY KEY NOT NULL, value BLOB NOT NULL) STRICT;
  CREATE TABLE usage (keys INTEGER NOT NULL, bytes INTEGER NOT NULL) STRICT;
  INSERT INTO usage VALUES (0, 0);
  CREATE TRIGGER kv_insert AFTER INSERT ON kv BEGIN
    UPDATE usage SET keys = keys + 1, bytes = bytes + length(CAST(new.key AS BLOB)) + length(new.value);
  END;
  CREATE TRIGGER kv_delete AFTER DELETE ON kv BEGIN
    UPDATE usage SET keys = keys - 1, bytes = bytes - length(CAST(old.key AS BLOB)) - length(old.value);
  END;
  CREATE TRIGGER kv_update AFTER UPDATE ON kv BEGIN
    UPDATE usage SET bytes = bytes + length(CAST(new.key AS BLOB)) + length(new.value)
                                   - length(CAST(old.key AS BLOB)) - length(old.value);
  END;
  PRAGMA application_id = 1296198518;
  PRAGMA user_version = 1;
)sql";
static_assert(kApplicationId == 1296198518);

}  // namespace

class KvStore::Impl {
 public:
  Impl(const policy::KvGrant& grant, const sqlite::Api& api, const Deadline& run)
      : grant_(grant), api_(api), run_(run), file_(grant.path) {}

  HostResult<void> open();
  HostResult<std::string> get(std::string_view key);
  HostResult<void> set(std::string_view key, std::string_view value);
  HostResult<void> remove(std::string_view key);
  HostResult<std::vector<std::string>> keys(std::string_view prefix);

 private:
  static int on_busy(void* self, int tries) {
    return wait_for_lock(tries, kBusyTimeoutMs, static_cast<const Impl*>(self)->run_) ? 1 : 0;
  }
  static int on_progress(void* self) { return static_cast<const Impl*>(self)->run_.passed() ? 1 : 0; }
  HostResult<void> open_file();
  // Before each call: a file that is read without a trace is reopened when it has changed.
  HostResult<void> ready() {
    if (db_ != nullptr && !(is_read_only() && file_.has_changed())) return {};
    db_.reset();
    auto opened = open();
    if (!opened) db_.reset();
    return opened;
  }
  [[nodiscard]] bool is_read_only() const { return !grant_.writable && !grant_.path.empty(); }
  HostResult<void> create_or_check();
  HostResult<int64_t> integer(const char* sql);
  [[nodiscard]] HostResult<void> check_key(std::string_view key) const {
    return host::check_key(grant_, key);
  }
  [[nodiscard]] HostResult<void> check_writable() const { return host::check_writable(grant_); }
  HostResult<void> check_quota();
  HostResult<void> write(std::string_view key, std::string_view value);
  [[nodiscard]] std::unexpected<HostError> failure(int code) const;

  // Runs `body` inside a transaction that holds the write lock: all of it, or nothing.
  template <typename Body>
  HostResult<void> transaction(Body body) {
    if (const int code = db_->execute("BEGIN IMMEDIATE"); code != SQLITE_OK) return failure(code);
    HostResult<void> result = body();
    if (result) {
      if (const int code = db_->execute("COMMIT"); code != SQLITE_OK) result = failure(code);
    }
    if (!result) db_->execute("ROLLBACK");
    return result;
  }

  policy::KvGrant grant_;
  const sqlite::Api& api_;
  const Deadline& run_;
  ReadOnlyFile file_;  // for a store that is only read
  std::unique_ptr<sqlite::Connection> db_;
};

std::unexpected<HostError> KvStore::Impl::failure(int code) const {
  if (run_.passed()) return refuse(Errno::kTimedOut, "the run's time is over");
  switch (code & 0xFF) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED: return refuse(Errno::kTimedOut, "the key-value store is in use by another process");
    case SQLITE_FULL: return refuse(Errno::kQuota, "the disk under the key-value store is full");
    default: return refuse(Errno::kHost, "the key-value store cannot be used: " + db_->message());
  }
}

HostResult<void> KvStore::Impl::open() {
  if (grant_.path.empty()) grant_.max_total_bytes = std::min(grant_.max_total_bytes, kMaxBytesInMemory);
  MEMBRANE_TRY(open_file());
  api_.busy_handler(db_->handle(), &on_busy, this);
  api_.progress_handler(db_->handle(), kProgressOps, &on_progress, this);
  return create_or_check();
}

HostResult<void> KvStore::Impl::open_file() {
  if (is_read_only()) {
    auto db = file_.open(api_, nullptr);
    if (!db) return refuse(db.error().code, "the key-value store: " + db.error().reason, db.error().grant);
    db_ = std::move(*db);
    return {};
  }
  db_ = std::make_unique<sqlite::Connection>(api_);
  constexpr int kMode = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
  if (db_->open(grant_.path.empty() ? ":memory:" : grant_.path, kMode) == SQLITE_OK) return {};
  return refuse(Errno::kHost,
                "the key-value store '" + grant_.path + "' cannot be opened: " + db_->message());
}

HostResult<void> KvStore::Impl::create_or_check() {
  if (grant_.writable || grant_.path.empty()) {
    // Another process may be creating the same file: only one that finds it empty, under the lock, initialises it.
    MEMBRANE_TRY(transaction([&]() -> HostResult<void> {
      MEMBRANE_ASSIGN(const int64_t objects, integer("SELECT count(*) FROM sqlite_schema"));
      if (objects != 0) return {};
      const int code = db_->execute(kSchema);
      return code == SQLITE_OK ? HostResult<void>() : failure(code);
    }));
    // Readers do not wait for writers. A file system without support keeps the older journal, which is only slower.
    if (!grant_.path.empty()) db_->execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL");
  }
  MEMBRANE_ASSIGN(const int64_t id, integer("PRAGMA application_id"));
  MEMBRANE_ASSIGN(const int64_t version, integer("PRAGMA user_version"));
  if (id != kApplicationId || version != 1)
    return refuse(Errno::kHost, "'" + grant_.path + "' is not a key-value store of Membrane");
  return {};
}

HostResult<int64_t> KvStore::Impl::integer(const char* sql) {
  sqlite::Statement statement;
  int code = db_->prepare(sql, statement);
  if (code == SQLITE_OK) code = statement.step();
  if (code != SQLITE_ROW) return failure(code);
  return statement.int_at(0);
}

HostResult<std::string> KvStore::Impl::get(std::string_view key) {
  MEMBRANE_TRY(check_key(key));
  MEMBRANE_TRY(ready());
  sqlite::Statement statement;
  int code = db_->prepare("SELECT value FROM kv WHERE key = ?1", statement);
  if (code == SQLITE_OK) code = statement.bind_text(1, key);
  if (code == SQLITE_OK) code = statement.step();
  if (code == SQLITE_DONE) return refuse(Errno::kNotFound, "there is no key '" + std::string(key) + "'");
  if (code != SQLITE_ROW) return failure(code);
  return std::string(statement.bytes_at(0));
}

HostResult<void> KvStore::Impl::set(std::string_view key, std::string_view value) {
  MEMBRANE_TRY(check_writable());
  MEMBRANE_TRY(check_key(key));
  if (value.size() > grant_.max_value_bytes)
    return refuse(Errno::kQuota, "the value has " + count_of(value.size(), "byte") + "; the limit is " +
                                     std::to_string(grant_.max_value_bytes));
  return transaction([&]() -> HostResult<void> {
    MEMBRANE_TRY(write(key, value));
    return check_quota();
  });
}

HostResult<void> KvStore::Impl::write(std::string_view key, std::string_view value) {
  sqlite::Statement statement;
  int code = db_->prepare(
      "INSERT INTO kv VALUES (?1, ?2) ON CONFLICT(key) DO UPDATE SET value = excluded.value", statement);
  if (code == SQLITE_OK) code = statement.bind_text(1, key);
  if (code == SQLITE_OK) code = statement.bind_blob(2, value);
  if (code == SQLITE_OK) code = statement.step();
  return code == SQLITE_DONE ? HostResult<void>() : failure(code);
}

// Checks the state after the write; a write that exceeds a quota is rolled back.
HostResult<void> KvStore::Impl::check_quota() {
  MEMBRANE_ASSIGN(const int64_t keys, integer("SELECT keys FROM usage"));
  MEMBRANE_ASSIGN(const int64_t bytes, integer("SELECT bytes FROM usage"));
  if (static_cast<uint64_t>(keys) > grant_.max_keys)
    return refuse(Errno::kQuota,
                  "the key-value store holds " + count_of(grant_.max_keys, "key") + ", its limit");
  if (static_cast<uint64_t>(bytes) > grant_.max_total_bytes)
    return refuse(Errno::kQuota, "the key-value store would hold " + count_of(bytes, "byte") +
                                     "; the limit is " + std::to_string(grant_.max_total_bytes));
  return {};
}

HostResult<void> KvStore::Impl::remove(std::string_view key) {
  MEMBRANE_TRY(check_writable());
  MEMBRANE_TRY(check_key(key));
  sqlite::Statement statement;
  int code = db_->prepare("DELETE FROM kv WHERE key = ?1 RETURNING 1", statement);
  if (code == SQLITE_OK) code = statement.bind_text(1, key);
  if (code == SQLITE_OK) code = statement.step();
  if (code == SQLITE_DONE) return refuse(Errno::kNotFound, "there is no key '" + std::string(key) + "'");
  if (code == SQLITE_ROW) code = statement.step();  // to its end: that is when it commits
  return code == SQLITE_DONE ? HostResult<void>() : failure(code);
}

HostResult<std::vector<std::string>> KvStore::Impl::keys(std::string_view prefix) {
  // Keys that the grant does not cover do not exist: the longer of the two prefixes applies.
  const bool narrower = prefix.starts_with(grant_.prefix);
  if (!narrower && !std::string_view(grant_.prefix).starts_with(prefix)) return std::vector<std::string>();
  const std::string_view start = narrower ? prefix : std::string_view(grant_.prefix);
  MEMBRANE_TRY(ready());

  sqlite::Statement statement;
  int code = db_->prepare("SELECT key FROM kv WHERE key >= ?1 ORDER BY key", statement);
  if (code == SQLITE_OK) code = statement.bind_text(1, start);
  std::vector<std::string> found;
  while (code == SQLITE_OK || code == SQLITE_ROW) {
    code = statement.step();
    if (code != SQLITE_ROW || !statement.bytes_at(0).starts_with(start)) break;
    found.emplace_back(statement.bytes_at(0));
  }
  if (code != SQLITE_ROW && code != SQLITE_DONE) return failure(code);
  return found;
}

HostResult<std::unique_ptr<KvStore>> KvStore::open(const policy::KvGrant& grant, const Deadline& run) {
  const auto api = sqlite::api();
  if (!api) return refuse(Errno::kUnsupported, api.error().message);
  auto impl = std::make_unique<Impl>(grant, **api, run);
  MEMBRANE_TRY(impl->open());
  return std::unique_ptr<KvStore>(new KvStore(std::move(impl)));
}

KvStore::KvStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
KvStore::~KvStore() = default;
HostResult<std::string> KvStore::get(std::string_view key) { return impl_->get(key); }
HostResult<void> KvStore::set(std::string_view key, std::string_view value) { return impl_->set(key, value); }
HostResult<void> KvStore::remove(std::string_view key) { return impl_->remove(key); }
HostResult<std::vector<std::string>> KvStore::keys(std::string_view prefix) { return impl_->keys(prefix); }

}  // namespace membrane::host
