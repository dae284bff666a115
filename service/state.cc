#include "service/state.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <functional>
#include <mutex>
#include <type_traits>

#include "base/json.h"
#include "base/sqlite.h"

namespace membrane::service {
namespace {

constexpr int64_t kApplication = 0x4d425253;  // "MBRS"
constexpr int64_t kSchemaVersion = 2;

constexpr const char* kSchema = R"(
CREATE TABLE tokens (hash TEXT PRIMARY KEY, id TEXT NOT NULL UNIQUE, tenant TEXT NOT NULL, name TEXT NOT NULL,
  scopes TEXT NOT NULL, quotas TEXT NOT NULL, created_at_ms INTEGER NOT NULL, expires_at_ms INTEGER) STRICT;
CREATE TABLE sandboxes (id TEXT PRIMARY KEY, tenant TEXT NOT NULL, template TEXT NOT NULL, policy TEXT NOT NULL,
  metadata TEXT NOT NULL, labels TEXT NOT NULL, environment TEXT NOT NULL, created_at_ms INTEGER NOT NULL,
  last_used_at_ms INTEGER NOT NULL, expires_at_ms INTEGER NOT NULL, idle_timeout_s INTEGER,
  state TEXT NOT NULL CHECK (state IN ('live', 'paused', 'parked', 'lost')), reason TEXT NOT NULL, kept TEXT NOT NULL,
  images TEXT NOT NULL) STRICT;
CREATE TABLE snapshots (id TEXT PRIMARY KEY, tenant TEXT NOT NULL, template TEXT NOT NULL, sandbox TEXT NOT NULL,
  policy TEXT NOT NULL, metadata TEXT NOT NULL, created_at_ms INTEGER NOT NULL,
  kept TEXT NOT NULL, images TEXT NOT NULL) STRICT;
CREATE TABLE templates (tenant TEXT NOT NULL, name TEXT NOT NULL, snapshot TEXT NOT NULL REFERENCES snapshots (id),
  created_at_ms INTEGER NOT NULL, PRIMARY KEY (tenant, name)) STRICT;
CREATE INDEX templates_by_snapshot ON templates (snapshot);
CREATE TABLE secrets (tenant TEXT NOT NULL, name TEXT NOT NULL, ciphertext BLOB NOT NULL,
  hosts TEXT NOT NULL, updated_at_ms INTEGER NOT NULL, PRIMARY KEY (tenant, name)) STRICT;
CREATE TABLE usage (tenant TEXT NOT NULL, day INTEGER NOT NULL, fuel INTEGER NOT NULL, egress_bytes INTEGER NOT NULL,
  execs INTEGER NOT NULL, PRIMARY KEY (tenant, day)) STRICT;
CREATE TABLE answers (tenant TEXT NOT NULL, key TEXT NOT NULL, request_hash TEXT NOT NULL,
  created_at_ms INTEGER NOT NULL, size_bytes INTEGER NOT NULL, answer BLOB NOT NULL,
  PRIMARY KEY (tenant, key)) STRICT;
)";

// Of version 2.
constexpr const char* kReceiptsSchema = R"(
CREATE TABLE receipts (sandbox TEXT NOT NULL, exec TEXT NOT NULL, tenant TEXT NOT NULL, digest TEXT NOT NULL,
  image TEXT NOT NULL, private_image TEXT NOT NULL, size_bytes INTEGER NOT NULL, private_size_bytes INTEGER NOT NULL,
  context TEXT NOT NULL, turn INTEGER NOT NULL, made_at_ms INTEGER NOT NULL, PRIMARY KEY (sandbox, exec)) STRICT;
)";

using sqlite::Statement;
using Words = std::vector<std::string>;
using Pairs = std::map<std::string, std::string>;

struct Blob {
  std::string_view bytes;
};

int64_t capped(uint64_t value) { return value > INT64_MAX ? INT64_MAX : static_cast<int64_t>(value); }

int give(Statement& to, int index, std::string_view text) { return to.bind_text(index, text); }
int give(Statement& to, int index, Blob blob) { return to.bind_blob(index, blob.bytes); }
int give(Statement& to, int index, int64_t value) { return to.bind_int(index, value); }
template <typename T>
int give(Statement& to, int index, const std::optional<T>& value) {  // unbound is NULL
  return value ? to.bind_int(index, static_cast<int64_t>(*value)) : SQLITE_OK;
}

