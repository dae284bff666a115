// A session's clock, time zone, sleep and entropy as an embedder chooses them, in C++ and in C. Skipped where a language is not
// installed (tools/get-languages); Python also in builds with sanitizers.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "base/sanitized_testing.h"
#include "face/place_testing.h"
#include "membrane/session.h"
#include "membrane/session.hpp"

namespace membrane {
namespace {

constexpr int64_t kStartMs = 1'767'258'600'000;  // 2026-01-01T09:10:00Z
constexpr int64_t kNsPerMs = 1'000'000;

class Sources : public WithLanguage<::testing::TestWithParam<SessionPlace>> {
 protected:
  void open(const std::string& name) {
    if (kIsSanitized && name == "python") GTEST_SKIP() << "compiling Python takes minutes in this build";
    use_language(name);
  }
  Session session(SessionOptions options = {}) {
    put(options, GetParam() == SessionPlace::kIsolated);
    auto made = Session::create(language_, std::move(options));
    EXPECT_TRUE(made) << made.error().message;
    return *std::move(made);
  }
  Expected<Session> load(const std::vector<uint8_t>& bytes, SessionOptions options = {}) {
    put(options, GetParam() == SessionPlace::kIsolated);
    return Session::load(language_, bytes, std::move(options));
  }
  static std::string text(Session& of, const std::string& code) {
    const Report report = of.run({.code = code});
    return report.outcome == Outcome::kOk ? report.result
                                          : std::string(name_of(report.outcome)) + ": " +
                                                (report.failures.empty() ? "" : report.failures[0].message);
  }
};

class SourcesInJavaScript : public Sources {
  void SetUp() override { open("js"); }
};
class SourcesInPython : public Sources {
  void SetUp() override { open("python"); }
};

INSTANTIATE_TEST_SUITE_P(Places, SourcesInJavaScript, kPlaces, name_of_place);
INSTANTIATE_TEST_SUITE_P(Places, SourcesInPython, kPlaces, name_of_place);

// -- clock ----------------------------------------------------------------------------------------------------------

TEST_P(SourcesInJavaScript, AVirtualClockStartsAtTheGivenTime) {
  Session of = session({.clock = SessionClock::starting_at(kStartMs)});
  EXPECT_EQ(text(of, "new Date(Math.floor(Date.now() / 1000) * 1000).toISOString()"),
            "'2026-01-01T09:10:00.000Z'");
  EXPECT_EQ(text(of, "var t = Date.now(); setTimeout(() => { t = Date.now() - t }, 3600000); 0"), "0");
  EXPECT_EQ(text(of, "t >= 3600000 && t < 3601000"), "true");
}

TEST_P(SourcesInJavaScript, AClockIsAsked) {
  int64_t now_ms = kStartMs;
  Session of = session({.clock = SessionClock::asked([&] { return std::optional(now_ms * kNsPerMs); })});
  EXPECT_EQ(text(of, "var m = performance.now(); Date.now()"), std::to_string(kStartMs));
  now_ms += 5000;
  EXPECT_EQ(text(of, "[Date.now(), performance.now() - m]"),
            "[ " + std::to_string(kStartMs + 5000) + ", 5000 ]");
  now_ms -= 60'000;  // it is set back: what has passed stays
  EXPECT_EQ(text(of, "[Date.now(), performance.now() - m]"),
            "[ " + std::to_string(kStartMs - 55'000) + ", 5000 ]");
  // Without a choice a sleep takes no time, and the clock is as far on.
  EXPECT_EQ(text(of, "setTimeout(() => {}, 90000); 0"), "0");
  EXPECT_EQ(text(of, "Date.now()"), std::to_string(kStartMs + 35'000));
  auto branch = of.fork();
  ASSERT_TRUE(branch);
  EXPECT_EQ(text(*branch, "Date.now()"), std::to_string(kStartMs + 35'000));
}

TEST_P(SourcesInPython, AClockIsAskedAndMayFail) {
  std::optional<int64_t> now_ns = kStartMs * kNsPerMs + 1000;
  Session of = session({.clock = SessionClock::asked([&] { return now_ns; })});
  EXPECT_EQ(text(of, "import time, datetime; time.time_ns()"), std::to_string(*now_ns));
  EXPECT_EQ(text(of, "str(datetime.datetime.now())"), "'2026-01-01 09:10:00.000001'");
  EXPECT_EQ(text(of, "m = time.monotonic_ns(); time.sleep(2); time.monotonic_ns() - m"), "2000000000");
  now_ns.reset();
  EXPECT_TRUE(text(of, "time.time()").starts_with("raised")) << text(of, "time.time()");
  now_ns = kStartMs * kNsPerMs;
  const auto bytes = of.dump();
  ASSERT_TRUE(bytes);
  // The caller that loads it chooses again. Time that has passed never goes back.
  auto again = load(*bytes, {.clock = SessionClock::starting_at(kStartMs + 86'400'000)});
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(text(*again, "str(datetime.date.today())"), "'2026-01-02'");
  auto real = load(*bytes, {.clock = SessionClock::real()});
  ASSERT_TRUE(real);
  EXPECT_EQ(text(*real, "time.time() > 1.77e9 and time.monotonic_ns() >= m"), "True");
}

TEST_P(SourcesInJavaScript, WrongChoicesAreRefused) {
  const auto refused = [&](SessionOptions options) {
    put(options, GetParam() == SessionPlace::kIsolated);
    auto made = Session::create(language_, std::move(options));
    return made ? "" : made.error().code;
  };
  EXPECT_EQ(refused({.clock = SessionClock::starting_at(-1)}), "invalid_argument");
  EXPECT_EQ(refused({.clock = SessionClock::starting_at(INT64_MAX)}), "invalid_argument");
  EXPECT_EQ(refused({.clock = SessionClock::asked(nullptr)}), "invalid_argument");
  EXPECT_EQ(refused({.sleep = SessionSleep::asked(nullptr)}), "invalid_argument");
  EXPECT_EQ(refused({.entropy = SessionEntropy::asked(nullptr)}), "invalid_argument");
  EXPECT_EQ(refused({.timezone = "../etc/passwd"}), "invalid_argument");
  EXPECT_EQ(refused({.timezone = "Nowhere/Atlantis"}), "not_found");
}

// -- sleep ----------------------------------------------------------------------------------------------------------

TEST_P(SourcesInJavaScript, ASleepIsAsked) {
  std::vector<uint64_t> slept_ms;
  bool fails = false;
  Session of =
      session({.sleep = SessionSleep::asked([&](uint64_t ns, const std::function<bool()>& must_stop) {
                 slept_ms.push_back(ns / kNsPerMs);
                 return !must_stop() && !fails;
               })});
  EXPECT_EQ(text(of, "var t = Date.now(); setTimeout(() => { t = Date.now() - t }, 250); 0"), "0");
  EXPECT_EQ(slept_ms, std::vector<uint64_t>{250});
  EXPECT_EQ(text(of, "t >= 250"), "true");  // the virtual clock has moved on, too
  fails = true;
  EXPECT_EQ(of.run({.code = "setTimeout(() => {}, 10)"}).outcome, Outcome::kTrapped);
  EXPECT_EQ(text(of, "t >= 250"), "true");
}

TEST_P(SourcesInPython, ASleepIsAskedAndMayFailOrBeCancelled) {
  std::vector<uint64_t> slept_ms;
  Session* running = nullptr;
  bool fails = false;
  SessionOptions options;
  options.sleep = SessionSleep::asked([&](uint64_t ns, const std::function<bool()>& must_stop) {
    slept_ms.push_back(ns / kNsPerMs);
    if (running != nullptr) running->cancel();
    return running != nullptr ? must_stop() : !fails;
  });
  Session of = session(std::move(options));
  EXPECT_EQ(text(of, "import time, asyncio; t = time.time(); time.sleep(2); round(time.time() - t)"), "2");
  EXPECT_EQ(text(of, "await asyncio.sleep(3)"), "");
  EXPECT_EQ(slept_ms.size(), 2u);
  EXPECT_NEAR(static_cast<double>(slept_ms[0]), 2000,
              2);  // the clock moved on when its deadline was computed
  fails = true;
  EXPECT_TRUE(text(of, "time.sleep(1)").starts_with("raised: "));
  running = &of;
  EXPECT_EQ(of.run({.code = "time.sleep(1)"}).outcome, Outcome::kCancelled);
}

TEST_P(SourcesInPython, ASleepOfAVirtualClockTakesRealTime) {
  SessionOptions options;
  options.sleep = SessionSleep::real();
  ASSERT_TRUE(options.policy.limit("wall", "1 ms"));
  Session of = session(std::move(options));
  EXPECT_EQ(of.run({.code = "import time; time.sleep(3600)"}).outcome, Outcome::kTimedOut);
}

TEST_P(SourcesInPython, ASleepOnTheMachinesClockTakesNoTime) {
  Session of = session({.clock = SessionClock::real(), .sleep = SessionSleep::at_once()});
  EXPECT_EQ(text(of,
                 "import time; a, b = time.time(), time.monotonic(); time.sleep(86400)\n"
                 "time.time() - a >= 86400 and time.monotonic() - b >= 86400"),
            "True");
  auto branch = of.fork();
  ASSERT_TRUE(branch);
  EXPECT_EQ(text(*branch, "time.time() - a >= 86400"), "True");
  const auto bytes = of.dump();
  ASSERT_TRUE(bytes);
  auto again = load(*bytes, {.clock = SessionClock::real()});
  ASSERT_TRUE(again);
  EXPECT_EQ(text(*again, "time.time() - a < 86400 and time.monotonic() - b >= 86400"), "True");
}

// -- time zone ------------------------------------------------------------------------------------------------------

TEST_P(SourcesInJavaScript, LocalTimeHasAZone) {
  Session of = session({.clock = SessionClock::starting_at(kStartMs), .timezone = "+02:00"});
  EXPECT_EQ(text(of,
                 "[new Date().getHours(), new Date().getTimezoneOffset(), Intl.DateTimeFormat()"
                 ".resolvedOptions().timeZone]"),
            "[ 11, -120, '+02:00' ]");
  EXPECT_EQ(text(of, "String(new Date(2026, 6, 1))"), "'Wed Jul 01 2026 00:00:00 GMT+0200 (GMT+02:00)'");
  EXPECT_EQ(text(of, "new Date(2026, 6, 1).toISOString()"), "'2026-06-30T22:00:00.000Z'");
  EXPECT_EQ(text(of, "new Date('2026-07-01T00:00').toISOString()"), "'2026-06-30T22:00:00.000Z'");
  EXPECT_EQ(text(of, "new Date('2026-07-01').toISOString()"), "'2026-07-01T00:00:00.000Z'");
  EXPECT_EQ(text(of, "new Date(0).toLocaleString()"), "'1/1/1970, 2:00:00 AM'");
  EXPECT_EQ(text(of, "new Date() instanceof Date && new Date().constructor === Date"), "true");
  auto branch = of.fork();
  ASSERT_TRUE(branch);
  EXPECT_EQ(text(*branch, "new Date(0).getHours()"), "2");
  // A turn that is undone takes the zone back with it.
  of.run({.code = "for (;;) {}", .pause_at_fuel = {}});
  EXPECT_EQ(text(of, "new Date(0).getHours()"), "2");
  const auto bytes = of.dump();
  ASSERT_TRUE(bytes);
  auto elsewhere = load(*bytes, {.timezone = "-05:30"});
  ASSERT_TRUE(elsewhere);
  EXPECT_EQ(text(*elsewhere, "new Date(0).toTimeString()"), "'18:30:00 GMT-0530 (GMT-05:30)'");
  auto without = load(*bytes);
  ASSERT_TRUE(without);
  EXPECT_EQ(text(*without, "[new Date(0).getHours(), new Date(2026, 0, 1).toISOString()]"),
            "[ 0, '2026-01-01T00:00:00.000Z' ]");
}

TEST_P(SourcesInPython, LocalTimeHasAZone) {
  if (!std::filesystem::exists("/usr/share/zoneinfo/Europe/Berlin")) GTEST_SKIP() << "there is no tzdata";
  SessionOptions options;
  options.clock = SessionClock::starting_at(kStartMs);
  options.timezone = "Europe/Berlin";
  Session of = session(std::move(options));
  EXPECT_EQ(text(of,
                 "from datetime import datetime, date, timezone\nimport time, os\n"
                 "datetime.now().isoformat(timespec='minutes')"),
            "'2026-01-01T10:10'");
  EXPECT_EQ(text(of, "datetime.now().astimezone().isoformat(timespec='minutes')"),
            "'2026-01-01T10:10+01:00'");
  EXPECT_EQ(text(of, "time.tzname, time.timezone, time.altzone, time.daylight, os.environ['TZ']"),
            "(('CET', 'CEST'), -3600, -7200, 1, 'Europe/Berlin')");
  EXPECT_EQ(text(of, "t = time.localtime(1782900000); t.tm_hour, t.tm_isdst, t.tm_zone, t.tm_gmtoff"),
            "(12, 1, 'CEST', 7200)");
  EXPECT_EQ(text(of, "time.strftime('%H:%M %Z %z', t), time.mktime(t), time.ctime(1782900000)"),
            "('12:00 CEST +0200', 1782900000.0, 'Wed Jul  1 12:00:00 2026')");
  EXPECT_EQ(text(of,
                 "d = datetime(2026, 7, 1, 12); d.timestamp(), str(datetime.fromtimestamp(1782900000)), "
                 "str(d.astimezone(timezone.utc)), date.fromtimestamp(0)"),
            "(1782900000.0, '2026-07-01 12:00:00', '2026-07-01 10:00:00+00:00', datetime.date(1970, 1, 1))");
  EXPECT_EQ(text(of, "class Ours(datetime): pass\ntype(Ours.now()).__name__, Ours.today().hour"),
            "('Ours', 10)");
  EXPECT_EQ(text(of, "import pandas as pd; pd.Timestamp.now().hour, pd.Timestamp(datetime.now()).hour"),
            "(10, 10)");
  const auto bytes = of.dump();
  ASSERT_TRUE(bytes);
  auto without = load(*bytes, {.clock = SessionClock::starting_at(kStartMs)});
  ASSERT_TRUE(without);
  EXPECT_EQ(text(*without, "datetime.now().hour, time.tzname, d.timestamp(), 'TZ' in os.environ"),
            "(9, ('UTC', 'UTC'), 1782907200.0, False)");
}

// -- entropy --------------------------------------------------------------------------------------------------------

constexpr const char* kDraw = "crypto.getRandomValues(new Uint8Array(8)).join() + ' ' + Math.random()";

TEST_P(SourcesInJavaScript, ASeedIsChosen) {
  const auto first = [&](SessionEntropy entropy) {
    Session of = session({.entropy = std::move(entropy)});
    return text(of, kDraw);
  };
  SessionOptions options;
  ASSERT_TRUE(options.policy.allow("random"));  // the embedder's own choice counts
  options.entropy = SessionEntropy::seeded(7);
  Session of = session(std::move(options));
  EXPECT_EQ(text(of, kDraw), first(SessionEntropy::seeded(7)));
  EXPECT_NE(first(SessionEntropy::seeded(7)), first(SessionEntropy::seeded(8)));
  EXPECT_EQ(first(SessionEntropy::seeded("seed")), first(SessionEntropy::seeded("seed")));
  const std::string is_long(100, 'x');
  EXPECT_NE(first(SessionEntropy::seeded(is_long)), first(SessionEntropy::seeded(is_long + "x")));
  EXPECT_NE(first(SessionEntropy::real()), first(SessionEntropy::real()));
  EXPECT_NE(first(SessionEntropy::seeded(0)), "");
  EXPECT_EQ(first(SessionEntropy::seeded(0)), first({}));
}

TEST_P(SourcesInJavaScript, ForksAndLoadedSessionsShareNoSeededStream) {
  Session of = session({.entropy = SessionEntropy::seeded(7)});
  const std::string before = text(of, kDraw);
  auto one = of.fork(), two = of.fork();
  ASSERT_TRUE(one && two);
  const auto bytes = of.dump();
  ASSERT_TRUE(bytes);
  const auto loaded = [&](SessionEntropy entropy) {
    auto again = load(*bytes, {.entropy = std::move(entropy)});
    return again ? text(*again, kDraw) : again.error().message;
  };
  const std::string next = text(of, kDraw);
  std::set<std::string> all{before, next, text(*one, kDraw), text(*two, kDraw)};
  EXPECT_EQ(all.size(), 4u);
  EXPECT_EQ(loaded({}), loaded({}));
  all.insert(loaded(SessionEntropy::seeded(7)));
  all.insert(loaded(SessionEntropy::seeded(8)));
  EXPECT_EQ(all.size(), 6u);
  EXPECT_EQ(loaded(SessionEntropy::seeded(8)), loaded(SessionEntropy::seeded(8)));
}

TEST_P(SourcesInJavaScript, EntropyIsAsked) {
  uint8_t next = 0;
  bool fails = false;
  const auto begin = [&](uint8_t first) {
    next = first;
    return session({.entropy = SessionEntropy::asked([&](std::span<uint8_t> bytes) {
                      for (uint8_t& byte : bytes) byte = next++;
                      return !fails;
                    })});
  };
  Session of = begin(0);
  const std::string drawn = text(of, kDraw);
  EXPECT_EQ(next, 64);  // 32 for Math.random, and as many for crypto
  Session alike = begin(0), other = begin(1);
  next = 0;
  EXPECT_EQ(text(alike, kDraw), drawn);
  next = 1;
  EXPECT_NE(text(other, kDraw), drawn);
  auto branch = of.fork();
  ASSERT_TRUE(branch);
  EXPECT_NE(text(*branch, "Math.random()"), text(of, "Math.random()"));
  EXPECT_EQ(of.complete("Math.rand").at(0), "random");
  fails = true;
  EXPECT_TRUE(text(of, "crypto.getRandomValues(new Uint8Array(3)).join()").starts_with("raised"));
}

// -- C --------------------------------------------------------------------------------------------------------------

struct CSources {
  int64_t now_ns = kStartMs * kNsPerMs;
  uint64_t slept_ns = 0;
};

bool c_now(void* user_data, int64_t* now_ns) {
  *now_ns = static_cast<CSources*>(user_data)->now_ns;
  return true;
}
bool c_pass(void* user_data, uint64_t duration_ns, membrane_must_stop must_stop, void* turn) {
  static_cast<CSources*>(user_data)->slept_ns += duration_ns;
  return !must_stop(turn);
}
bool c_fill(void*, uint8_t* bytes, size_t count) {
  std::fill_n(bytes, count, uint8_t{9});
  return true;
}

TEST_P(SourcesInJavaScript, AreChosenInC) {
  membrane_language* const language = membrane_language_open("js", nullptr, nullptr, nullptr);
  ASSERT_NE(language, nullptr);
  CSources of;
  membrane_sources sources = {.size = sizeof sources,
                              .clock = MEMBRANE_SOURCE_ASKED,
                              .clock_start_ms = 0,
                              .now = c_now,
                              .timezone = "+01:00",
                              .sleep = MEMBRANE_SOURCE_ASKED,
                              .pass = c_pass,
                              .entropy = MEMBRANE_SOURCE_ASKED,
                              .seed = 0,
                              .seed_bytes = nullptr,
                              .seed_size = 0,
                              .fill = c_fill};
  membrane_session_options options = {};
  options.size = sizeof options;
  options.user_data = &of;
  options.sources = &sources;
  put(options, GetParam() == SessionPlace::kIsolated);
  const auto nines = [](std::span<uint8_t> bytes) { return std::ranges::fill(bytes, uint8_t{9}), true; };
  Session alike = session({.entropy = SessionEntropy::asked(nines)});
  const std::string two_bytes = text(alike, "crypto.getRandomValues(new Uint8Array(2)).join()");
  const auto run = [&](const char* code) {
    membrane_error* error = nullptr;
    membrane_session* const session = membrane_session_new(language, &options, &error);
    EXPECT_NE(session, nullptr) << membrane_error_message(error);
    membrane_cell cell = {};
    cell.size = sizeof cell;
    cell.code = code;
    membrane_report* const report = membrane_session_run(session, &cell);
    std::string result = membrane_report_result(report, nullptr);
    membrane_report_free(report);
    membrane_session_free(session);
    return result;
  };
  EXPECT_EQ(run("setTimeout(() => {}, 20); [Date.now(), new Date(0).getHours(), "
                "crypto.getRandomValues(new Uint8Array(2)).join()]"),
            "[ " + std::to_string(kStartMs) + ", 1, " + two_bytes + " ]");
  EXPECT_EQ(of.slept_ns, 20'000'000u);
  sources = {};
  sources.size = sizeof sources;
  sources.clock = MEMBRANE_SOURCE_VIRTUAL;
  sources.clock_start_ms = kStartMs;
  sources.sleep = MEMBRANE_SOURCE_VIRTUAL;
  sources.entropy = MEMBRANE_SOURCE_VIRTUAL;
  sources.seed = 7;
  const std::string drawn = run(kDraw);
  EXPECT_EQ(run(kDraw), drawn);
  EXPECT_EQ(run("Math.floor(Date.now() / 1000)"), std::to_string(kStartMs / 1000));
  sources.seed_bytes = reinterpret_cast<const uint8_t*>("seed");
  sources.seed_size = 4;
  EXPECT_NE(run(kDraw), drawn);
  membrane_language_free(language);
}

}  // namespace
}  // namespace membrane
