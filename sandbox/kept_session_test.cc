// Sessions as bytes: a saved and restored session behaves like one that was not saved. Skipped if the language is
// not installed (tools/get-languages); Python also in builds with sanitizers.

#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "base/environment.h"
#include "sandbox/kept_session_testing.h"
#include "sandbox/session_state.h"
#include "sandbox/template_testing.h"

namespace membrane::sandbox {
namespace {

namespace fs = std::filesystem;

RunOptions options() {
  RunOptions options;
  options.policy.limits = policy::language_limits();
  options.policy.limits.memory_bytes = 64u << 20;
  options.policy.limits.fuel = 300'000'000;
  options.policy.limits.wall_ms = 600'000;
  return options;
}

struct Dialect {
  const char* name;
  const char* first;               // what the others depend on
  std::vector<const char*> turns;  // in any order
};
void PrintTo(const Dialect& dialect, std::ostream* out) { *out << dialect.name; }

// State of each kind: names, objects, files that are written, open and removed, the clock, randomness of both kinds,
// output, errors, turns that are undone for each reason, files of a granted directory that stay open. (Inode numbers
// and times of those are not compared, since they are the machine's.)
const Dialect kPython{"python",
                      "import os, random, time, json\nn, words, handle = 0, {}, None",
                      {"n += 1\nwords[n] = [n] * n\nlen(words)",
                       "random.random(), random.randrange(10**9)",
                       "os.urandom(6).hex()",
                       "time.sleep(0.25)\ntime.time(), time.monotonic()",
                       "print('said', n)\nn",
                       "open(f'/tmp/{n}.txt', 'w').write('x' * n * 100)",
                       "handle = open('/tmp/log', 'a+')\nhandle.write(f'{n} ')",
                       "handle.write('more') if handle else None",
                       "(handle.seek(0), handle.read()) if handle else None",
                       "sorted(os.listdir('/tmp'))",
                       "[os.remove('/tmp/' + name) for name in os.listdir('/tmp')]",
                       "given = open('/data/given.txt')\ngiven.read(3)",
                       "given.read(4) if 'given' in globals() else None",
                       "open('/data/made.txt', 'a').write('m')\nlen(open('/data/made.txt').read())",
                       "open('/nowhere/x')",
                       "try: open('/nowhere/y')\nexcept OSError: pass",
                       "raise PermissionError(13, 'because /nowhere/y')",
                       "raise ValueError(n)",
                       "def f(k): return k if k < 2 else f(k - 1) + f(k - 2)\nf(12)",
                       "while True: n += 1",
                       "hog = [bytearray(1 << 20) for _ in range(1000)]",
                       "x = bytearray(3_000_000)\nx[::1000] = b'1' * 3000\nlen(x)",
                       "words.clear()",
                       "import sys\nsys.exit(3)",
                       "json.dumps({'n': n, 'words': list(words)})",
                       "import collections, dataclasses, textwrap\ntextwrap.wrap('a b c d', 3)",
                       "def g():\n  for i in range(100): yield random.random() + i\nit = g()",
                       "next(it) if 'it' in globals() else None"}};

const Dialect kJavaScript{
    "js",
    "const fs = require('fs'); var n = 0, words = new Map(), it",
    {"n += 1; words.set(n, Array(n).fill(n)); words.size",
     "[Math.random(), crypto.randomUUID()].join()",
     "await new Promise(r => setTimeout(r, 250)); [Date.now(), performance.now()].join()",
     "console.log('said', n); n",
     "fs.writeFileSync(`/tmp/${n}.txt`, 'x'.repeat(n * 100))",
     "fs.readdirSync('/tmp').join()",
     "for (const f of fs.readdirSync('/tmp')) fs.rmSync('/tmp/' + f)",
     "fs.readFileSync('/data/given.txt', 'utf8')",
     "fs.appendFileSync('/data/made.txt', 'm'); fs.readFileSync('/data/made.txt').length",
     "var fd = fs.openSync('/tmp/log', 'a+'); fs.writeSync(fd, `${n} `)",
     "typeof fd === 'number' ? fs.writeSync(fd, 'more') : 0",
     "fs.readFileSync('/nowhere/x')",
     "try { fs.readFileSync('/nowhere/y') } catch {}",
     "throw new RangeError(n)",
     "for (;;) n++",
     "const hog = []; for (;;) hog.push(new Uint8Array(1 << 20).fill(1))",
     "var big = new Float64Array(300000).map((_, i) => i / 7); big.length",
     "words.clear()",
     "process.exit(3)",
     "it = (function* () { for (let i = 0;; i++) yield Math.random() + i })(); 0",
     "it ? it.next().value : 0",
     "new Promise(r => { globalThis.later = r }).then(v => console.log('later', v)); 0",
     "globalThis.later ? later(n) : 0"}};

// The surroundings of a session; two sessions that are compared have one each.
class World {
 public:
  explicit World(const char* name)
      : directory_(fs::path(::testing::TempDir()) / ("kept-session-" + std::to_string(getpid()) + name)) {
    fs::remove_all(directory_);
    fs::create_directories(directory_);
    std::ofstream(directory_ / "given.txt") << "abcdefghijklmnopqrstuvwxyz";
  }
  ~World() { fs::remove_all(directory_); }
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  [[nodiscard]] RunOptions options_of() const {
    RunOptions made = options();
    made.policy.fs.push_back({.guest = "/data", .host = directory_, .mode = policy::FsMode::kWrite});
    return made;
  }
  // Replaces the names of the machine's directory in messages, so that they compare equal.
  [[nodiscard]] std::string comparable_here(Report report) const {
    std::string text = comparable(std::move(report));
    const std::string name = directory_.string();
    for (size_t at = 0; (at = text.find(name, at)) != std::string::npos;)
      text.replace(at, name.size(), "HERE");
    return text;
  }