std::string text_of(const Words& words) { return json_text(nlohmann::json(words)); }
template <typename T>
std::string text_of(const std::map<std::string, T>& pairs) {
  return json_text(nlohmann::json(pairs));
}

std::string text_at(const Statement& row, int column) { return std::string(row.bytes_at(column)); }
uint64_t number_at(const Statement& row, int column) { return static_cast<uint64_t>(row.int_at(column)); }

// Of one row; `damaged` becomes true for what this program has not written so.
struct Columns {
  const Statement& row;
  const sqlite::Api& api;
  bool& damaged;

  [[nodiscard]] Words words(int column) const {
    Words words;
    const auto json = read_json(row.bytes_at(column));
    if (!json || !json->is_array()) return damaged = true, words;
    for (const auto& each : *json) {
      if (!each.is_string()) return damaged = true, words;
      words.push_back(each.get<std::string>());
    }
    return words;
  }
  template <typename T>
  [[nodiscard]] std::map<std::string, T> pairs(int column) const {
    std::map<std::string, T> pairs;
    const auto json = read_json(row.bytes_at(column));
    if (!json || !json->is_object()) return damaged = true, pairs;
    for (const auto& [name, value] : json->items()) {
      const bool fits = std::is_same_v<T, std::string> ? value.is_string() : value.is_number_unsigned();
      if (!fits) return damaged = true, pairs;
      pairs.emplace(name, value.template get<T>());
    }
    return pairs;
  }
  [[nodiscard]] std::optional<int64_t> number(int column) const {
    if (api.column_type(row.handle(), column) == SQLITE_NULL) return std::nullopt;
    return row.int_at(column);
  }
};

// Gives it to its user alone, as SQLite then does with its log. A file that exists is not opened: closing it would end
// the locks of another State of this process.
void make_private(const std::string& path) {
  const int made = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (made >= 0) ::close(made);
  for (const char* const ending : {"", "-wal", "-journal"})
    static_cast<void>(::chmod((path + ending).c_str(), S_IRUSR | S_IWUSR));
}

}  // namespace

class State::Database {
 public:
  Database(const sqlite::Api& api, std::string path) : api_(api), path_(std::move(path)), connection_(api) {}

  Status open(const char* vfs);

  // One change, in a transaction of its own or as a part of one.
  template <typename... Values>
  Status change(Hold hold, std::string_view sql, const Values&... values) {
    const std::lock_guard lock(mutex_);
    MEMBRANE_TRY(hold_for(hold));
    return step(sql, values...);
  }
  // All that `act` does, or nothing.
  Status transaction(Hold hold, const std::function<Status()>& act) {
    const std::lock_guard lock(mutex_);
    MEMBRANE_TRY(hold_for(hold));
    MEMBRANE_TRY(execute("BEGIN IMMEDIATE"));
    Status done = act();
    if (done) done = execute("COMMIT");
    if (!done) static_cast<void>(execute("ROLLBACK"));
    return done;
  }
  // Within transaction().
  template <typename... Values>
  Status step(std::string_view sql, const Values&... values) {
    Statement statement;
    MEMBRANE_TRY(prepare(sql, statement, values...));
    const int code = statement.step();
    return code == SQLITE_DONE || code == SQLITE_ROW ? Status() : Status(error(code));
  }
  template <typename Row, typename... Values>
  Result<std::vector<Row>> select(const std::function<Row(const Columns&)>& read, std::string_view sql,
                                  const Values&... values) {
    const std::lock_guard lock(mutex_);
    Statement statement;
    MEMBRANE_TRY(prepare(sql, statement, values...));
    std::vector<Row> rows;
    bool damaged = false;
    int code = SQLITE_ROW;
    while ((code = statement.step()) == SQLITE_ROW) rows.push_back(read({statement, api_, damaged}));
    if (code != SQLITE_DONE) return error(code);
    if (damaged) return error(SQLITE_CORRUPT);
    return rows;
  }

