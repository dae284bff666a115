// sql: queries to the databases that the policy grants; nothing can be changed.
#include "host/call.h"
#include "host/capabilities/all.h"
#include "host/read_json.h"

namespace membrane::host {
namespace {

using nlohmann::ordered_json;

HostResult<Value> query(Call& call) {
  return call.broker.sql_query(call.text(0), call.text(1), call.text(2), call.work);
}

// The first column of each row.
HostResult<std::vector<ordered_json>> first_column(const Call& call, std::string_view rows) {
  const JsonLimits limits{.bytes = 64u << 20, .memory_bytes = call.guest.host_memory().left_for_call()};
  const auto read = read_ordered_json(rows, "the database's answer", limits);
  if (!read && read.error().code == ErrorCode::kTooLong) return refuse(Errno::kTooBig, read.error().message);
  if (!read || !read->is_array()) return refuse(Errno::kHost, "the database's answer is not a JSON array");
  const ordered_json& array = *read;
  std::vector<ordered_json> column;
  for (const ordered_json& row : array) {
    if (!row.is_object() || row.empty())
      return refuse(Errno::kHost, "a row of the database's answer is not an object");
    column.push_back(row.begin().value());
  }
  return column;
}

std::string text_of(const ordered_json& value) {
  return value.is_string() ? value.get<std::string>()
                           : value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

HostResult<Value> value(Call& call) {
  MEMBRANE_ASSIGN(const std::string rows,
                  call.broker.sql_query(call.text(0), call.text(1), call.text(2), call.work));
  MEMBRANE_ASSIGN(const std::vector<ordered_json> column, first_column(call, rows));
  if (column.empty()) return refuse(Errno::kNotFound, "the query gives no row");
  return text_of(column[0]);
}

HostResult<Value> schema(Call& call) {
  MEMBRANE_ASSIGN(const std::string rows, call.broker.sql_query(call.text(0), kSchemaQuery, "", call.work));
  MEMBRANE_ASSIGN(const std::vector<ordered_json> column, first_column(call, rows));
  std::string text;
  for (const ordered_json& statement : column) text += text_of(statement) + ";\n";
  return text;
}

constexpr Param kDatabase{"database", Type::kText};
constexpr Param kSql{"sql", Type::kText};
constexpr Param kParameters{"parameters", Type::kText};
constexpr Cost kCost{.base = 1'000, .per_byte = 2, .works = true};
constexpr Failure kNoGrant{Errno::kAccess,
                           "no grant names the database, or the statement does more than read"};
constexpr Failure kUnknown{Errno::kNotFound, "there is no such table, column or function"};
constexpr Failure kWrong{Errno::kInvalid,
                         "the SQL is malformed or is more than one statement, or the parameters do not fit"};
constexpr Failure kTooMuch{Errno::kTooBig, "more rows or bytes than granted; nothing is given"};
constexpr Failure kSlow{Errno::kTimedOut, "the query ran too long"};
constexpr Failure kDamaged{Errno::kHost, "the file is damaged"};

constexpr FunctionSpec kFunctions[] = {
    {.module = "sql",
     .name = "query",
     .params = {kDatabase, kSql, kParameters},
     .result = Type::kText,
     .result_name = "json",
     .can_fail = true,
     .effect = Effect::kWorld,
     .cost = kCost,
     .summary =
         R"(Runs one SELECT (SQLite) and gives the rows: [{"id":1,"title":"…"}]; no rows are []. parameters is a JSON array bound to ?1, ?2, … or "".)",
     .details = "`database` is the name that the grant gives it. Blobs come as base64 text, NULL as null, "
                "infinities as the texts "
                "`inf` and `-inf`; a column name that comes twice gets `_2` at its end. Functions that only "
                "compute can be used "
                "(also JSON functions, dates, window functions); `random()` and the like cannot.",
     .failures = {kNoGrant, kUnknown, kWrong, kTooMuch, kSlow, kDamaged},
     .example =
         R"((call $io.print (call $sql.query! (string "papers") (string "SELECT title FROM paper WHERE year > ?1") (string "[2020]"))))",
     .handler = query},
    {.module = "sql",
     .name = "value",
     .params = {kDatabase, kSql, kParameters},
     .result = Type::kText,
     .result_name = "text",
     .can_fail = true,
     .effect = Effect::kWorld,
     .cost = kCost,
     .summary = "The first column of the first row, as text without quotes; ENOENT when there is no row.",
     .details = "NULL gives the text `null`.",
     .failures = {{Errno::kNotFound, "there is no row, or no such table, column or function"},
                  kNoGrant,
                  kWrong,
                  kTooMuch,
                  kSlow,
                  kDamaged},
     .example =
         R"((call $io.print (call $sql.value! (string "papers") (string "SELECT count(*) FROM paper") (string ""))))",
     .handler = value},
    {.module = "sql",
     .name = "schema",
     .params = {kDatabase},
     .result = Type::kText,
     .result_name = "sql",
     .can_fail = true,
     .effect = Effect::kWorld,
     .cost = kCost,
     .summary = "The CREATE statements of the database: its tables and their columns.",
     .failures = {kNoGrant, kTooMuch, kSlow, kDamaged},
     .example = R"((call $io.print (call $sql.schema! (string "papers"))))",
     .handler = schema},
};

}  // namespace

std::span<const FunctionSpec> sql_functions() { return kFunctions; }

}  // namespace membrane::host
