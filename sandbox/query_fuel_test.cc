// A run pays for its queries: the same in each run, in a replay, and however often it is frozen in between.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/sqlite.h"
#include "sandbox/sandbox.h"

namespace membrane::sandbox {
namespace {

class QueryFuel : public testing::Test {
 protected:
  QueryFuel() {
    std::string pattern = (std::filesystem::temp_directory_path() / "membrane-query-XXXXXX").string();
    directory_ = mkdtemp(pattern.data());
    sqlite::Connection db(**sqlite::api());
    EXPECT_EQ(db.open(directory_ / "a.db", SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE), SQLITE_OK);
    EXPECT_EQ(db.execute("CREATE TABLE t (a, b);"
                         "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 2000)"
                         "INSERT INTO t SELECT i, hex(zeroblob(i)) FROM n"),
              SQLITE_OK);
    options_.policy.sql.push_back({.name = "a", .path = directory_ / "a.db", .timeout_ms = 600'000});
    options_.policy.limits.wall_ms = 600'000;
  }
  ~QueryFuel() override { std::filesystem::remove_all(directory_); }

  static Program asks(const std::vector<std::string>& queries) {
    Program program;
    program.source = "(func (export \"run\")\n";
    for (const std::string& query : queries)
      program.source +=
          "(call $io.println (call $sql.value! (string \"a\") (string \"" + query + "\") (string \"\")))\n";
    program.source += ")";
    return program;
  }
  static std::string seen_of(const Report& report) {
    return std::string(name_of(report.outcome)) + " " + report.stdout_text + " " +
           std::to_string(report.fuel_used);
  }
  uint64_t fuel_of(const std::vector<std::string>& queries) const {
    const Report report = run(asks(queries), options_);
    EXPECT_EQ(report.outcome, Outcome::kOk) << render_text(report, false);
    return report.fuel_used;
  }

  const std::string few_ = "SELECT sum(a) FROM t WHERE a <= 10", all_ = "SELECT sum(a + length(b)) FROM t",
                    sorted_ = "SELECT max(a) FROM (SELECT a FROM t ORDER BY b DESC LIMIT 100)";
  std::filesystem::path directory_;
  RunOptions options_;
};

TEST_F(QueryFuel, IsMoreWhereMoreIsDone) {
  const uint64_t nothing = fuel_of({"SELECT 1"});
  EXPECT_GT(fuel_of({few_}), nothing + 5'000) << "the whole table is read";
  EXPECT_GT(fuel_of({all_}), fuel_of({few_}) + 2'000);
  EXPECT_GT(fuel_of({sorted_}), fuel_of({all_}));
  EXPECT_GT(fuel_of({all_, all_}), 2 * fuel_of({all_}) - nothing);
}

TEST_F(QueryFuel, IsTheSameInEachRunWhateverWasAskedBefore) {
  const uint64_t all = fuel_of({all_}), sorted = fuel_of({sorted_}), both = fuel_of({all_, sorted_});
  EXPECT_EQ(fuel_of({sorted_, all_}), both) << "what SQLite has read already is not paid for less";
  EXPECT_EQ(fuel_of({all_, sorted_, all_}) - both, fuel_of({all_, all_}) - all);
  EXPECT_EQ(fuel_of({sorted_, sorted_}) - sorted, both - all);
}

TEST_F(QueryFuel, EndsTheQueryWhenItIsGone) {
  const Program program = asks({all_, sorted_, "SELECT 7"});
  const uint64_t whole = fuel_of({all_, sorted_, "SELECT 7"}), first = fuel_of({all_});
  for (const uint64_t fuel : {first - 1, first / 2, first + 2'000, whole - 1}) {
    options_.policy.limits.fuel = fuel;
    const Report report = run(program, options_);
    EXPECT_EQ(report.outcome, Outcome::kOutOfFuel) << fuel;
    EXPECT_LE(report.fuel_used, fuel);
  }
  options_.policy.limits.fuel = first / 2;
  EXPECT_EQ(run(program, options_).fuel_used, first / 2) << "what was done for it is paid for";
  options_.policy.limits.fuel = whole;
  EXPECT_EQ(run(program, options_).outcome, Outcome::kOk);
  options_.policy.limits.fuel = 2'000'000;
  const Report endless =
      run(asks({"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"}),
          options_);
  EXPECT_EQ(endless.outcome, Outcome::kOutOfFuel);
  EXPECT_EQ(endless.fuel_used, 2'000'000u);
}

TEST_F(QueryFuel, IsInTheJournal) {
  const Program program = asks({all_, "SELECT 1"});
  const uint64_t whole = fuel_of({all_, "SELECT 1"});
  for (const uint64_t fuel : {whole, whole / 2, whole - 1}) {
    host::Journal journal;
    options_.policy.limits.fuel = fuel;
    options_.record = &journal;
    const std::string seen = seen_of(run(program, options_));
    options_.record = nullptr;
    const auto read_back = host::Journal::parse(journal.to_text());
    ASSERT_TRUE(read_back);
    RunOptions replay;
    replay.replay = &*read_back;
    replay.policy.limits.fuel = fuel;
    EXPECT_EQ(seen_of(run(program, replay)), seen) << fuel;
  }
}

TEST_F(QueryFuel, IsAsMuchInARunThatIsFrozen) {
  const Program program = asks({few_, sorted_, all_, "SELECT 1"});
  const std::string whole = seen_of(run(program, options_));
  host::Journal journal;
  for (const uint64_t step : {1'777, 20'000}) {
    options_.freeze_after_fuel = step;
    options_.record = &journal;
    Report report = run(program, options_);
    int lives = 1;
    for (; report.outcome == Outcome::kFrozen && lives < 1000; ++lives) {
      *options_.freeze_after_fuel += step;
      options_.record = nullptr;
      report = thaw(report.snapshot, options_);
    }
    EXPECT_EQ(seen_of(report), whole) << step;
    EXPECT_GT(lives, 3);
  }
  // The first run, with the query that it had too little fuel for.
  RunOptions replay;
  replay.replay = &journal;
  replay.freeze_after_fuel = 1'777;
  EXPECT_EQ(run(program, replay).outcome, Outcome::kFrozen);
}

}  // namespace
}  // namespace membrane::sandbox