 private:
  [[nodiscard]] std::unexpected<Error> error(int code) const;
  Status execute(const char* sql) {
    const int code = connection_.execute(sql);
    return code == SQLITE_OK ? Status() : Status(error(code));
  }
  Status hold_for(Hold hold) {
    if (hold == hold_) return {};
    hold_ = hold;
    return execute(hold == Hold::kPowerCut ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL");
  }
  template <typename... Values>
  Status prepare(std::string_view sql, Statement& statement, const Values&... values) {
    int code = connection_.prepare(sql, statement);
    int index = 0;
    ((code = code == SQLITE_OK ? give(statement, ++index, values) : code), ...);
    return code == SQLITE_OK ? Status() : Status(error(code));
  }
  Result<int64_t> number(const char* sql) {
    Statement statement;
    MEMBRANE_TRY(prepare(sql, statement));
    const int code = statement.step();
    if (code != SQLITE_ROW) return error(code);
    return statement.int_at(0);
  }
  Status check();
  Status make_schema();

  const sqlite::Api& api_;
  const std::string path_;
  std::mutex mutex_;  // guards what follows
  sqlite::Connection connection_;
  Hold hold_ = Hold::kPowerCut;
};

std::unexpected<Error> State::Database::error(int code) const {
  const std::string why = path_ + ": " + connection_.message();
  switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return fail(ErrorCode::kInvalidArgument, "another service uses " + path_,
                  "End it, or give this one another --state DIRECTORY.");
    case SQLITE_FULL:
      return fail(ErrorCode::kExhausted, "no room to write " + why,
                  "Free space on the disk that holds the service's state.");
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return fail(ErrorCode::kInvalidInput, "the service's database is damaged: " + why,
                  "Bring state.db back from a backup, with the images of then; or move it away to begin "
                  "without what it held.");
    case SQLITE_CONSTRAINT: return fail(ErrorCode::kDenied, "the change does not fit what is there: " + why);
    default:
      return fail(ErrorCode::kUnavailable, "the service's database does not work: " + why,
                  "Look at the directory of the service's state: its owner, its rights and its disk.");
  }
}

Status State::Database::open(const char* vfs) {
  if (vfs == nullptr) make_private(path_);
  const int opened =
      connection_.open(path_, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, vfs);
  if (opened != SQLITE_OK) return error(opened);
  // Exclusive: one service at a time; the index of the log then needs no shared memory.
  MEMBRANE_TRY(execute("PRAGMA locking_mode = EXCLUSIVE"));
  MEMBRANE_TRY(execute("PRAGMA journal_mode = WAL"));
  MEMBRANE_TRY(execute("PRAGMA synchronous = FULL"));
  MEMBRANE_TRY(execute("PRAGMA foreign_keys = ON"));
  MEMBRANE_TRY(execute("BEGIN EXCLUSIVE"));
  Status checked = check();
  if (checked) checked = execute("COMMIT");
  if (!checked) static_cast<void>(execute("ROLLBACK"));
  return checked;
}

Status State::Database::check() {
  MEMBRANE_ASSIGN(const int64_t application, number("PRAGMA application_id"));
  MEMBRANE_ASSIGN(const int64_t version, number("PRAGMA user_version"));
  MEMBRANE_ASSIGN(const int64_t tables, number("SELECT count(*) FROM sqlite_schema"));
  if (application == 0 && version == 0 && tables == 0) return make_schema();
  if (application != kApplication)
    return fail(ErrorCode::kInvalidInput, path_ + " is no database of the service",
                "Give another --state DIRECTORY.");
  if (version > kSchemaVersion)
    return fail(ErrorCode::kUnsupported, path_ + " was written by a later version of Membrane",
                "Use that version, or another --state DIRECTORY.");
  Statement statement;
  MEMBRANE_TRY(prepare("PRAGMA quick_check(1)", statement));
  const int code = statement.step();
  if (code != SQLITE_ROW) return error(code);
  if (statement.bytes_at(0) != "ok") return error(SQLITE_CORRUPT);
  if (version == kSchemaVersion) return {};
  statement = {};
  MEMBRANE_TRY(execute(kReceiptsSchema));
  return execute(("PRAGMA user_version = " + std::to_string(kSchemaVersion)).c_str());
}

Status State::Database::make_schema() {
  MEMBRANE_TRY(execute(kSchema));
  MEMBRANE_TRY(execute(kReceiptsSchema));
  MEMBRANE_TRY(execute(("PRAGMA application_id = " + std::to_string(kApplication)).c_str()));
  return execute(("PRAGMA user_version = " + std::to_string(kSchemaVersion)).c_str());
}

State::State(std::unique_ptr<Database> database) : database_(std::move(database)) {}
State::~State() = default;

