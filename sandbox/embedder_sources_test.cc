// Steps back in sessions whose embedder provides time, sleep and entropy: the embedder is never asked twice. Skipped
// if the language is not installed (tools/get-languages); Python also in builds with sanitizers.

#include <gtest/gtest.h>

#include <random>

#include "host/sources.h"
#include "sandbox/kept_session_testing.h"
#include "sandbox/session_state.h"
#include "sandbox/template_testing.h"

namespace membrane::sandbox {
namespace {

// Gives a different answer each time that it is asked.
struct Embedder {
  int64_t readings = 0;
  std::vector<uint64_t> slept_ns;
  uint8_t next_byte = 0;

  [[nodiscard]] RunOptions options() {
    RunOptions made;
    made.policy.limits = policy::language_limits();
    made.policy.limits.memory_bytes = 32u << 20;
    made.policy.limits.fuel = 60'000'000;
    made.policy.limits.wall_ms = 600'000;
    made.policy.time.real = made.policy.random.real = true;
    host::Sources sources;
    sources.now_ns = [this] { return std::optional(1'767'258'600'000'000'000 + readings++ * 1'234'567); };
    sources.sleep = host::Sources::Sleep::kAsked;
    sources.sleep_ns = [this](uint64_t ns, const std::function<bool()>&) {
      slept_ns.push_back(ns);
      return slept_ns.size() % 4 != 0;  // some fail
    };
    sources.fill = [this](std::span<uint8_t> bytes) {
      for (uint8_t& byte : bytes) byte = next_byte++;
      return true;
    };
    made.sources = std::make_shared<const host::Sources>(std::move(sources));
    return made;
  }
  friend bool operator==(const Embedder&, const Embedder&) = default;
};

struct Dialect {
  const char* name;
  const char* first;                 // what the others depend on
  std::vector<const char*> turns;    // that ask nothing of the embedder, in any order
  std::vector<const char*> asking;   // likewise, but they ask
  std::vector<const char*> failing;  // that ask, and are undone
};
void PrintTo(const Dialect& dialect, std::ostream* out) { *out << dialect.name; }

const Dialect kPython{
    "python",
    "import os, random, time, uuid, datetime\nn, log = 0, []",
    {"n += 1\nn", "log.append(n)\nlen(log)", "words = {i: str(i) for i in range(n)}", "log[-3:]",
     "random.random()", "print('said', n)", "raise ValueError(n)", "def f(k): return k + n\nf(2)"},
    {"log.append(time.time_ns())", "log.append(time.monotonic_ns())", "log.append(os.urandom(4))",
     "time.sleep(0.25)", "log.append(datetime.datetime.now())", "str(uuid.uuid4())",
     "open('/tmp/log', 'a').write(str(log))"},
    {"log.append(time.time_ns())\nos.urandom(2)\nwhile True: n += 1",
     "log.clear()\ntime.time()\nhog = [bytearray(1 << 20) for _ in range(100)]"}};

const Dialect kJavaScript{
    "js",
    "var n = 0, log = []",
    {"n += 1", "log.push(n)", "var words = new Map(log.map((each, i) => [i, String(each)])); words.size",
     "log.slice(-3).join()", "Math.random()", "console.log('said', n)", "throw new RangeError(n)",
     "function f(k) { return k + n }; f(2)"},
    {"log.push(Date.now())", "log.push(performance.now())", "log.push(crypto.randomUUID())",
     "log.push(new Date().toISOString())", "setTimeout(() => log.push('slept'), 250); 0",
     "require('fs').appendFileSync('/tmp/log', log.join())"},
    {"log.push(Date.now()); crypto.randomUUID(); for (;;) n++",
     "log = [Date.now()]; const hog = []; for (;;) hog.push(new Uint8Array(1 << 20).fill(1))"}};

class AnEmbedderThatIsAsked : public ::testing::TestWithParam<Dialect> {
 protected:
  void SetUp() override {
    template_ = open_template(GetParam().name);
    if (template_ == nullptr) GTEST_SKIP() << GetParam().name << " is not installed, or not for this build";
  }
  std::unique_ptr<Session> session_of(Embedder& embedder) {
    auto made = Session::create(template_, embedder.options());
    EXPECT_TRUE(made) << made.error().message;
    return *std::move(made);
  }
  static const char* any_of(const std::vector<const char*>& turns, std::mt19937& random) {
    return turns[random() % turns.size()];
  }
  // Mostly turns that a step back may repeat, since they ask nothing.
  static const char* any_turn(std::mt19937& random) {
    const uint32_t number = random() % 8;
    const Dialect& dialect = GetParam();
    return any_of(number == 0 ? dialect.failing : number < 3 ? dialect.asking : dialect.turns, random);
  }
  static std::vector<uint8_t> memory_of(const Session& session) {
    const auto bytes = session.keep();
    const auto state = bytes ? read_session(*bytes) : std::unexpected(bytes.error());
    EXPECT_TRUE(state) << state.error().message;
    return state ? std::vector<uint8_t>(state->place.changes.begin(), state->place.changes.end())
                 : std::vector<uint8_t>();
  }