 private:
  fs::path directory_;
};

class KeptSession : public ::testing::TestWithParam<Dialect> {
 protected:
  void SetUp() override {
    template_ = open_template(GetParam().name);
    if (template_ == nullptr) GTEST_SKIP() << GetParam().name << " is not installed, or not for this build";
  }
  std::unique_ptr<Session> make(const RunOptions& run_options = options()) {
    auto made = Session::create(template_, run_options);
    EXPECT_TRUE(made) << made.error().message;
    return *std::move(made);
  }
  std::unique_ptr<Session> again(const Session& session, const RunOptions& run_options = options()) {
    return kept_and_restored(session, template_, run_options);
  }

  std::shared_ptr<const Template> template_;
};

TEST_P(KeptSession, GoesOnAsOneThatWasNotKept) {
  const Dialect& dialect = GetParam();
  for (uint32_t seed = 0; seed < 8; ++seed) {
    const World here("-here"), there("-there");
    std::mt19937 random(seed);
    auto session = make(here.options_of()), kept = make(there.options_of());
    for (int turn = 0; turn < 14; ++turn) {
      SCOPED_TRACE("seed " + std::to_string(seed) + " turn " + std::to_string(turn));
      if (random() % 2 == 0) kept = again(*kept, there.options_of());
      if (random() % 8 == 0) {
        const uint64_t number = random() % 3;
        expect_kept_fork(*session, number);
        session = session->fork(number).value();
        kept = Session::restore(template_, kept->keep_fork(number).value(), there.options_of()).value();
      }
      const std::string code = turn == 0 ? dialect.first : dialect.turns[random() % dialect.turns.size()];
      const Report one = session->exec({.code = code}), other = kept->exec({.code = code});
      ASSERT_EQ(here.comparable_here(one), there.comparable_here(other)) << code;
    }
  }
}

TEST_P(KeptSession, GoesOnWhereItsTurnWasPaused) {
  const Dialect& dialect = GetParam();
  for (uint32_t seed = 0; seed < 8; ++seed) {
    const World here("-here"), there("-there");
    std::mt19937 random(seed);
    auto session = make(here.options_of()), kept = make(there.options_of());
    for (int turn = 0; turn < 6; ++turn) {
      const std::string code = turn == 0 ? dialect.first : dialect.turns[random() % dialect.turns.size()];
      SCOPED_TRACE("seed " + std::to_string(seed) + " turn " + std::to_string(turn) + ": " + code);
      const uint64_t pause = random() % 20'000'000;
      Report one = session->exec({.code = code, .pause_at_fuel = pause});
      Report other = kept->exec({.code = code, .pause_at_fuel = pause});
      ASSERT_EQ(here.comparable_here(one), there.comparable_here(other));
      while (one.outcome == Outcome::kFrozen) {
        auto restored = again(*kept, there.options_of());
        if (restored == nullptr) return;
        kept = std::move(restored);
        EXPECT_EQ(kept->paused_at_fuel(), session->paused_at_fuel());
        const uint64_t next = one.fuel_used + 1 + random() % 200'000'000;
        one = session->go_on(next);
        other = kept->go_on(next);
        ASSERT_EQ(here.comparable_here(one), there.comparable_here(other));
      }
    }
  }
}

TEST_P(KeptSession, IsSmallAfterItsFirstTurnAndTouchesOnlyThePagesThatChanged) {
  constexpr size_t kMostBytes = 64u << 10;
  auto session = make();
  EXPECT_EQ(session->exec({.code = "x = 20"}).outcome, Outcome::kOk);
  const std::vector<uint8_t> bytes = session->keep().value();
  EXPECT_LE(bytes.size(), kMostBytes);
  const auto back = Session::restore(template_, bytes, options());
  ASSERT_TRUE(back) << back.error().message;
  if (session->private_bytes()) EXPECT_LE(*(*back)->private_bytes(), *session->private_bytes());
  EXPECT_EQ((*back)->exec({.code = "x + 22"}).result, "42");
  EXPECT_LE(make()->keep().value().size(), 8u << 10) << "one that has run nothing";
}

// It is scanned once, and again after it has run.
TEST_P(KeptSession, IsTheSameUntilItRuns) {
  const Dialect& dialect = GetParam();
  auto session = make();
  EXPECT_EQ(session->exec({.code = dialect.first}).outcome, Outcome::kOk);
  const std::vector<uint8_t> first = session->keep().value(), fork = session->keep_fork(1).value();
  EXPECT_EQ(session->keep().value(), first);
  EXPECT_EQ(session->keep_fork(1).value(), fork);
  EXPECT_NE(session->keep_fork(2).value(), fork);
  EXPECT_EQ(Session::restore(template_, first, options()).value()->keep().value(), first);
  const std::string counted = session->exec({.code = dialect.turns.front()}).result;
  const std::vector<uint8_t> later = session->keep().value();
  EXPECT_NE(later, first);
  EXPECT_NE(session->keep_fork(1).value(), fork);
  // A turn that is undone leaves the previous state.
  RunOptions short_of_fuel = options();
  short_of_fuel.policy.limits.fuel = 1000;
  const auto restored = Session::restore(template_, first, short_of_fuel).value();
  EXPECT_EQ(restored->exec({.code = dialect.turns.front()}).outcome, Outcome::kOutOfFuel);
  const auto undone = Session::restore(template_, restored->keep().value(), options()).value();
  EXPECT_EQ(undone->exec({.code = dialect.turns.front()}).result, counted);
}

TEST_P(KeptSession, IsRefusedCutDamagedOrOfAnotherTemplate) {
  auto session = make();
  session->exec({.code = "x = 20"});
  const std::vector<uint8_t> bytes = session->keep().value();
  const auto code_of = [&](std::span<const uint8_t> given) {
    const auto restored = Session::restore(template_, given, options());
    return restored ? ErrorCode::kInternal : restored.error().code;
  };
  std::mt19937 random(1);
  for (int i = 0; i < 200; ++i) {
    std::vector<uint8_t> damaged = bytes;
    const size_t at = i < 40 ? static_cast<size_t>(i) : random() % bytes.size();
    damaged[at] ^= static_cast<uint8_t>(1u << random() % 8);
    const ErrorCode code = code_of(damaged);
    EXPECT_TRUE(code == ErrorCode::kInvalidInput || (at >= 8 && at < 16 && code == ErrorCode::kUnsupported))
        << at;
    EXPECT_EQ(code_of(std::span(bytes).first(random() % bytes.size())), ErrorCode::kInvalidInput);
  }
  std::vector<uint8_t> newer = bytes;
  newer[8] = 0xff;  // versions 1 and 2 are known
  EXPECT_EQ(code_of(newer), ErrorCode::kUnsupported);
  std::vector<uint8_t> other = bytes;
  const size_t identity_at = 40 + 8 + template_->package().name.size();
  other[identity_at] ^= 1;
  ASSERT_TRUE(repair_session_checksum(other));
  EXPECT_EQ(code_of(other), ErrorCode::kInvalidInput);
  EXPECT_NE(Session::restore(template_, other, options()).error().message.find(template_->package().name),
            std::string::npos);
}

// Forged bytes are refused, or give a session whose turns end.
TEST_P(KeptSession, ThatSomebodyForgedStaysInsideOfItsLimits) {
  RunOptions run_options = options();
  run_options.policy.limits.fuel = 20'000'000;
  auto session = make(run_options);
  session->exec({.code = GetParam().first});
  session->exec({.code = GetParam().turns.front(), .pause_at_fuel = 1'000'000});
  const std::vector<uint8_t> bytes = session->keep().value();
  std::mt19937 random(7);
  int taken = 0;
  for (int i = 0; i < 150; ++i) {
    std::vector<uint8_t> forged = bytes;
    for (uint32_t edits = 1 + random() % 4; edits > 0; --edits)
      forged[40 + random() % (bytes.size() - 40)] = static_cast<uint8_t>(random());
    ASSERT_TRUE(repair_session_checksum(forged));
    const auto restored = Session::restore(template_, forged, run_options);
    if (!restored) continue;
    ++taken;
    if ((*restored)->paused_at_fuel()) static_cast<void>((*restored)->go_on());
    const Report report = (*restored)->exec({.code = "1"});
    EXPECT_LE(report.memory_peak_bytes,
              template_->image().memory_bytes() + run_options.policy.limits.memory_bytes);
  }
  EXPECT_GT(taken, 0);
}

TEST_P(KeptSession, IsRefusedWhereItsPolicyHasNoRoom) {
  auto session = make();
  const bool is_python = std::string_view(GetParam().name) == "python";
  ASSERT_EQ(
      session->exec({.code = is_python ? "big = bytearray(40 << 20)" : "var big = new Uint8Array(40 << 20)"})
          .outcome,
      Outcome::kOk);
  const std::vector<uint8_t> bytes = session->keep().value();
  RunOptions less = options();
  less.policy.limits.memory_bytes = 8u << 20;
  const auto refused = Session::restore(template_, bytes, less);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kExhausted);
  EXPECT_TRUE(Session::restore(template_, bytes, options()));
}

// The two processes of one test: this one saves, the other restores.
constexpr const char* kOther = "MEMBRANE_TEST_KEPT_SESSION";

TEST_P(KeptSession, GoesOnInAnotherProcess) {
  const Dialect& dialect = GetParam();
  const std::string code = std::string_view(dialect.name) == "python"
                               ? "x = 20 + random.randrange(100)\nx, os.urandom(4).hex()"
                               : "x = Math.random(); x + crypto.randomUUID()";
  const std::string given = environment_variable(kOther);
  if (!given.empty()) {  // the child process
    std::ifstream in(given, std::ios::binary);
    const std::vector<uint8_t> bytes((std::istreambuf_iterator<char>(in)), {});
    const auto restored = Session::restore(template_, bytes, options());
    ASSERT_TRUE(restored) << restored.error().message;
    if ((*restored)->paused_at_fuel()) std::ofstream(given + ".out") << comparable((*restored)->go_on());
    else std::ofstream(given + ".out") << comparable((*restored)->exec({.code = code}));
    return;
  }
  const fs::path file = fs::path(::testing::TempDir()) / ("kept-session-" + std::to_string(getpid()));
  const std::string test = ::testing::UnitTest::GetInstance()->current_test_info()->name();
  for (const bool is_paused : {false, true}) {
    auto session = make();
    session->exec({.code = dialect.first});
    session->exec({.code = dialect.turns.front()});
    if (is_paused)
      ASSERT_EQ(session->exec({.code = dialect.turns.back(), .pause_at_fuel = 100'000}).outcome,
                Outcome::kFrozen);
    const std::vector<uint8_t> bytes = session->keep().value();
    std::ofstream(file, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    std::string filter = "--gtest_filter=*KeptSession." + test;
    std::string program = fs::read_symlink("/proc/self/exe");
    char* arguments[] = {program.data(), filter.data(), nullptr};
    ASSERT_EQ(setenv(kOther, file.c_str(), 1), 0);
    pid_t other = 0;
    ASSERT_EQ(posix_spawn(&other, program.c_str(), nullptr, nullptr, arguments, environ), 0);
    unsetenv(kOther);
    int status = 0;
    ASSERT_EQ(waitpid(other, &status, 0), other);
    EXPECT_EQ(status, 0);
    std::ifstream out(file.string() + ".out");
    const std::string there((std::istreambuf_iterator<char>(out)), {});
    EXPECT_EQ(there, comparable(is_paused ? session->go_on() : session->exec({.code = code})));
    fs::remove(file);
    fs::remove(file.string() + ".out");
  }
}

// A warm image may be lost, and rebuilt.
TEST_P(KeptSession, GoesOnWithATemplateThatWasMadeAgain) {
  auto session = make();
  ASSERT_EQ(session->exec({.code = "x = 20"}).outcome, Outcome::kOk);
  const fs::path cache = fs::path(::testing::TempDir()) / ("kept-session-cache-" + std::to_string(getpid()));
  fs::remove_all(cache);
  for (const bool is_made : {true, false}) {
    const auto other = Template::open(template_->package(), {.cache_directory = cache, .on_progress = {}});
    ASSERT_TRUE(other) << other.error().message;
    EXPECT_EQ((*other)->identity().value(), template_->identity().value()) << is_made;
    EXPECT_EQ((*other)->files()->digest().value(), template_->files()->digest().value());
    const auto restored = Session::restore(*other, session->keep().value(), options());
    ASSERT_TRUE(restored) << restored.error().message;
    EXPECT_EQ((*restored)->exec({.code = "x + 22"}).result, "42");
  }
  fs::remove_all(cache);
}

INSTANTIATE_TEST_SUITE_P(Languages, KeptSession, ::testing::Values(kPython, kJavaScript),
                         [](const auto& dialect) { return std::string(dialect.param.name); });

class KeptPython : public ::testing::Test {
 protected:
  void SetUp() override {
    template_ = open_template("python");
    if (template_ == nullptr) GTEST_SKIP() << "Python is not installed, or not for this build";
  }
  std::shared_ptr<const Template> template_;
};

TEST_F(KeptPython, AStoreInMemoryIsRefusedOnceItWasUsed) {
  RunOptions with = options();
  with.policy.kv = policy::KvGrant{};
  auto session = Session::create(template_, with).value();
  EXPECT_TRUE(session->keep());
  ASSERT_EQ(session->exec({.code = "from membrane import kv\nkv.set('a', 'b')"}).outcome, Outcome::kOk);
  EXPECT_EQ(session->keep().error().code, ErrorCode::kUnsupported);
}

TEST_F(KeptPython, FilesOverItsOwnArePartOfTheTemplate) {
  const std::string text = "def seven(): return 7\n", other_text = "def seven(): return 8\n";
  const auto over = [&](const std::string& module) {
    const wasi::Layer layer{.path = "/packages/seven.py",
                            .bytes = {reinterpret_cast<const uint8_t*>(module.data()), module.size()}};
    return Template::over(template_, {layer}, "/packages").value();
  };
  const auto first = over(text), other = over(other_text);
  auto session = Session::create(first, options()).value();
  ASSERT_EQ(session->exec({.code = "import seven"}).outcome, Outcome::kOk);
  const std::vector<uint8_t> bytes = session->keep().value();
  EXPECT_EQ(Session::restore(over(text), bytes, options()).value()->exec({.code = "seven.seven()"}).result,
            "7");
  EXPECT_EQ(Session::restore(other, bytes, options()).error().code, ErrorCode::kInvalidInput);
  EXPECT_EQ(Session::restore(template_, bytes, options()).error().code, ErrorCode::kInvalidInput);
}

TEST_F(KeptPython, InputThatWasReadAheadIsStillThere) {
  const auto with_input = [](size_t& at) {
    RunOptions with = options();
    with.read_input = [&at](std::chrono::milliseconds) {
      InputPiece piece{.bytes = std::string(50'000, static_cast<char>('a' + at)), .is_end = ++at == 4};
      return piece;
    };
    return with;
  };
  const std::string code = "import sys\nt = sys.stdin.read(60_000)\nt[0] + t[-1], len(t)";
  size_t here = 0, there = 0;
  auto session = Session::create(template_, with_input(here)).value();
  auto kept = Session::create(template_, with_input(there)).value();
  for (int turn = 0; turn < 5; ++turn) {
    EXPECT_EQ(comparable(session->exec({.code = code})), comparable(kept->exec({.code = code}))) << turn;
    kept = kept_and_restored(*kept, template_, with_input(there));
  }
}

}  // namespace
}  // namespace membrane::sandbox