Result<std::unique_ptr<State>> State::open(const std::string& directory, const char* vfs) {
  MEMBRANE_ASSIGN(const sqlite::Api* const api, sqlite::api());
  auto database = std::make_unique<Database>(*api, directory + "/state.db");
  MEMBRANE_TRY(database->open(vfs));
  return std::unique_ptr<State>(new State(std::move(database)));
}

// -- sandboxes ----------------------------------------------------------------------------------------------------

Status State::put(const SandboxRow& row, Hold hold) {
  return database_->change(hold, "INSERT OR REPLACE INTO sandboxes VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
                           row.id, row.tenant, row.template_name, row.policy_json, text_of(row.metadata),
                           text_of(row.labels), text_of(row.environment), row.created_at_ms,
                           row.last_used_at_ms, row.expires_at_ms, row.idle_timeout_s, row.state, row.reason,
                           row.kept, text_of(row.images));
}

Status State::update(const SandboxRow& row, Hold hold) {
  return database_->change(
      hold,
      "UPDATE sandboxes SET metadata = ?2, labels = ?3, environment = ?4, last_used_at_ms = ?5, "
      "expires_at_ms = ?6, idle_timeout_s = ?7, state = ?8, reason = ?9, kept = ?10, images = ?11, policy = "
      "?12 WHERE id = ?1",
      row.id, text_of(row.metadata), text_of(row.labels), text_of(row.environment), row.last_used_at_ms,
      row.expires_at_ms, row.idle_timeout_s, row.state, row.reason, row.kept, text_of(row.images),
      row.policy_json);
}

Status State::update_facts(const SandboxRow& row, Hold hold) {
  return database_->change(hold,
                           "UPDATE sandboxes SET metadata = ?2, labels = ?3, last_used_at_ms = ?4, "
                           "expires_at_ms = ?5, idle_timeout_s = ?6 WHERE id = ?1",
                           row.id, text_of(row.metadata), text_of(row.labels), row.last_used_at_ms,
                           row.expires_at_ms, row.idle_timeout_s);
}

Status State::settle_sandbox(const std::string& id, const std::string& state, const std::string& reason,
                             Hold hold) {
  return database_->change(
      hold, "UPDATE sandboxes SET state = ?2, reason = ?3, kept = '', images = '[]' WHERE id = ?1", id, state,
      reason);
}

Status State::remove_sandbox(const std::string& id, Hold hold) {
  return database_->change(hold, "DELETE FROM sandboxes WHERE id = ?", id);
}

Result<std::vector<SandboxRow>> State::sandboxes() {
  return database_->select<SandboxRow>(
      [](const Columns& at) {
        SandboxRow row{.id = text_at(at.row, 0),
                       .tenant = text_at(at.row, 1),
                       .template_name = text_at(at.row, 2),
                       .policy_json = text_at(at.row, 3),
                       .metadata = at.pairs<std::string>(4),
                       .labels = at.words(5),
                       .environment = at.pairs<std::string>(6),
                       .created_at_ms = at.row.int_at(7),
                       .last_used_at_ms = at.row.int_at(8),
                       .expires_at_ms = at.row.int_at(9),
                       .state = text_at(at.row, 11),
                       .reason = text_at(at.row, 12),
                       .kept = text_at(at.row, 13),
                       .images = at.words(14)};
        if (const auto idle = at.number(10)) row.idle_timeout_s = static_cast<uint64_t>(*idle);
        return row;
      },
      "SELECT * FROM sandboxes ORDER BY created_at_ms, id");
}

Status State::settle_sandboxes(int64_t now_ms, const std::string& reason) {
  return database_->transaction(Hold::kPowerCut, [&] {
    if (const Status done = database_->step("DELETE FROM sandboxes WHERE expires_at_ms <= ?1 OR (state = "
                                            "'parked' AND idle_timeout_s IS NOT NULL "
                                            "AND last_used_at_ms + idle_timeout_s * 1000 <= ?1)",
                                            now_ms);
        !done)
      return done;
    return database_->step("UPDATE sandboxes SET state = 'lost', reason = ? WHERE state = 'live'", reason);
  });
}

// -- snapshots and templates --------------------------------------------------------------------------------------

