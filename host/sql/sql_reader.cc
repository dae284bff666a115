#include "host/sql/sql_reader.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "base/base64.h"
#include "base/diagnostic.h"
#include "base/search.h"
#include "base/sqlite.h"
#include "base/text.h"
#include "base/utf8.h"
#include "host/capabilities/read_json.h"
#include "host/limits/watchdog.h"
#include "host/sql/read_only_file.h"
#include "host/sql/run_clock.h"
#include "host/sql/sql_meter.h"
#include "host/sql/sqlite_wait.h"

namespace membrane::host {
namespace {

using nlohmann::json;

constexpr int kProgressOps = 100;       // virtual machine steps between checks of the clock
constexpr int kMaxFunctionCalls = 200;  // as written
// The number of a statement's steps between two checks of the clock is at most the number that it was compiled to,
// and the slowest steps read a value once, at one or two nanoseconds per byte: so the product of steps and the
// longest value is bounded.
constexpr int64_t kMaxStepBytes = 512ll << 20;
constexpr int64_t kMaxValueBytes = 16ll << 20;
constexpr int64_t kMinValueBytes = 1ll << 10;
constexpr size_t kMaxLikeSteps = 64 << 20;  // bytes of a text times bytes of its pattern
constexpr uint64_t kReplaceFactor = 4;      // replacing a byte costs as much as examining this many
constexpr size_t kPatternBytes = 3;         // of a pattern, which cost as much as examining the text
constexpr int64_t kMaxPrepareMemoryBytes = 16ll << 20;
constexpr int kMaxSqlBytes = 64 << 10;
constexpr int kMaxParameters = 500;
constexpr uint64_t kBusyTimeoutMs = 1'000;

// Functions that compute only from their arguments (the dates: also from the run's clock). Excluded are functions
// that read files or load code, random ones, ones that reveal the library, and json_patch, whose time is quadratic
// in the number of members.
constexpr auto kFunctions = std::to_array<std::string_view>({
    "->",
    "->>",
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "avg",
    "ceil",
    "ceiling",
    "char",
    "coalesce",
    "cos",
    "cosh",
    "count",
    "cume_dist",
    "current_date",
    "current_time",
    "current_timestamp",
    "date",
    "datetime",
    "degrees",
    "dense_rank",
    "exp",
    "first_value",
    "floor",
    "format",
    "glob",
    "group_concat",
    "hex",
    "ifnull",
    "iif",
    "instr",
    "json",
    "json_array",
    "json_array_length",
    "json_extract",
    "json_group_array",
    "json_group_object",
    "json_insert",
    "json_object",
    "json_quote",
    "json_remove",
    "json_replace",
    "json_set",
    "json_type",
    "json_valid",
    "julianday",
    "lag",
    "last_value",
    "lead",
    "length",
    "like",
    "likely",
    "ln",
    "log",
    "log10",
    "log2",
    "lower",
    "ltrim",
    "max",
    "min",
    "mod",
    "nth_value",
    "ntile",
    "nullif",
    "percent_rank",
    "pi",
    "pow",
    "power",
    "printf",
    "quote",
    "radians",
    "rank",
    "replace",
    "round",
    "row_number",
    "rtrim",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "strftime",
    "substr",
    "substring",
    "sum",
    "tan",
    "tanh",
    "time",
    "total",
    "trim",
    "trunc",
    "typeof",
    "unicode",
    "unixepoch",
    "unlikely",
    "upper",
    "zeroblob",
});
static_assert(std::ranges::is_sorted(kFunctions));

// Tables that give access to internals: raw pages, settings or the library itself.
bool is_internal_table(std::string_view name) {
  if (name == "sqlite_schema" || name == "sqlite_master") return false;
  return name.starts_with("sqlite_") || name.starts_with("pragma_") || name == "dbstat" ||
         name == "bytecode" || name == "tables_used" || name == "fsdir" || name == "completion";
}

std::string_view statement_name(int action) {
  switch (action) {
    case SQLITE_ATTACH: return "ATTACH";
    case SQLITE_DETACH: return "DETACH";
    case SQLITE_PRAGMA: return "PRAGMA";
    case SQLITE_INSERT: return "INSERT";
    case SQLITE_UPDATE: return "UPDATE";
    case SQLITE_DELETE: return "DELETE";
    case SQLITE_TRANSACTION: return "a transaction";
    case SQLITE_SAVEPOINT: return "SAVEPOINT";
    case SQLITE_ANALYZE: return "ANALYZE";
    case SQLITE_REINDEX: return "REINDEX";
    default: return "a statement that changes the schema";
  }
}

// SQLite's own instr and replace take time n × m, which no progress handler can interrupt: these take n + m. Text
// and blobs are both searched as bytes; in UTF-8, a character is never found in the middle of another.
std::string_view bytes_of(const sqlite::Api& api, sqlite3_value* value) {
  const void* data = api.value_blob(value);
  return {static_cast<const char*>(data), data ? static_cast<size_t>(api.value_bytes(value)) : 0};
}

// Each use of a view or of a WITH table copies its SELECT, so that thirty tables that use one another twice make a
// billion copies, before the first step and without a check of the clock. SQLite's only limit on that is the one on
// its memory. If Membrane cannot count that itself, it uses the limit of the whole process, which applies while one
// statement is prepared.
class PrepareMemoryLimit {
 public:
  explicit PrepareMemoryLimit(const sqlite::Api& api) : api_(api), lock_(mutex()) {
    soft_ = api_.soft_heap_limit64(-1);
    hard_ = api_.hard_heap_limit64(-1);
    const int64_t mine = api_.memory_used() + kMaxPrepareMemoryBytes;
    api_.hard_heap_limit64(hard_ > 0 ? std::min(hard_, mine) : mine);
  }
  ~PrepareMemoryLimit() {
    api_.hard_heap_limit64(hard_);
    api_.soft_heap_limit64(soft_);  // setting the hard limit has lowered it
  }
  PrepareMemoryLimit(const PrepareMemoryLimit&) = delete;
  PrepareMemoryLimit& operator=(const PrepareMemoryLimit&) = delete;