  std::shared_ptr<const Template> template_;
};

// Of two identical sessions, one is saved before each turn and returns to that state; the other repeats turns.
TEST_P(AnEmbedderThatIsAsked, IsNotAskedAgainByAStepBack) {
  const Dialect& dialect = GetParam();
  for (uint32_t seed = 0; seed < 12; ++seed) {
    std::mt19937 random(seed);
    Embedder of_copies, of_steps;
    auto copies = session_of(of_copies), steps = session_of(of_steps);
    const auto both_run = [&](const char* code) {
      ASSERT_TRUE(copies->keep());
      const Report one = copies->exec({.code = code}), other = steps->exec({.code = code});
      ASSERT_EQ(comparable(one), comparable(other)) << code;
      ASSERT_EQ(of_copies, of_steps) << "a step back asked for more after " << code;
    };
    both_run(dialect.first);
    for (int turn = 0; turn < 16; ++turn) {
      SCOPED_TRACE("seed " + std::to_string(seed) + " turn " + std::to_string(turn));
      both_run(any_turn(random));
      if (HasFatalFailure()) return;
    }
    const std::vector<uint8_t> before = memory_of(*copies);
    both_run(any_of(dialect.failing, random));
    if (HasFatalFailure()) return;
    EXPECT_TRUE(memory_of(*steps) == before)
        << "seed " << seed << ": the memory is another than before the turn";
  }
}

// Saved bytes record the zone that the program has been given: it is not given again, which would take fuel.
TEST_P(AnEmbedderThatIsAsked, HasTheZoneThatItChoseInASessionThatWasKept) {
  const bool is_python = GetParam().name == std::string_view("python");
  const std::string hour = is_python ? "import time\ntime.localtime(0).tm_hour" : "new Date(0).getHours()";
  const std::vector<std::string> turns = {hour, GetParam().first, hour, GetParam().failing[0], hour};
  Embedder here, there;
  const auto in_zone = [](Embedder& embedder, const char* name) {
    RunOptions made = embedder.options();
    if (name != nullptr)
      made.time_zone = std::make_shared<const host::TimeZone>(host::find_time_zone(name).value());
    return made;
  };
  auto session = Session::create(template_, in_zone(here, "+02:00")).value();
  auto kept = Session::create(template_, in_zone(there, "+02:00")).value();
  for (const std::string& code : turns) {
    ASSERT_EQ(comparable(session->exec({.code = code})), comparable(kept->exec({.code = code}))) << code;
    kept = kept_and_restored(*kept, template_, in_zone(there, "+02:00"));
    ASSERT_NE(kept, nullptr);
  }
  const auto bytes = kept->keep().value();
  for (const auto& [name, shown] :
       {std::pair("-03:30", "20"), std::pair<const char*, const char*>(nullptr, "0")}) {
    auto elsewhere = Session::restore(template_, bytes, in_zone(there, name)).value();
    EXPECT_EQ(elsewhere->exec({.code = hour}).result, shown);
    EXPECT_EQ(elsewhere->exec({.code = GetParam().failing[0]}).outcome, Outcome::kOutOfFuel);
    EXPECT_EQ(elsewhere->fork(0).value()->exec({.code = hour}).result, shown);
  }
}

INSTANTIATE_TEST_SUITE_P(Languages, AnEmbedderThatIsAsked, ::testing::Values(kPython, kJavaScript),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace membrane::sandbox