Status State::put(const SnapshotRow& row) {
  return database_->change(
      Hold::kPowerCut,
      "INSERT INTO snapshots VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9) ON CONFLICT (id) DO UPDATE "
      "SET metadata = ?6, kept = ?8, images = ?9",
      row.id, row.tenant, row.template_name, row.sandbox, row.policy_json, text_of(row.metadata),
      row.created_at_ms, row.kept, text_of(row.images));
}
Status State::remove_snapshot(const std::string& id) {
  return database_->change(Hold::kPowerCut, "DELETE FROM snapshots WHERE id = ?", id);
}
Result<std::vector<SnapshotRow>> State::snapshots() {
  return database_->select<SnapshotRow>(
      [](const Columns& at) {
        return SnapshotRow{.id = text_at(at.row, 0),
                           .tenant = text_at(at.row, 1),
                           .template_name = text_at(at.row, 2),
                           .sandbox = text_at(at.row, 3),
                           .policy_json = text_at(at.row, 4),
                           .metadata = at.pairs<std::string>(5),
                           .created_at_ms = at.row.int_at(6),
                           .kept = text_at(at.row, 7),
                           .images = at.words(8)};
      },
      "SELECT * FROM snapshots ORDER BY created_at_ms, id");
}

Status State::put(const TemplateRow& row) {
  Status done = database_->change(Hold::kPowerCut, "INSERT OR REPLACE INTO templates VALUES (?,?,?,?)",
                                  row.tenant, row.name, row.snapshot, row.created_at_ms);
  if (!done && done.error().code == ErrorCode::kDenied)
    return fail(ErrorCode::kNotFound, "there is no snapshot " + row.snapshot);
  return done;
}
Status State::remove_template(const std::string& tenant, const std::string& name) {
  return database_->change(Hold::kPowerCut, "DELETE FROM templates WHERE tenant = ? AND name = ?", tenant,
                           name);
}
Result<std::vector<TemplateRow>> State::templates() {
  return database_->select<TemplateRow>(
      [](const Columns& at) {
        return TemplateRow{text_at(at.row, 0), text_at(at.row, 1), text_at(at.row, 2), at.row.int_at(3)};
      },
      "SELECT * FROM templates ORDER BY tenant, name");
}

// -- receipts -----------------------------------------------------------------------------------------------------

Status State::put(const ReceiptRow& row) {
  return database_->change(Hold::kPowerCut, "INSERT INTO receipts VALUES (?,?,?,?,?,?,?,?,?,?,?)",
                           row.sandbox, row.exec, row.tenant, row.digest, row.image, row.private_image,
                           static_cast<int64_t>(row.size_bytes), static_cast<int64_t>(row.private_size_bytes),
                           row.context, static_cast<int64_t>(row.turn), row.made_at_ms);
}
Status State::remove_receipts(const std::string& sandbox) {
  return database_->change(Hold::kCrash, "DELETE FROM receipts WHERE sandbox = ?", sandbox);
}
Status State::settle_receipts() {
  return database_->change(Hold::kPowerCut,
                           "DELETE FROM receipts WHERE sandbox NOT IN (SELECT id FROM sandboxes)");
}
Result<std::vector<ReceiptRow>> State::receipts() {
  return database_->select<ReceiptRow>(
      [](const Columns& at) {
        return ReceiptRow{.sandbox = text_at(at.row, 0),
                          .exec = text_at(at.row, 1),
                          .tenant = text_at(at.row, 2),
                          .digest = text_at(at.row, 3),
                          .image = text_at(at.row, 4),
                          .private_image = text_at(at.row, 5),
                          .size_bytes = number_at(at.row, 6),
                          .private_size_bytes = number_at(at.row, 7),
                          .context = text_at(at.row, 8),
                          .turn = number_at(at.row, 9),
                          .made_at_ms = at.row.int_at(10)};
      },
      "SELECT * FROM receipts ORDER BY rowid");
}

// -- tokens and secrets -------------------------------------------------------------------------------------------

Status State::put(const TokenRow& row) {
  return database_->change(Hold::kPowerCut, "INSERT OR REPLACE INTO tokens VALUES (?,?,?,?,?,?,?,?)",
                           row.hash, row.id, row.tenant, row.name, text_of(row.scopes), text_of(row.quotas),
                           row.created_at_ms, row.expires_at_ms);
}
Status State::remove_token(const std::string& id) {
  return database_->change(Hold::kPowerCut, "DELETE FROM tokens WHERE id = ?", id);
}
Result<std::vector<TokenRow>> State::tokens() {
  return database_->select<TokenRow>(
      [](const Columns& at) {
        return TokenRow{.hash = text_at(at.row, 0),
                        .id = text_at(at.row, 1),
                        .tenant = text_at(at.row, 2),
                        .name = text_at(at.row, 3),
                        .scopes = at.words(4),
                        .quotas = at.pairs<uint64_t>(5),
                        .created_at_ms = at.row.int_at(6),
                        .expires_at_ms = at.number(7)};
      },
      "SELECT * FROM tokens ORDER BY created_at_ms, id");
}

