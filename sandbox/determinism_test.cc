// A run is a function of its program, its inputs and its journal.

#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "base/sanitized_testing.h"
#include "sandbox/sandbox.h"

namespace membrane::sandbox {
namespace {

struct Golden {
  const char* name;
  const char* text;
  uint64_t fuel;
  uint64_t hash;  // over everything that must not vary
};

constexpr Golden kGolden[] = {
    {"loop", R"((module (func (export "run") (result i64) (local $i i32) (local $sum i64)
       (loop $next
         (local.set $sum (i64.add (i64.mul (local.get $sum) (i64.const 6364136223846793005)) (i64.extend_i32_u (local.get $i))))
         (br_if $next (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 500))))
       (local.get $sum))))",
     7001, 8489771928709436831ull},
    {"floats", R"((module (func (export "run") (result f64 f32) (local $i i32) (local $x f64) (local $y f32)
       (local.set $x (f64.const 0.1))
       (loop $next
         (local.set $x (f64.mul (f64.mul (f64.const 3.7) (local.get $x)) (f64.sub (f64.const 1) (local.get $x))))
         (local.set $y (f32.add (local.get $y) (f32.demote_f64 (f64.sqrt (f64.div (local.get $x) (f64.convert_i32_s (i32.add (local.get $i) (i32.const 1))))))))
         (br_if $next (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 100))))
       (local.get $x) (local.get $y))))",
     2604, 4716657115199867426ull},
    {"trap", R"((module (memory (export "memory") 1)
       (func $inner (param i32) (result i32) (i32.load (i32.add (local.get 0) (i32.const 65530))))
       (func (export "run") (result i32) (i32.add (call $inner (i32.const 0)) (call $inner (i32.const 4))))))",
     12, 14713477808418199851ull},
    {"strings", R"((module (memory (export "memory") 1) (func (export "run") (local $i i32)
       (loop $next
         (call $io.println (concat "line " (call $str.from_i32 (local.get $i)) ", " (call $io.input)))
         (br_if $next (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 20)))))))",
     4500, 16587193849132498934ull},
    {"store", R"((module (memory (export "memory") 1) (func (export "run")
       (call $kv.set! (string "b") (string "2")) (call $kv.set! (string "a") (string "1"))
       (call $io.print (call $kv.keys! (string ""))) (call $io.print (call $kv.get! (string "a")))
       (call $io.result (call $kv.get! (string "missing"))))))",
     2800, 11578187603056903400ull},
    {"clock and chance", R"((module (memory (export "memory") 1) (func (export "run") (result i32 f64)
       (call $io.println (call $time.format! (call $time.now_ms!)))
       (call $io.println (call $random.uuid))
       (call $random.i32) (call $random.f64))))",
     301, 12019647862972643970ull},
};

Report run_text(const char* text, const policy::Policy& policy) {
  Program program;
  program.source = text;
  program.input = "an input";
  RunOptions options;
  options.policy = policy;
  return run(program, options);
}

policy::Policy with_kv() {
  policy::Policy p;
  p.kv.emplace();
  return p;
}

uint64_t hash_of(const Report& report) {
  std::string text = std::string(name_of(report.outcome)) + "|" + report.stdout_text + "|" +
                     report.stderr_text + "|" + report.result + "|" +
                     std::to_string(report.memory_peak_bytes);
  for (const ReportValue& v : report.results) text += "|" + v.type + " " + v.value;
  for (const ReportError& e : report.errors) {
    text += "|" + e.code;
    for (const ReportPlace& p : e.backtrace)
      text += " " + p.function + ":" + std::to_string(p.line) + ":" + std::to_string(p.column);
  }
  for (const HostCallRecord& c : report.host_calls) text += "|" + c.name + " " + c.error + " " + c.arguments;
  uint64_t hash = 0xCBF29CE484222325ull;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001B3ull;
  return hash;
}

constexpr int kRuns = kIsSanitized ? 50 : 1'000;

// The same in every build with every compiler: a change here changes what programs observe.
TEST(SandboxDeterminism, FuelAndOutputAreTheCommittedOnes) {
  for (const Golden& golden : kGolden) {
    const Report report = run_text(golden.text, with_kv());
    EXPECT_EQ(report.fuel_used, golden.fuel) << golden.name;
    EXPECT_EQ(hash_of(report), golden.hash) << golden.name << "\n" << render_text(report, false);
  }
}