 private:
  static std::mutex& mutex() {
    static std::mutex one;
    return one;
  }
  const sqlite::Api& api_;
  std::lock_guard<std::mutex> lock_;
  int64_t soft_ = 0, hard_ = 0;
};

std::string json_text(std::string_view text) {
  return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace

class SqlReader::Impl {
 public:
  Impl(const policy::SqlGrant& grant, const sqlite::Api& api, std::function<int64_t()> now_ms)
      : grant_(grant), api_(api), now_ms_(std::move(now_ms)), file_(grant.path) {}

  HostResult<void> open();
  HostResult<std::string> query(std::string_view sql, std::string_view parameters_json, const Deadline& run,
                                Work& work, uint64_t memory_bytes);

 private:
  static int authorize(void* self, int action, const char* first, const char* second, const char*,
                       const char*);
  static int on_progress(void* self);
  static int on_busy(void* self, int tries);
  static bool stop_if_over(const sqlite::Api& api, sqlite3_context* context, uint64_t bytes);
  static void instr(sqlite3_context* context, int count, sqlite3_value** values);
  static void replace(sqlite3_context* context, int count, sqlite3_value** values);
  static void like(sqlite3_context* context, int count, sqlite3_value** values);
  static void glob(sqlite3_context* context, int count, sqlite3_value** values);
  template <typename Matches>
  static void match(sqlite3_context* context, sqlite3_value** values, Matches matches);
  static void refuse_trim_set(sqlite3_context* context, int count, sqlite3_value** values);

  int decide(int action, std::string_view first, std::string_view second);
  void set_limits();
  void limit_values(int64_t operations);
  int replace_functions();
  int configure();
  HostResult<void> reopen_if_changed();
  HostResult<std::string> run_query(std::string_view sql, std::string_view parameters_json);
  HostResult<int64_t> count_operations(std::string_view sql);
  HostResult<sqlite::Statement> prepare(std::string_view sql);
  HostResult<void> bind(sqlite::Statement& statement, std::string_view parameters_json);
  HostResult<std::string> collect(sqlite::Statement& statement);
  HostResult<void> append_row(std::string& rows, const sqlite::Statement& statement,
                              const std::vector<std::string>& keys);
  [[nodiscard]] std::string value_at(sqlite3_stmt* statement, int column) const;
  [[nodiscard]] std::vector<std::string> keys_of(sqlite3_stmt* statement) const;
  std::vector<std::string> names(const char* sql);
  std::string suggestion(std::string_view message);
  std::unexpected<HostError> failure(int code);

  [[nodiscard]] bool is_over() const {
    return account_->expired.load(std::memory_order_relaxed) || deadline_->passed();
  }

  policy::SqlGrant grant_;
  const sqlite::Api& api_;
  std::function<int64_t()> now_ms_;
  ReadOnlyFile file_;
  std::unique_ptr<sqlite::Connection> db_;
  sqlite::Account* account_ = nullptr;  // for the current query
  const Deadline* deadline_ = nullptr;  // for the current query
  SqlMeter* meter_ = nullptr;           // for the current query; null while nothing is paid for: opening
  int calls_ = 0;                       // number of function calls in the statement being prepared
  bool trusted_ = false;                // while Membrane's own statements run
  bool calls_strftime_ = false;         // in the current statement
  std::string refusal_;                 // why the authorizer or the progress handler refused
  Errno refusal_code_ = Errno::kAccess;
  int64_t memory_before_ = 0, most_memory_bytes_ = 0;
};

// --- opening ---------------------------------------------------------------------------

HostResult<void> SqlReader::Impl::open() {
  const char* const vfs = RunClock::vfs(api_);
  if (vfs == nullptr) return refuse(Errno::kHost, "SQLite cannot be given the run's clock");
  auto db = file_.open(api_, vfs);
  if (!db)
    return refuse(db.error().code, "the database '" + grant_.name + "': " + db.error().reason,
                  db.error().grant);
  db_ = std::move(*db);
  trusted_ = true;
  const int code = configure();
  trusted_ = false;
  if (code == SQLITE_OK) return {};
  auto failed = failure(code);
  db_.reset();
  return failed;
}

int SqlReader::Impl::configure() {
  api_.busy_handler(db_->handle(), &on_busy, this);
  api_.progress_handler(db_->handle(), kProgressOps, &on_progress, this);
  // Every allocation must be counted, including the small ones that SQLite takes from a pool of its own.
  api_.db_config(db_->handle(), SQLITE_DBCONFIG_LOOKASIDE, nullptr, 0, 0);
  // Big sorts use memory, where they are bounded, and not files.
  int code = db_->execute("PRAGMA temp_store = MEMORY; PRAGMA query_only = ON; PRAGMA cell_size_check = ON");
  if (code == SQLITE_OK) code = replace_functions();
  if (code == SQLITE_OK) code = db_->execute("SELECT count(*) FROM sqlite_schema");
  if (code != SQLITE_OK) return code;
  static_cast<void>(
      db_->execute("error"));  // what SQLite allocates for errors must not be charged to the first query
  set_limits();
  api_.set_authorizer(db_->handle(), &authorize, this);
  return SQLITE_OK;
}

// Reopens the file if the connection may no longer reflect it.
HostResult<void> SqlReader::Impl::reopen_if_changed() {
  if (db_ && !file_.has_changed()) return {};
  db_.reset();
  return open();
}

void SqlReader::Impl::set_limits() {
  const std::pair<int, int> limits[] = {
      {SQLITE_LIMIT_SQL_LENGTH, kMaxSqlBytes + 16},  // "EXPLAIN " precedes it once
      {SQLITE_LIMIT_COLUMN, 500},
      {SQLITE_LIMIT_EXPR_DEPTH, 100},
      {SQLITE_LIMIT_COMPOUND_SELECT, 50},
      {SQLITE_LIMIT_VDBE_OP, 100'000},
      {SQLITE_LIMIT_FUNCTION_ARG, 100},
      {SQLITE_LIMIT_ATTACHED, 0},
      {SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 500},
      {SQLITE_LIMIT_VARIABLE_NUMBER, kMaxParameters},
      {SQLITE_LIMIT_TRIGGER_DEPTH, 0},
      {SQLITE_LIMIT_WORKER_THREADS, 0},
  };
  for (const auto& [what, value] : limits) api_.limit(db_->handle(), what, value);
}

// Of texts and blobs, and of a stored row.
void SqlReader::Impl::limit_values(int64_t operations) {
  const auto granted = static_cast<int64_t>(std::min<uint64_t>(grant_.max_result_bytes, kMaxValueBytes));
  const int64_t most = std::min(granted, kMaxStepBytes / std::max<int64_t>(operations, 1));
  api_.limit(db_->handle(), SQLITE_LIMIT_LENGTH, static_cast<int>(std::max(most, kMinValueBytes)));
}

int SqlReader::Impl::replace_functions() {
  constexpr int kFlags = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS;
  const auto add = [&](const char* name, int count,
                       void (*function)(sqlite3_context*, int, sqlite3_value**)) {
    return api_.create_function_v2(db_->handle(), name, count, kFlags, this, function, nullptr, nullptr,
                                   nullptr);
  };
  int code = add("instr", 2, &instr);
  if (code == SQLITE_OK) code = add("replace", 3, &replace);
  if (code == SQLITE_OK) code = add("like", 2, &like);
  if (code == SQLITE_OK) code = add("like", 3, &like);
  if (code == SQLITE_OK) code = add("glob", 2, &glob);
  for (const char* name : {"trim", "ltrim", "rtrim"}) {
    if (code == SQLITE_OK) code = add(name, 2, &refuse_trim_set);
  }
  return code;
}

// Membrane's own functions check the time before they start, and pay for the bytes that they examine.
bool SqlReader::Impl::stop_if_over(const sqlite::Api& api, sqlite3_context* context, uint64_t bytes) {
  const Impl& reader = *static_cast<const Impl*>(api.user_data(context));
  if (!reader.is_over() && (reader.meter_ == nullptr || reader.meter_->note_bytes(bytes))) return false;
  api.result_error_nomem(context);
  return true;
}

void SqlReader::Impl::instr(sqlite3_context* context, int, sqlite3_value** values) {
  const sqlite::Api& api = **sqlite::api();
  if (api.value_type(values[0]) == SQLITE_NULL || api.value_type(values[1]) == SQLITE_NULL)
    return api.result_null(context);
  if (stop_if_over(api, context, bytes_of(api, values[0]).size() + bytes_of(api, values[1]).size())) return;
  const bool blobs = api.value_type(values[0]) == SQLITE_BLOB && api.value_type(values[1]) == SQLITE_BLOB;
  const std::string_view text = bytes_of(api, values[0]);
  const size_t at = find_bytes(text, bytes_of(api, values[1]));
  if (at == std::string_view::npos) return api.result_int64(context, 0);
  // Texts are counted in characters: all bytes except continuation bytes.
  const auto before = text.substr(0, at);
  api.result_int64(context,
                   1 + (blobs ? static_cast<int64_t>(at) : std::ranges::count_if(before, begins_character)));
}

void SqlReader::Impl::replace(sqlite3_context* context, int, sqlite3_value** values) {
  const sqlite::Api& api = **sqlite::api();
  for (int i = 0; i < 3; ++i) {
    if (api.value_type(values[i]) == SQLITE_NULL) return api.result_null(context);
  }
  std::string_view text = bytes_of(api, values[0]);
  if (stop_if_over(api, context, kReplaceFactor * text.size())) return;
  const std::string_view from = bytes_of(api, values[1]);
  const std::string_view to = bytes_of(api, values[2]);
  const Impl& self = *static_cast<const Impl*>(api.user_data(context));
  const auto most = static_cast<size_t>(api.limit(self.db_->handle(), SQLITE_LIMIT_LENGTH, -1));
  std::string result;
  while (!from.empty()) {
    const size_t at = find_bytes(text, from);
    if (at == std::string_view::npos) break;
    if (result.size() + at + to.size() > most) return api.result_error_toobig(context);
    result.append(text.substr(0, at)).append(to);
    text.remove_prefix(at + from.size());
  }
  result.append(text);
  api.result_text64(context, result.data(), result.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
}

// SQLite's own matching, but only if it ends soon: its time is text × pattern.
void SqlReader::Impl::like(sqlite3_context* context, int count, sqlite3_value** values) {
  const sqlite::Api& api = **sqlite::api();
  unsigned escape = 0;
  if (count == 3) {
    if (api.value_type(values[2]) == SQLITE_NULL) return api.result_null(context);
    const std::string_view text = bytes_of(api, values[2]);
    if (text.size() != 1 || static_cast<unsigned char>(text[0]) >= 0x80)
      return api.result_error(context, "ESCAPE expression must be a single ASCII character here", -1);
    escape = static_cast<unsigned char>(text[0]);
  }
  match(context, values,
        [&](const char* pattern, const char* text) { return api.strlike(pattern, text, escape) == 0; });
}

void SqlReader::Impl::glob(sqlite3_context* context, int, sqlite3_value** values) {
  const sqlite::Api& api = **sqlite::api();
  match(context, values,
        [&](const char* pattern, const char* text) { return api.strglob(pattern, text) == 0; });
}

// "text LIKE pattern" calls like(pattern, text).
template <typename Matches>
void SqlReader::Impl::match(sqlite3_context* context, sqlite3_value** values, Matches matches) {
  const sqlite::Api& api = **sqlite::api();
  if (api.value_type(values[0]) == SQLITE_NULL || api.value_type(values[1]) == SQLITE_NULL)
    return api.result_null(context);
  const Impl& self = *static_cast<const Impl*>(api.user_data(context));
  const auto most = api.limit(self.db_->handle(), SQLITE_LIMIT_LIKE_PATTERN_LENGTH, -1);
  const auto* pattern = reinterpret_cast<const char*>(api.value_text(values[0]));
  const auto* text = reinterpret_cast<const char*>(api.value_text(values[1]));
  if (pattern == nullptr || text == nullptr) return api.result_error_nomem(context);
  const int pattern_bytes = api.value_bytes(values[0]);
  if (pattern_bytes > most) return api.result_error(context, "LIKE or GLOB pattern too complex", -1);
  const auto text_bytes = static_cast<size_t>(api.value_bytes(values[1]));
  if (pattern_bytes > 0 && text_bytes > kMaxLikeSteps / static_cast<size_t>(pattern_bytes))
    return api.result_error(context, "the text is too long for a LIKE or GLOB pattern as long as this", -1);
  if (stop_if_over(api, context, text_bytes * (1 + static_cast<size_t>(pattern_bytes) / kPatternBytes)))
    return;
  api.result_int64(context, matches(pattern, text) ? 1 : 0);
}

void SqlReader::Impl::refuse_trim_set(sqlite3_context* context, int, sqlite3_value**) {
  (*sqlite::api())->result_error(context, "trim, ltrim and rtrim take one argument here", -1);
}

// --- what a statement may do -----------------------------------------------------------

int SqlReader::Impl::authorize(void* self, int action, const char* first, const char* second, const char*,
                               const char*) {
  return static_cast<Impl*>(self)->decide(action, first ? first : "", second ? second : "");
}

int SqlReader::Impl::decide(int action, std::string_view first, std::string_view second) {
  if (trusted_) return SQLITE_OK;
  switch (action) {
    case SQLITE_SELECT:
    case SQLITE_RECURSIVE: return SQLITE_OK;
    case SQLITE_READ:
      if (!is_internal_table(first)) return SQLITE_OK;
      refusal_ = "the table " + std::string(first) + " cannot be read here";
      return SQLITE_DENY;
    case SQLITE_FUNCTION: {
      if (++calls_ > kMaxFunctionCalls) {
        refusal_ = "the statement calls more than " + std::to_string(kMaxFunctionCalls) + " functions";
        refusal_code_ = Errno::kTooBig;
        return SQLITE_DENY;
      }
      std::string name(second);
      std::ranges::transform(name, name.begin(),
                             [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
      calls_strftime_ = calls_strftime_ || name == "strftime";
      if (std::ranges::binary_search(kFunctions, std::string_view(name))) return SQLITE_OK;
      refusal_ = "the function " + name + "() cannot be called here";
      return SQLITE_DENY;
    }
    default:
      refusal_ = "only SELECT is allowed; this needs " + std::string(statement_name(action));
      return SQLITE_DENY;
  }
}

int SqlReader::Impl::on_progress(void* self) {
  const Impl& reader = *static_cast<const Impl*>(self);
  if (reader.is_over()) return 1;
  if (reader.meter_ != nullptr && !reader.meter_->note_running(reader.db_->handle(), kProgressOps)) return 1;
  if (!sqlite::Accounting::works() &&
      reader.api_.memory_used() - reader.memory_before_ > reader.most_memory_bytes_) {
    reader.account_->refused = true;
    return 1;
  }
  return 0;
}

int SqlReader::Impl::on_busy(void* self, int tries) {
  return wait_for_lock(tries, kBusyTimeoutMs, *static_cast<const Impl*>(self)->deadline_) ? 1 : 0;
}

// --- running one -----------------------------------------------------------------------

HostResult<std::string> SqlReader::Impl::query(std::string_view sql, std::string_view parameters_json,
                                               const Deadline& run, Work& work, uint64_t memory_bytes) {
  const Deadline deadline = run.within(grant_.timeout_ms);
  most_memory_bytes_ = static_cast<int64_t>(std::min(memory_bytes, kMaxQueryMemoryBytes));
  sqlite::Account account;
  account.limit_bytes = most_memory_bytes_;
  account_ = &account;
  deadline_ = &deadline;
  memory_before_ = api_.memory_used();
  refusal_.clear();
  refusal_code_ = Errno::kAccess;
  // A short query can end before the watchdog has started to watch it.
  if (is_over()) return refuse(Errno::kTimedOut, "the run's time is over");
  const sqlite::Accounting accounting(account);
  const RunClock clock(now_ms_);
  if (auto opened = reopen_if_changed(); !opened) return std::unexpected(std::move(opened).error());
  const Watchdog::Watch watch(deadline, [&] {
    account.expired.store(true, std::memory_order_relaxed);
    api_.interrupt(db_->handle());
  });
  account.allocations = account.allocated_bytes = 0;
  SqlMeter meter(api_, work, account);
  meter.forget_pages(db_->handle());
  meter_ = &meter;
  auto rows = run_query(sql, parameters_json);
  meter.note(db_->handle(), 0);
  meter_ = nullptr;
  if (meter.is_too_much()) return refuse(Errno::kBudget, "there is no fuel left for the query");
  return rows;
}

HostResult<std::string> SqlReader::Impl::run_query(std::string_view sql, std::string_view parameters_json) {
  limit_values(1);
  calls_strftime_ = false;
  if (sql.size() > kMaxSqlBytes) return refuse(Errno::kTooBig, "the statement is longer than 64 KiB");
  if (sql.find('\0') != std::string_view::npos)
    return refuse(Errno::kInvalid, "the statement contains a NUL character");
  std::optional<PrepareMemoryLimit> limit;
  if (!sqlite::Accounting::works()) limit.emplace(api_);
  MEMBRANE_ASSIGN(sqlite::Statement statement, prepare(sql));
  if (api_.stmt_isexplain(statement.handle()) == 0) {
    MEMBRANE_ASSIGN(const int64_t operations, count_operations(sql));
    limit_values(operations);
    meter_->begin(static_cast<uint64_t>(operations), std::max(sql.size(), parameters_json.size()),
                  calls_strftime_);
  }
  limit.reset();
  MEMBRANE_TRY(bind(statement, parameters_json));
  return collect(statement);
}

// The number of operations that SQLite compiles the statement to.
HostResult<int64_t> SqlReader::Impl::count_operations(std::string_view sql) {
  calls_ = 0;
  sqlite::Statement listing;
  int code = db_->prepare("EXPLAIN " + std::string(sql), listing);
  int64_t operations = 0;
  if (code == SQLITE_OK)
    while ((code = listing.step()) == SQLITE_ROW) ++operations;
  if (code != SQLITE_DONE) return failure(code);
  return operations;
}

HostResult<sqlite::Statement> SqlReader::Impl::prepare(std::string_view sql) {
  calls_ = 0;
  sqlite::Statement statement;
  std::string_view rest;
  if (const int code = db_->prepare(sql, statement, &rest); code != SQLITE_OK) return failure(code);
  if (!statement) return refuse(Errno::kInvalid, "the statement is empty");
  sqlite::Statement second;
  const int code = rest.empty() ? SQLITE_OK : db_->prepare(rest, second);
  if (code != SQLITE_OK || second) return refuse(Errno::kInvalid, "only one statement can be run at a time");
  // A statement without columns was not a query, even if it found nothing to do.
  if (api_.stmt_readonly(statement.handle()) == 0 || api_.column_count(statement.handle()) == 0)
    return refuse(Errno::kAccess, "only SELECT is allowed");
  return statement;
}

HostResult<void> SqlReader::Impl::bind(sqlite::Statement& statement, std::string_view parameters_json) {
  // One level deeper, and one value more, than parameters may have: those cases have their own errors.
  constexpr JsonLimits kLimits{.depth = 2, .values = kMaxParameters + 2, .memory_bytes = 24u << 20};
  MEMBRANE_ASSIGN(const json values, read_json_for_guest(parameters_json.empty() ? "[]" : parameters_json,
                                                         "the text of the parameters", kLimits));
  if (!values.is_array()) return refuse(Errno::kInvalid, "the parameters are not a JSON array");
  const int wanted = api_.bind_parameter_count(statement.handle());
  if (values.size() != static_cast<size_t>(wanted))
    return refuse(Errno::kInvalid, "the statement has " + count_of(wanted, "parameter") + ", " +
                                       std::to_string(values.size()) + " were given");
  for (int i = 1; i <= wanted; ++i) {
    const json& value = values[static_cast<size_t>(i - 1)];
    int code = SQLITE_OK;
    if (value.is_null()) {
      code = api_.bind_null(statement.handle(), i);
    } else if (value.is_boolean()) {
      code = statement.bind_int(i, value.get<bool>() ? 1 : 0);
    } else if (value.is_number_integer() &&
               !(value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX)) {
      code = statement.bind_int(i, value.get<int64_t>());
    } else if (value.is_number()) {
      code = api_.bind_double(statement.handle(), i, value.get<double>());
    } else if (value.is_string()) {
      code = statement.bind_text(i, value.get_ref<const std::string&>());
    } else {
      return refuse(Errno::kInvalid, "parameter " + std::to_string(i) + " is an array or an object");
    }
    if (code != SQLITE_OK) return failure(code);
  }
  return {};
}

HostResult<std::string> SqlReader::Impl::collect(sqlite::Statement& statement) {
  const std::vector<std::string> keys = keys_of(statement.handle());
  std::string rows = "[";
  for (uint64_t count = 0;; ++count) {
    const int code = statement.step();
    if (!meter_->note_stopped(db_->handle(), statement.handle())) return refuse(Errno::kBudget, "");
    if (code == SQLITE_DONE) break;
    if (code != SQLITE_ROW) return failure(code);
    if (count == grant_.max_rows)
      return refuse(Errno::kTooBig, "the query returns more than " + count_of(grant_.max_rows, "row") +
                                        ", the limit; add LIMIT, WHERE or an aggregate");
    if (count != 0) rows += ',';
    MEMBRANE_TRY(append_row(rows, statement, keys));
  }
  rows += ']';
  return rows;
}

HostResult<void> SqlReader::Impl::append_row(std::string& rows, const sqlite::Statement& statement,
                                             const std::vector<std::string>& keys) {
  rows += '{';
  for (size_t column = 0; column < keys.size(); ++column) {
    if (column != 0) rows += ',';
    rows += keys[column];
    // A value is checked before it is written: escapes may make it six times as long.
    const auto bytes = static_cast<uint64_t>(api_.column_bytes(statement.handle(), static_cast<int>(column)));
    if (rows.size() + bytes < grant_.max_result_bytes)
      rows += value_at(statement.handle(), static_cast<int>(column));
    if (rows.size() + bytes >= grant_.max_result_bytes)
      return refuse(Errno::kTooBig, "the query returns more than " +
                                        count_of(grant_.max_result_bytes, "byte") +
                                        ", the limit; select fewer columns or rows");
  }
  rows += '}';
  return {};
}

std::string SqlReader::Impl::value_at(sqlite3_stmt* statement, int column) const {
  const auto bytes = [&] {
    const auto* data = static_cast<const char*>(api_.column_blob(statement, column));
    return std::string_view(data, data ? static_cast<size_t>(api_.column_bytes(statement, column)) : 0);
  };
  switch (api_.column_type(statement, column)) {
    case SQLITE_INTEGER: return std::to_string(api_.column_int64(statement, column));
    case SQLITE_FLOAT: {
      const double value = api_.column_double(statement, column);
      if (std::isinf(value)) return value > 0 ? "\"inf\"" : "\"-inf\"";
      return json(value).dump();
    }
    case SQLITE_TEXT: return json_text(bytes());
    case SQLITE_BLOB: return '"' + base64_encode(bytes()) + '"';
    default: return "null";
  }
}

// Each as `"name":`, made distinct from the others.
std::vector<std::string> SqlReader::Impl::keys_of(sqlite3_stmt* statement) const {
  std::set<std::string> taken;
  std::vector<std::string> keys;
  for (int column = 0; column < api_.column_count(statement); ++column) {
    const char* given = api_.column_name(statement, column);
    const std::string name = given ? given : "";
    std::string unique = name;
    for (int n = 2; !taken.insert(unique).second; ++n) unique = name + "_" + std::to_string(n);
    keys.push_back(json_text(unique) + ":");
  }
  return keys;
}

// --- error messages ---------------------------------------------------------------------

std::vector<std::string> SqlReader::Impl::names(const char* sql) {
  trusted_ = true;
  sqlite::Statement statement;
  std::vector<std::string> found;
  if (db_->prepare(sql, statement) == SQLITE_OK) {
    while (found.size() < 1'000 && statement.step() == SQLITE_ROW) found.emplace_back(statement.bytes_at(0));
  }
  trusted_ = false;
  return found;
}

// For "no such column: t.nmae" the name that was probably meant.
std::string SqlReader::Impl::suggestion(std::string_view message) {
  std::string_view word = message.substr(message.rfind(' ') + 1);
  if (const size_t dot = word.rfind('.'); dot != std::string_view::npos) word.remove_prefix(dot + 1);
  std::vector<std::string> found;
  if (message.starts_with("no such table: ")) {
    found = names("SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') ORDER BY name");
  } else if (message.starts_with("no such column: ")) {
    found = names(
        "SELECT DISTINCT p.name FROM sqlite_schema s, pragma_table_info(s.name) p "
        "WHERE s.type IN ('table', 'view') ORDER BY 1");
  } else {
    found.assign(kFunctions.begin(), kFunctions.end());
  }
  const std::string_view best = nearest(word, {found.begin(), found.end()});
  if (!best.empty()) return "; did you mean " + std::string(best) + "?";
  if (!message.starts_with("no such table: ") || found.empty()) return "";
  std::string list = "; there are:";
  for (size_t i = 0; i < std::min<size_t>(found.size(), 20); ++i) list += (i ? ", " : " ") + found[i];
  return list;
}

std::unexpected<HostError> SqlReader::Impl::failure(int code) {
  const std::string message = (db_ ? db_->message() : std::string());
  if (meter_ != nullptr && meter_->is_too_much()) return refuse(Errno::kBudget, "");
  const bool is_stopped = (code & 0xFF) == SQLITE_INTERRUPT || (code & 0xFF) == SQLITE_NOMEM;
  if (is_stopped && is_over()) return refuse(Errno::kTimedOut, "the query ran longer than its time limit");
  if (is_stopped && account_->refused)
    return refuse(Errno::kTooBig, "the query needs more than " + count_of(most_memory_bytes_, "byte") +
                                      " of memory; a value or a sort is too large");
  switch (code & 0xFF) {
    case SQLITE_AUTH:
    case SQLITE_INTERRUPT:
      return refuse(refusal_.empty() ? Errno::kAccess : refusal_code_, refusal_.empty() ? message : refusal_);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return refuse(Errno::kTimedOut, "the database '" + grant_.name + "' is in use by another process");
    case SQLITE_TOOBIG:
    case SQLITE_NOMEM: return refuse(Errno::kTooBig, "a value or the query is larger than the limit");
    case SQLITE_READONLY: return refuse(Errno::kAccess, "only SELECT is allowed");
    case SQLITE_ERROR:
      if (!refusal_.empty()) return refuse(refusal_code_, refusal_);
      if (message.starts_with("no such ")) return refuse(Errno::kNotFound, message + suggestion(message));
      return refuse(Errno::kInvalid, "SQL: " + message);
    default: return refuse(Errno::kHost, "the database '" + grant_.name + "' cannot be read: " + message);
  }
}

HostResult<std::unique_ptr<SqlReader>> SqlReader::open(const policy::SqlGrant& grant,
                                                       std::function<int64_t()> now_ms) {
  const auto api = sqlite::api();
  if (!api) return refuse(Errno::kUnsupported, api.error().message);
  auto impl = std::make_unique<Impl>(grant, **api, std::move(now_ms));
  return std::unique_ptr<SqlReader>(new SqlReader(std::move(impl)));
}

SqlReader::SqlReader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SqlReader::~SqlReader() = default;
HostResult<std::string> SqlReader::query(std::string_view sql, std::string_view parameters_json,
                                         const Deadline& run, Work& work, uint64_t memory_bytes) {
  return impl_->query(sql, parameters_json, run, work, memory_bytes);
}

}  // namespace membrane::host
