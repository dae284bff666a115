#include "host/sql/sql_reader.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "base/sanitized_testing.h"
#include "base/sqlite.h"

namespace membrane::host {
namespace {

namespace fs = std::filesystem;

class Sql : public testing::Test {
 public:
  ~Sql() override { fs::remove_all(directory_); }

 protected:
  Sql() : directory_(fs::temp_directory_path() / ("membrane-sql-" + std::to_string(::getpid()))) {
    fs::create_directory(directory_);
    grant_.name = "papers";
    grant_.path = (directory_ / "papers.db").string();
    grant_.timeout_ms = kNoHurry;
    sqlite::Connection db(**sqlite::api());
    EXPECT_EQ(db.open(grant_.path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE), SQLITE_OK);
    EXPECT_EQ(
        db.execute("CREATE TABLE paper(id INTEGER PRIMARY KEY, title TEXT, year INT, score REAL, data BLOB);"
                   "INSERT INTO paper VALUES (1, 'Über \"Wasm\"', 2017, 0.5, x'00ff10'), (2, NULL, 2022, "
                   "9e999, x'');"
                   "CREATE VIEW recent AS SELECT * FROM paper WHERE year > 2020"),
        SQLITE_OK)
        << db.message();
  }

  std::string file_bytes() const {
    std::ifstream file(grant_.path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  HostResult<std::string> query(std::string_view sql, std::string_view parameters = "") {
    auto reader = open();
    return reader->query(sql, parameters, run_, work_);
  }
  std::unique_ptr<SqlReader> open() {
    return std::move(SqlReader::open(grant_, [this] { return ++readings_, 951'782'399'123; })).value();
  }
  void write(const char* sql) {
    sqlite::Connection db(**sqlite::api());
    ASSERT_EQ(db.open(grant_.path, SQLITE_OPEN_READWRITE), SQLITE_OK);
    ASSERT_EQ(db.execute(sql), SQLITE_OK) << db.message();
  }
  std::set<std::string> names() const {
    std::set<std::string> found;
    for (const auto& entry : fs::directory_iterator(directory_))
      found.insert(entry.path().filename().string());
    return found;
  }
  Errno error(std::string_view sql, std::string_view parameters = "") {
    const auto result = query(sql, parameters);
    reason_ = result ? *result : result.error().reason;
    return result ? Errno::kOk : result.error().code;
  }

  // Ten minutes: long enough for any machine, and an endless query is still noticed.
  static constexpr uint32_t kNoHurry = 600'000;

  fs::path directory_;
  policy::SqlGrant grant_;
  Work work_;
  std::string reason_;
  policy::Budget budget_;
  Deadline run_{budget_};
  int readings_ = 0;  // of the run's clock
};

TEST_F(Sql, GivesRowsAsJson) {
  EXPECT_EQ(query("SELECT id, title, year, score, data FROM paper ORDER BY id").value(),
            R"([{"id":1,"title":"Über \"Wasm\"","year":2017,"score":0.5,"data":"AP8Q"},)"
            R"({"id":2,"title":null,"year":2022,"score":"inf","data":""}])");
  EXPECT_EQ(query("SELECT id FROM paper WHERE id > 5").value(), "[]");
  EXPECT_EQ(query("SELECT count(*) AS n FROM recent;  -- done").value(), R"([{"n":1}])");
  EXPECT_EQ(
      query("WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 3) SELECT i FROM c")
          .value(),
      R"([{"i":1},{"i":2},{"i":3}])");
}

TEST_F(Sql, NamesThatComeTwiceAreToldApart) {
  EXPECT_EQ(query("SELECT 1 AS a, 2 AS a, 3 AS a").value(), R"([{"a":1,"a_2":2,"a_3":3}])");
}

TEST_F(Sql, TextThatIsNotUtf8IsRepaired) {
  EXPECT_EQ(query("SELECT CAST(x'61ff62' AS TEXT) AS t").value(),
            "[{\"t\":\"a\xEF\xBF\xBD"
            "b\"}]");
}

TEST_F(Sql, BindsParameters) {
  EXPECT_EQ(query("SELECT ?1 AS a, ?2 AS b, ?3 AS c, ?4 AS d, ?5 AS e",
                  R"([null, true, 7, 1.5, "x'; DROP TABLE paper"])")
                .value(),
            R"([{"a":null,"b":1,"c":7,"d":1.5,"e":"x'; DROP TABLE paper"}])");
  EXPECT_EQ(error("SELECT ?1", ""), Errno::kInvalid);
  EXPECT_EQ(error("SELECT 1", "[1]"), Errno::kInvalid);
  EXPECT_EQ(error("SELECT ?1", "[[1]]"), Errno::kInvalid);
  EXPECT_EQ(error("SELECT ?1", "{}"), Errno::kInvalid);
  EXPECT_EQ(error("SELECT ?1", "[1"), Errno::kInvalid);
  EXPECT_EQ(error("SELECT ?1", "null"), Errno::kInvalid);
  EXPECT_EQ(query("SELECT ?1 AS big", "[18446744073709551615]").value(),
            R"([{"big":1.8446744073709552e+19}])");
}

TEST_F(Sql, SaysWhatWasProbablyMeant) {
  EXPECT_EQ(error("SELECT tilte FROM paper"), Errno::kNotFound);
  EXPECT_NE(reason_.find("did you mean title?"), std::string::npos) << reason_;
  EXPECT_EQ(error("SELECT * FROM papers"), Errno::kNotFound);
  EXPECT_NE(reason_.find("did you mean paper?"), std::string::npos) << reason_;
  EXPECT_EQ(error("SELECT * FROM quux"), Errno::kNotFound);
  EXPECT_NE(reason_.find("there are: paper, recent"), std::string::npos) << reason_;
  EXPECT_EQ(error("SELECT p.yaer FROM paper p"), Errno::kNotFound);
  EXPECT_NE(reason_.find("did you mean year?"), std::string::npos) << reason_;
  EXPECT_EQ(error("SELECT uper(title) FROM paper"), Errno::kNotFound);
  EXPECT_NE(reason_.find("did you mean upper?"), std::string::npos) << reason_;
  EXPECT_EQ(error("SELEC 1"), Errno::kInvalid);
  EXPECT_NE(reason_.find("syntax error"), std::string::npos) << reason_;
  EXPECT_EQ(error(""), Errno::kInvalid);
  EXPECT_EQ(error("-- nothing"), Errno::kInvalid);
}

TEST_F(Sql, RefusesWhateverWrites) {
  const std::string before = file_bytes();
  for (const char* sql : {
           "INSERT INTO paper VALUES (3, 'x', 1, 1, NULL)",
           "UPDATE paper SET title = 'x'",
           "UPDATE paper SET title = 'x' RETURNING id",
           "DELETE FROM paper",
           "WITH c AS (SELECT 1) DELETE FROM paper",
           "REPLACE INTO paper(id) VALUES (1)",
           "DROP TABLE paper",
           "CREATE TABLE t(x)",
           "CREATE TEMP TABLE t(x)",
           "CREATE TEMP VIEW v AS SELECT 1",
           "CREATE VIRTUAL TABLE v USING fts5(x)",
           "ALTER TABLE paper RENAME TO p",
           "VACUUM",
           "VACUUM INTO '/tmp/membrane-sql-out.db'",
           "REINDEX",
           "ANALYZE",
           "BEGIN",
           "SAVEPOINT s",
           "ATTACH '/tmp/membrane-sql-attached.db' AS x",
           "DETACH main",
           "PRAGMA writable_schema = 1",
           "PRAGMA query_only = 0",
           "PRAGMA database_list",
           "PRAGMA temp_store_directory = '/tmp'",
           "EXPLAIN DELETE FROM paper",
       }) {
    EXPECT_EQ(error(sql), Errno::kAccess) << sql << ": " << reason_;
  }
  EXPECT_EQ(error("UPDATE sqlite_schema SET sql = ''"), Errno::kInvalid);
  EXPECT_EQ(file_bytes(), before);
  EXPECT_FALSE(fs::exists("/tmp/membrane-sql-out.db"));
  EXPECT_FALSE(fs::exists("/tmp/membrane-sql-attached.db"));
}

TEST_F(Sql, RefusesFunctionsAndTablesThatReachOut) {
  for (const char* sql : {
           "SELECT load_extension('x')",
           "SELECT sqlite_version()",
           "SELECT sqlite_compileoption_get(0)",
           "SELECT random()",
           "SELECT randomblob(8)",
           "SELECT fts3_tokenizer('x')",
           "SELECT sqlite_log(1, 'x')",
           "SELECT changes()",
           "SELECT last_insert_rowid()",
           "SELECT * FROM pragma_database_list",
           "SELECT * FROM pragma_table_info('paper')",
       }) {
    EXPECT_EQ(error(sql), Errno::kAccess) << sql << ": " << reason_;
  }
  // Not in every build of SQLite: refused, or missing.
  for (const char* sql :
       {"SELECT readfile('/etc/passwd')", "SELECT writefile('/tmp/x', 'y')", "SELECT edit('x')",
        "SELECT * FROM dbstat", "SELECT * FROM sqlite_dbpage", "SELECT * FROM fsdir('/')",
        "SELECT * FROM sqlite_stmt", "SELECT eval('DROP TABLE paper')"}) {
    const Errno code = error(sql);
    EXPECT_TRUE(code == Errno::kAccess || code == Errno::kNotFound) << sql << ": " << reason_;
  }
  EXPECT_EQ(error("SELECT load_extension('x')"), Errno::kAccess);
  EXPECT_NE(reason_.find("load_extension"), std::string::npos);
}

TEST_F(Sql, OneStatementAtATime) {
  EXPECT_EQ(error("SELECT 1; SELECT 2"), Errno::kInvalid);
  EXPECT_EQ(error("SELECT 1; DROP TABLE paper"), Errno::kInvalid);
  EXPECT_EQ(error("SELECT 1; garbage"), Errno::kInvalid);
  EXPECT_EQ(error(std::string_view("SELECT 1\0; DROP TABLE paper", 27)), Errno::kInvalid);
  EXPECT_EQ(query("SELECT 1 AS x;").value(), R"([{"x":1}])");
}

TEST_F(Sql, ARecursionWithoutEndTimesOut) {
  grant_.timeout_ms = 50;
  EXPECT_EQ(error("WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c) SELECT max(i) FROM c"),
            Errno::kTimedOut);
}

TEST_F(Sql, ACrossJoinWithoutEndTimesOut) {
  grant_.timeout_ms = 50;
  EXPECT_EQ(error("WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 10000) "
                  "SELECT count(*) FROM c a, c b, c d, c e"),
            Errno::kTimedOut);
}

TEST_F(Sql, HugeValuesAreRefused) {
  grant_.max_result_bytes = 1 << 20;
  for (const char* sql : {
           "SELECT zeroblob(1000000000)",
           "SELECT hex(zeroblob(900000))",
           "SELECT replace(hex(zeroblob(500000)), '0', 'xxxxxxxx')",
           "SELECT group_concat(hex(zeroblob(100000))) FROM (VALUES (1),(2),(3),(4),(5),(6),(7),(8),(9))",
       }) {
    EXPECT_EQ(error(sql), Errno::kTooBig) << sql << ": " << reason_;
  }
}

TEST_F(Sql, RowsAndBytesAreBounded) {
  grant_.max_rows = 3;
  const std::string rows =
      "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < ?1) SELECT i FROM c";
  EXPECT_EQ(error(rows, "[3]"), Errno::kOk);
  EXPECT_EQ(error(rows, "[4]"), Errno::kTooBig);
  grant_.max_rows = 1'000'000;
  grant_.max_result_bytes = 4'000;
  EXPECT_EQ(error(rows, "[1000]"), Errno::kTooBig);
}

TEST_F(Sql, ASearchInLongTextTakesNoQuadraticTime) {
  grant_.max_result_bytes = 16 << 20;
  EXPECT_EQ(query("SELECT instr(hex(zeroblob(2000000)), hex(zeroblob(1000000)) || '1') AS at").value(),
            R"([{"at":0}])");
  EXPECT_EQ(
      query("SELECT length(replace(hex(zeroblob(2000000)), hex(zeroblob(1000000)) || '1', '')) AS n").value(),
      R"([{"n":4000000}])");
  EXPECT_EQ(error("SELECT trim(hex(zeroblob(2000000)), hex(zeroblob(1000000)))"), Errno::kInvalid);
}

TEST_F(Sql, APatternOverALongTextTakesNoTimeWithoutEnd) {
  const std::string text =
      "WITH t AS MATERIALIZED (SELECT hex(zeroblob(2000000)) AS x, "
      "substr(hex(zeroblob(500)), 1, 400) || '1' AS p) SELECT ";
  EXPECT_EQ(error(text + "x LIKE '%' || p FROM t"), Errno::kInvalid) << reason_;
  EXPECT_EQ(error(text + "x LIKE '%' || p ESCAPE '!' FROM t"), Errno::kInvalid) << reason_;
  EXPECT_EQ(error(text + "x GLOB '*' || p FROM t"), Errno::kInvalid) << reason_;
  EXPECT_NE(reason_.find("too long for a LIKE"), std::string::npos) << reason_;
  // Short, since a sanitizer measures the whole text anew at each step of SQLite's machine.
  EXPECT_EQ(query("SELECT hex(zeroblob(2000)) LIKE '%01' AS found").value(), R"([{"found":0}])");
}

TEST_F(Sql, OwnLikeAndGlobDoWhatSqliteDoes) {
  EXPECT_EQ(query("SELECT 'Abc' LIKE 'a_C' AS a, 'abc' LIKE NULL AS b, 'a%c' LIKE 'a!%c' ESCAPE '!' AS c, "
                  "'abc' LIKE 'a!%c' ESCAPE '!' AS d, 121 LIKE '1%' AS e, 'x' NOT LIKE '' AS f, "
                  "'abc' LIKE 'a' ESCAPE NULL AS g")
                .value(),
            R"([{"a":1,"b":null,"c":1,"d":0,"e":1,"f":1,"g":null}])");
  EXPECT_EQ(query("SELECT 'abc' GLOB 'a[a-c]*' AS a, 'abc' GLOB 'A*' AS b, NULL GLOB '*' AS c").value(),
            R"([{"a":1,"b":0,"c":null}])");
  EXPECT_EQ(error("SELECT 'a' LIKE 'a' ESCAPE 'xy'"), Errno::kInvalid);
  EXPECT_EQ(error("SELECT 'a' LIKE '" + std::string(501, 'a') + "'"), Errno::kInvalid);
}

TEST_F(Sql, AMergeOfManyMembersIsRefused) {
  EXPECT_EQ(error("SELECT json_patch('{}', '{}')"), Errno::kAccess) << reason_;
}

TEST_F(Sql, MoreFunctionCallsThanAnybodyWritesAreRefused) {
  std::string calls = "upper(title)";
  for (int i = 1; i < 200; ++i) calls += (i % 50 == 0 ? ",upper(title)" : "||upper(title)");
  EXPECT_EQ(error("SELECT " + calls + " FROM paper"), Errno::kOk) << reason_;
  EXPECT_EQ(error("SELECT " + calls + ",upper(title) FROM paper"), Errno::kTooBig) << reason_;
}

// Each of the tables is twice the size of the previous one.
TEST_F(Sql, TablesThatDoubleOneAnotherDoNotUseUpTheMemory) {
  std::string sql = "WITH c0 AS (SELECT 1 AS x)";
  for (int i = 1; i <= 30; ++i) {
    const std::string before = "c" + std::to_string(i - 1);
    sql += ", c" + std::to_string(i) + " AS (SELECT x FROM " + before + " UNION ALL SELECT x FROM " + before +
           ")";
  }
  EXPECT_EQ(error(sql + " SELECT count(*) FROM c30"), Errno::kTooBig) << reason_;
  EXPECT_EQ(query("SELECT 1 AS x").value(), R"([{"x":1}])");
  const sqlite::Api& api = **sqlite::api();
  EXPECT_EQ(api.hard_heap_limit64(-1), 0);
  EXPECT_EQ(api.soft_heap_limit64(-1), 0);
}

TEST_F(Sql, AReplacementIsBoundedBeforeItIsMade) {
  grant_.max_result_bytes = 1 << 20;
  const int64_t before = (**sqlite::api()).memory_used();
  EXPECT_EQ(error("SELECT length(replace(hex(zeroblob(500000)), '0', hex(zeroblob(500000))))"),
            Errno::kTooBig)
      << reason_;
  EXPECT_LE((**sqlite::api()).memory_used(), before);
}

TEST_F(Sql, OwnInstrAndReplaceDoWhatSqliteDoes) {
  EXPECT_EQ(query("SELECT instr('äbc', 'c') AS a, instr('abc', 'x') AS b, instr(NULL, 'x') AS c, "
                  "instr('abc', '') AS d,"
                  "instr(x'00ff10', x'10') AS e, instr('', 'a') AS f")
                .value(),
            R"([{"a":3,"b":0,"c":null,"d":1,"e":3,"f":0}])");
  EXPECT_EQ(query("SELECT replace('aXbX', 'X', '--') AS a, replace('abc', '', 'x') AS b, replace('abc', "
                  "NULL, 'x') AS c,"
                  "replace(121, 1, 3) AS d")
                .value(),
            R"([{"a":"a--b--","b":"abc","c":null,"d":"323"}])");
}

TEST_F(Sql, TheSchemaCanBeRead) {
  EXPECT_EQ(query("SELECT name FROM sqlite_schema WHERE type = 'table'").value(), R"([{"name":"paper"}])");
}

TEST_F(Sql, AStatementTooLongIsRefused) {
  EXPECT_EQ(error("SELECT '" + std::string(70'000, 'x') + "'"), Errno::kTooBig);
  std::string deep = "SELECT ";
  for (int i = 0; i < 500; ++i) deep += "(";
  EXPECT_NE(error(deep + "1" + std::string(500, ')')), Errno::kOk);
}

TEST_F(Sql, AReaderGoesOnAfterAnError) {
  const auto reader = open();
  EXPECT_FALSE(reader->query("DROP TABLE paper", "", run_, work_));
  EXPECT_EQ(reader->query("SELEC", "", run_, work_).error().code, Errno::kInvalid);
  EXPECT_EQ(reader->query("SELECT 1 AS x", "", run_, work_).value(), R"([{"x":1}])");
}

// -- time and memory ------------------------------------------------------------------------

TEST_F(Sql, ARunWhoseTimeIsOverReadsNothing) {
  run_.set_end(Deadline::Clock::now());
  EXPECT_EQ(error("SELECT count(*) FROM paper"), Errno::kTimedOut) << reason_;
  std::atomic<bool> cancel = true;
  run_.set_end(Deadline::Clock::time_point::max());
  run_.set_cancel(&cancel);
  EXPECT_EQ(error("SELECT count(*) FROM paper"), Errno::kTimedOut) << reason_;
  cancel = false;
  EXPECT_EQ(error("SELECT count(*) FROM paper"), Errno::kOk) << reason_;
}

// Each would run for much longer than its time; where it is then (between two steps, in a function of SQLite's, in
// one of Membrane's) differs.
TEST_F(Sql, TheRunsEndEndsAQueryWhereverItIs) {
  const std::string endless =
      "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c), "
      "t AS MATERIALIZED (SELECT '[' || replace(hex(zeroblob(50000)), '00', '1,') || '1]' AS j) SELECT ";
  for (const std::string call :
       {"json_array_length(j)", "length(json_extract(j, '$[49999]', '$[49998]'))", "length(upper(j))",
        "instr(j, '2')", "j LIKE '%2%'", "length(replace(j, '1', '2'))", "length(printf('%*s', 90000, j))",
        "length(quote(j))", "length(j || j)", "strftime('%s', i)"}) {
    run_.set_end(Deadline::Clock::now() + std::chrono::milliseconds(50));
    EXPECT_EQ(error(endless + "sum(" + call + ") FROM c, t"), Errno::kTimedOut) << call << ": " << reason_;
  }
}

TEST_F(Sql, ACountOfManyRowsIsOneStepAndEndsAllTheSame) {
  write(
      "CREATE TABLE many(a); WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < "
      "300000) "
      "INSERT INTO many SELECT zeroblob(100) FROM c");
  grant_.timeout_ms = 1;
  const auto reader = open();
  // Each is fast; one of them is stopped on its way.
  Errno code = Errno::kOk;
  for (int i = 0; i < 100'000 && code == Errno::kOk; ++i) {
    const auto counted = reader->query("SELECT count(*) AS n FROM many", "", run_, work_);
    if (!counted) code = counted.error().code;
  }
  EXPECT_EQ(code, Errno::kTimedOut);
}

TEST_F(Sql, MemoryOfAQueryIsBounded) {
  grant_.timeout_ms = 600'000;
  grant_.max_result_bytes = 256 << 20;
  const std::string numbers =
      "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c LIMIT 1000000) SELECT ";
  // 3,000,000 ones, a hundred for each place: a sanitizer looks at all the text that is left to find the next place.
  std::string ones;
  for (int i = 0; i < 100; ++i) ones += "1,";
  const std::string list =
      "SELECT json_array_length('[' || replace(hex(zeroblob(30000)), '00', '" + ones + "') || '1]')";
  for (const std::string& sql : {numbers + "i FROM c ORDER BY -i",
                                 numbers + "count(DISTINCT i || 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx') FROM c",
                                 numbers + "group_concat(i || 'xxxxxxxxxxxxxxxx') FROM c",
                                 numbers + "length(json_group_array(i || 'xxxxxxxxxxxxxxxxxx')) FROM c", list,
                                 std::string("SELECT length(hex(zeroblob(15000000)))")}) {
    if (kIsSanitized && sql.contains("group_"))
      continue;  // grows row by row, and the sanitizer copies it each time
    EXPECT_EQ(error(sql), Errno::kTooBig) << sql.substr(0, 120) << ": " << reason_;
  }
  EXPECT_EQ(query("SELECT 1 AS x").value(), R"([{"x":1}])");
}

TEST_F(Sql, AQueryIsGivenLessMemoryWhereLessIsLeft) {
  const std::string sorted =
      "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c LIMIT 10000) "
      "SELECT sum(length(x)) AS n FROM (SELECT i || hex(zeroblob(100)) AS x FROM c ORDER BY x LIMIT 10000)";
  const auto reader = open();
  EXPECT_EQ(reader->query(sorted, "", run_, work_, 1u << 20).error().code, Errno::kTooBig);
  EXPECT_EQ(reader->query("SELECT 1 AS x", "", run_, work_, 1u << 20).value(), R"([{"x":1}])");
  EXPECT_TRUE(reader->query(sorted, "", run_, work_, uint64_t{1} << 40));
}

// A step may read a value once: many steps, short values.
TEST_F(Sql, TheLongerTheStatementTheShorterItsValues) {
  grant_.timeout_ms = 600'000;
  std::string sql = "WITH t AS MATERIALIZED (SELECT hex(zeroblob(1500000)) AS x) SELECT 1";
  EXPECT_EQ(error(sql + " FROM t WHERE x = x || ''"), Errno::kOk) << reason_;
  for (int i = 0; i < 400; ++i) sql += ",x = x";
  EXPECT_EQ(error(sql + " FROM t"), Errno::kTooBig) << reason_;
}

TEST_F(Sql, AWriterThatKeepsItsLockTimesOut) {
  sqlite::Connection db(**sqlite::api());
  ASSERT_EQ(db.open(grant_.path, SQLITE_OPEN_READWRITE), SQLITE_OK);
  ASSERT_EQ(db.execute("BEGIN EXCLUSIVE"), SQLITE_OK);
  run_.set_end(Deadline::Clock::now() + std::chrono::milliseconds(50));
  EXPECT_EQ(error("SELECT 1 FROM paper"), Errno::kTimedOut) << reason_;
}

// -- what it reveals of the machine --------------------------------------------------------

TEST_F(Sql, TheClockIsTheRuns) {
  EXPECT_EQ(
      query("SELECT datetime('now') AS a, CURRENT_TIMESTAMP AS b, CURRENT_DATE AS c, CURRENT_TIME AS d, "
            "strftime('%Y-%m-%d %H:%M:%f', 'now') AS e, unixepoch() AS f, date() AS g, time('now') AS h, "
            "julianday('now') = julianday('2000-02-28 23:59:59.123') AS i, datetime('now', '+1 second') AS j")
          .value(),
      R"([{"a":"2000-02-28 23:59:59","b":"2000-02-28 23:59:59","c":"2000-02-28","d":"23:59:59",)"
      R"("e":"2000-02-28 23:59:59.123","f":951782399,"g":"2000-02-28","h":"23:59:59","i":1,)"
      R"("j":"2000-02-29 00:00:00"}])");
  EXPECT_EQ(readings_, 1);
  EXPECT_EQ(query("SELECT datetime(0, 'unixepoch') AS epoch").value(),
            R"([{"epoch":"1970-01-01 00:00:00"}])");
  EXPECT_EQ(readings_, 1);
}

TEST_F(Sql, TheTimeZoneIsUtc) {
  setenv("TZ", "Asia/Kathmandu", 1);
  tzset();
  EXPECT_EQ(
      query("SELECT datetime('now', 'localtime') AS a, datetime('2020-07-01 12:00:00', 'localtime') AS b, "
            "datetime('2020-07-01 12:00:00', 'utc') AS c")
          .value(),
      R"([{"a":"2000-02-28 23:59:59","b":"2020-07-01 12:00:00","c":"2020-07-01 12:00:00"}])");
  unsetenv("TZ");
  tzset();
}

TEST_F(Sql, NothingIsRandom) {
  for (const char* sql : {"SELECT random()", "SELECT randomblob(8)", "SELECT 1 ORDER BY random()"})
    EXPECT_EQ(error(sql), Errno::kAccess) << sql;
}

TEST_F(Sql, ReadingLeavesNoFilesBeside) {
  const std::set<std::string> before = names();
  EXPECT_EQ(error("SELECT count(*) FROM paper"), Errno::kOk);
  EXPECT_EQ(names(), before);
  write("PRAGMA journal_mode = WAL");
  ASSERT_EQ(names(), before);
  EXPECT_EQ(query("SELECT count(*) AS n FROM paper").value(), R"([{"n":2}])");
  EXPECT_EQ(names(), before);
}

TEST_F(Sql, WhatAWriterCommitsIsSeenAndItsFilesStayAsTheyAre) {
  write("PRAGMA journal_mode = WAL");
  const auto reader = open();
  const auto count = [&] {
    return reader->query("SELECT count(*) AS n FROM paper", "", run_, work_).value_or("failed");
  };
  EXPECT_EQ(count(), R"([{"n":2}])");
  {
    sqlite::Connection writer(**sqlite::api());
    ASSERT_EQ(writer.open(grant_.path, SQLITE_OPEN_READWRITE), SQLITE_OK);
    ASSERT_EQ(writer.execute("INSERT INTO paper(id) VALUES (3)"), SQLITE_OK);
    EXPECT_EQ(count(), R"([{"n":3}])");
    ASSERT_EQ(writer.execute("INSERT INTO paper(id) VALUES (4); BEGIN; INSERT INTO paper(id) VALUES (5)"),
              SQLITE_OK);
    EXPECT_EQ(count(), R"([{"n":4}])");
    EXPECT_EQ(names(), (std::set<std::string>{"papers.db", "papers.db-shm", "papers.db-wal"}));
  }
  EXPECT_EQ(count(), R"([{"n":4}])");
  EXPECT_EQ(count(), R"([{"n":4}])");
}

TEST_F(Sql, ALogWithoutItsIndexIsRefusedAndLeftAlone) {
  write("PRAGMA journal_mode = WAL");
  sqlite::Connection writer(**sqlite::api());
  ASSERT_EQ(writer.open(grant_.path, SQLITE_OPEN_READWRITE), SQLITE_OK);
  ASSERT_EQ(writer.execute("INSERT INTO paper(id) VALUES (3)"), SQLITE_OK);
  const fs::path copy = directory_ / "copy.db";
  fs::copy(grant_.path, copy);
  fs::copy(grant_.path + "-wal", copy.string() + "-wal");
  grant_.path = copy.string();
  const std::set<std::string> before = names();
  EXPECT_EQ(error("SELECT count(*) FROM paper"), Errno::kHost);
  EXPECT_NE(reason_.find("-wal"), std::string::npos) << reason_;
  EXPECT_EQ(names(), before);
}

TEST_F(Sql, AnyFileNameIsOnlyAName) {
  const fs::path odd = directory_ / "a?mode=rwc#b%41 c;d.db";
  fs::copy(grant_.path, odd);
  grant_.path = odd.string();
  EXPECT_EQ(query("SELECT count(*) AS n FROM paper").value(), R"([{"n":2}])");
}

TEST_F(Sql, ADamagedOrMissingFileIsAnErrorNotACrash) {
  grant_.path = (directory_ / "none.db").string();
  EXPECT_EQ(error("SELECT 1"), Errno::kHost);
  EXPECT_FALSE(fs::exists(grant_.path));
  std::ofstream(grant_.path) << std::string(5000, 'x');
  EXPECT_EQ(error("SELECT 1"), Errno::kHost);
}

// --- costs ----------------------------------------------------------------------------------

constexpr const char* kNumbers =
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 5000) ";

TEST_F(Sql, WorkIsTheSameEachTimeWhateverIsInItsCaches) {
  write(
      "CREATE TABLE many (a, b);"
      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 5000) "
      "INSERT INTO many SELECT i, hex(zeroblob(i % 2000)) FROM n");
  for (const std::string& sql :
       {std::string("SELECT count(*) FROM many"), std::string("SELECT sum(length(b)) FROM many"),
        std::string("SELECT group_concat(a) FROM many"),
        std::string("SELECT count(*) FROM (SELECT * FROM many ORDER BY b, a) WHERE a > 3"),
        std::string("SELECT nothing FROM many"), kNumbers + std::string("SELECT sum(i) FROM n")}) {
    auto reader = open();
    std::set<uint64_t> seen;
    for (int i = 0; i < 3; ++i) {
      Work work;
      static_cast<void>(reader->query(sql, "", run_, work));
      seen.insert(work.done);
      static_cast<void>(reader->query("SELECT max(b) FROM many", "", run_, work_));
    }
    Work anew;
    static_cast<void>(open()->query(sql, "", run_, anew));
    seen.insert(anew.done);
    EXPECT_EQ(seen.size(), 1u) << sql << ": " << *seen.begin() << " to " << *seen.rbegin();
    EXPECT_GT(*seen.begin(), 10u) << sql;
  }
}

TEST_F(Sql, WorkGrowsWithStepsPagesMemoryAndLongValues) {
  const auto work_of = [&](const std::string& sql) {
    Work work;
    EXPECT_TRUE(open()->query(sql, "", run_, work)) << sql;
    return work.done;
  };
  const std::string numbers = kNumbers;
  EXPECT_GT(work_of(numbers + "SELECT count(*) FROM n"), 50'000u);
  EXPECT_GT(work_of("SELECT length(hex(zeroblob(1000000)))"), 30'000u);
  const std::string value =
      "WITH v(x) AS MATERIALIZED (SELECT hex(zeroblob(SIZE))), n(i) AS (SELECT 1 UNION ALL "
      "SELECT i + 1 FROM n LIMIT 1000) SELECT sum(length(x) + i) FROM v, n";
  const auto of_size = [&](const std::string& size) {
    std::string sql = value;
    return work_of(sql.replace(sql.find("SIZE"), 4, size));
  };
  EXPECT_GT(of_size("100000"), 10 * of_size("100"));
  const std::string like = numbers + "SELECT count(*) FROM n WHERE hex(zeroblob(1000)) LIKE i || '";
  EXPECT_GT(work_of(like + std::string(400, '_') + "'"), 2 * work_of(like + "_'"));
}

TEST_F(Sql, WorkThatIsTooMuchEndsTheQuery) {
  const std::string numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) ";
  for (const std::string& sql :
       {numbers + "SELECT count(*) FROM n", numbers + "SELECT i FROM n",
        numbers + "SELECT count(*) FROM (SELECT i FROM n ORDER BY -i)",
        numbers + "SELECT group_concat(i) FROM n",
        numbers + "SELECT sum(length(replace(hex(zeroblob(10000)), '0', i))) FROM n",
        numbers + "SELECT sum(hex(zeroblob(10000)) LIKE '%0%0%0%0%1' || i) FROM n"}) {
    grant_.max_rows = UINT64_MAX;
    grant_.max_result_bytes = 1 << 30;
    Work work{.most = 300'000};
    const auto rows = open()->query(sql, "", run_, work);
    ASSERT_FALSE(rows) << sql;
    EXPECT_EQ(rows.error().code, Errno::kBudget) << sql << ": " << rows.error().reason;
    EXPECT_TRUE(work.is_too_much()) << sql;
    EXPECT_LT(work.done, 3'000'000u) << sql << ": it ends soon after";
  }
  Work work{.most = 0};
  EXPECT_FALSE(open()->query("SELECT 1", "", run_, work));
  auto reader = open();
  EXPECT_FALSE(reader->query("SELECT 1", "", run_, work));
  EXPECT_TRUE(reader->query("SELECT 1", "", run_, work_)) << "and the next is made as ever";
}

}  // namespace
}  // namespace membrane::host