TEST(SandboxDeterminism, AThousandRunsAreOneRunAlsoBesideBusyThreads) {
  std::atomic<bool> done = false;
  const auto busy = [&done] {
    while (!done) run_text(kGolden[1].text, {});
  };
  std::jthread first(busy), second(busy);
  for (const Golden& golden : kGolden) {
    int differing = 0;
    for (int i = 0; i < kRuns; ++i) {
      const Report report = run_text(golden.text, with_kv());
      differing += report.fuel_used != golden.fuel || hash_of(report) != golden.hash;
    }
    EXPECT_EQ(differing, 0) << golden.name;
  }
  done = true;
}

TEST(SandboxDeterminism, AJournalReplaysWithNothingGrantedAndNothingThere) {
  std::string pattern = (std::filesystem::temp_directory_path() / "membrane-replay-XXXXXX").string();
  ASSERT_NE(mkdtemp(pattern.data()), nullptr);
  Program program;
  program.source = R"((module (memory (export "memory") 1) (func (export "run") (result i32 i64)
    (call $fs.write! (string "/out/note") (call $random.uuid))
    (call $io.println (call $fs.read! (string "/out/note")))
    (call $kv.set! (string "k") (call $time.format! (call $time.now_ms!)))
    (call $io.result (call $kv.get! (string "k")))
    (call $random.i32) (call $time.now_ms!))))";
  RunOptions live;
  live.policy = with_kv();
  live.policy.fs.push_back({.guest = "/out", .host = pattern, .mode = policy::FsMode::kWrite});
  live.policy.time.real = true;
  live.policy.random.real = true;
  host::Journal journal;
  live.record = &journal;
  const Report recorded = run(program, live);
  std::filesystem::remove_all(pattern);
  ASSERT_EQ(recorded.outcome, Outcome::kOk) << render_text(recorded, false);
  ASSERT_GE(journal.entries().size(), 6u);

  const auto read_back = host::Journal::parse(journal.to_text());
  ASSERT_TRUE(read_back);
  RunOptions nothing;  // an empty policy
  nothing.replay = &*read_back;
  const Report replayed = run(program, nothing);
  EXPECT_EQ(replayed.outcome, Outcome::kOk) << render_text(replayed, false);
  EXPECT_EQ(replayed.fuel_used, recorded.fuel_used);
  EXPECT_EQ(hash_of(replayed), hash_of(recorded));
  EXPECT_FALSE(std::filesystem::exists(pattern));
}

TEST(SandboxDeterminism, AReplayThatAsksSomethingElseSaysWhichCallAndHow) {
  Program program;
  program.source = R"((func (export "run") (call $kv.set! (string "k") (string "1"))))";
  RunOptions live;
  live.policy = with_kv();
  host::Journal journal;
  live.record = &journal;
  ASSERT_EQ(run(program, live).outcome, Outcome::kOk);

  RunOptions replay;
  replay.replay = &journal;
  program.source = R"((func (export "run") (call $kv.set! (string "k") (string "2"))))";
  const Report report = run(program, replay);
  EXPECT_EQ(report.outcome, Outcome::kDiverged) << render_text(report, false);
  ASSERT_EQ(report.errors.size(), 1u);
  EXPECT_EQ(report.errors[0].code, "replay_diverged");
  EXPECT_NE(report.errors[0].message.find("call 1 is kv.set(k, 2)"), std::string::npos);
  EXPECT_NE(report.errors[0].message.find("kv.set with other arguments"), std::string::npos);
}

TEST(SandboxDeterminism, AReplayThatEndsBeforeItsJournalSaysWhatIsLeft) {
  Program program;
  program.source =
      R"((func (export "run") (call $kv.set! (string "k") (string "1")) (call $time.now_ms!) drop))";
  RunOptions live;
  live.policy = with_kv();
  host::Journal journal;
  live.record = &journal;
  ASSERT_EQ(run(program, live).outcome, Outcome::kOk);

  RunOptions replay;
  replay.replay = &journal;
  program.source = R"((func (export "run") (call $kv.set! (string "k") (string "1"))))";
  const Report report = run(program, replay);
  EXPECT_EQ(report.outcome, Outcome::kDiverged) << render_text(report, false);
  ASSERT_EQ(report.errors.size(), 1u);
  EXPECT_NE(
      report.errors[0].message.find("ended after 1 of the journal's 2 calls, and the next is time.now_ms"),
      std::string::npos)
      << report.errors[0].message;

  program.source = R"((func (export "run") (call $kv.set! (string "k") (string "1")) (loop (br 0))))";
  replay.policy.limits.fuel = 10'000;
  EXPECT_EQ(run(program, replay).outcome, Outcome::kOutOfFuel) << "which says enough";
}

}  // namespace
}  // namespace membrane::sandbox