Status State::put(const SecretRow& row) {
  return database_->change(Hold::kPowerCut, "INSERT OR REPLACE INTO secrets VALUES (?,?,?,?,?)", row.tenant,
                           row.name, Blob{row.ciphertext}, text_of(row.hosts), row.updated_at_ms);
}
Status State::remove_secret(const std::string& tenant, const std::string& name) {
  return database_->change(Hold::kPowerCut, "DELETE FROM secrets WHERE tenant = ? AND name = ?", tenant,
                           name);
}
Result<std::vector<SecretRow>> State::secrets() {
  return database_->select<SecretRow>(
      [](const Columns& at) {
        return SecretRow{text_at(at.row, 0), text_at(at.row, 1), text_at(at.row, 2), at.words(3),
                         at.row.int_at(4)};
      },
      "SELECT * FROM secrets ORDER BY tenant, name");
}

// -- usage --------------------------------------------------------------------------------------------------------

Status State::add(const std::vector<UsageRow>& used) {
  // No sum passes the largest number that SQLite adds without turning it into a fraction.
  constexpr const char* kAdd =
      "INSERT INTO usage VALUES (?1,?2,?3,?4,?5) ON CONFLICT (tenant, day) DO UPDATE SET "
      "fuel = CASE WHEN fuel > 9223372036854775807 - ?3 THEN 9223372036854775807 ELSE fuel + ?3 END, "
      "egress_bytes = CASE WHEN egress_bytes > 9223372036854775807 - ?4 THEN 9223372036854775807 "
      "ELSE egress_bytes + ?4 END, execs = execs + ?5";
  return database_->transaction(Hold::kCrash, [&]() -> Status {
    for (const UsageRow& row : used)
      MEMBRANE_TRY(database_->step(kAdd, row.tenant, row.day, capped(row.fuel), capped(row.egress_bytes),
                                   capped(row.execs)));
    return {};
  });
}
Result<std::vector<UsageRow>> State::usage(int64_t from_day) {
  return database_->select<UsageRow>(
      [](const Columns& at) {
        return UsageRow{text_at(at.row, 0), at.row.int_at(1), number_at(at.row, 2), number_at(at.row, 3),
                        number_at(at.row, 4)};
      },
      "SELECT * FROM usage WHERE day >= ? ORDER BY day, tenant", from_day);
}

// -- answers --------------------------------------------------------------------------------------------------------

Status State::put(const AnswerRow& row, Hold hold) {
  return database_->change(hold, "INSERT OR REPLACE INTO answers VALUES (?,?,?,?,?,?)", row.tenant, row.key,
                           row.request_hash, row.created_at_ms, static_cast<int64_t>(row.size_bytes),
                           Blob{row.answer});
}
Status State::remove_answer(const std::string& tenant, const std::string& key) {
  return database_->change(Hold::kCrash, "DELETE FROM answers WHERE tenant = ? AND key = ?", tenant, key);
}

namespace {
AnswerRow read_answer(const Columns& at) {
  return {.tenant = text_at(at.row, 0),
          .key = text_at(at.row, 1),
          .request_hash = text_at(at.row, 2),
          .created_at_ms = at.row.int_at(3),
          .size_bytes = number_at(at.row, 4),
          .answer = text_at(at.row, 5)};
}
}  // namespace

Result<std::vector<AnswerRow>> State::answers() {
  return database_->select<AnswerRow>(
      read_answer,
      "SELECT tenant, key, request_hash, created_at_ms, size_bytes, '' FROM answers ORDER BY created_at_ms, "
      "tenant, key");
}
Result<AnswerRow> State::answer(const std::string& tenant, const std::string& key) {
  MEMBRANE_ASSIGN(auto rows,
                  database_->select<AnswerRow>(
                      read_answer, "SELECT * FROM answers WHERE tenant = ? AND key = ?", tenant, key));
  if (rows.empty()) return fail(ErrorCode::kNotFound, "there is no answer of this key");
  return std::move(rows.front());
}

}  // namespace membrane::service
