// What a session is as bytes (Session::keep()), and what it costs to keep it and to restore it, after first turns of
// several kinds. Prints a JSON object for each. `first_restore_ms` is that of a process that has just found the
// template: the digest of its files is calculated then.
//
//   measure_kept_sessions LANGUAGE [ROUNDS [SESSIONS]]

#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "sandbox/session/language_templates.h"
#include "sandbox/session/session.h"

namespace {

using namespace membrane;
using Clock = std::chrono::steady_clock;
using Template = std::shared_ptr<const sandbox::Template>;

struct FirstTurn {
  const char *name, *code;
};
constexpr FirstTurn kOfPython[] = {
    {"print(1)", "print(1)"},
    {"x = 20", "x = 20"},
    {"import json", "import json\njson.dumps([1, 2])"},
    {"a function and a class",
     "class A:\n  def f(self, n): return [n] * n\na = [A().f(i) for i in range(30)]"},
    {"import pandas, 10 MB of a frame",
     "import pandas as pd\nd = pd.DataFrame({'a': range(650_000), 'b': [i / 7 for i in "
     "range(650_000)]})\nlen(d)"},
};
constexpr FirstTurn kOfJavaScript[] = {
    {"console.log(1)", "console.log(1)"},
    {"x = 20", "var x = 20"},
    {"JSON", "JSON.stringify([1, 2])"},
    {"10 MB of numbers", "var a = new Float64Array(1_250_000).map((_, i) => i / 7)"},
};

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

template <typename T>
T checked(Result<T> made) {
  if (made) return *std::move(made);
  std::fprintf(stderr, "%s\n", made.error().message.c_str());
  std::exit(1);
}

sandbox::RunOptions options() {
  sandbox::RunOptions options;
  options.policy.limits = policy::language_limits();
  options.policy.limits.wall_ms = 60'000;
  options.policy.limits.fuel = 100'000'000'000;
  return options;
}

std::unique_ptr<sandbox::Session> after(const Template& of, const char* code) {
  auto session = checked(sandbox::Session::create(of, options()));
  const sandbox::Report report = session->exec({.code = code});
  if (report.outcome == sandbox::Outcome::kOk) return session;
  std::fprintf(stderr, "%s\n", sandbox::render_text(report, false).c_str());
  std::exit(1);
}

struct Times {
  std::vector<double> ms;
  void add(Clock::time_point start) { ms.push_back(ms_since(start)); }
  double median() {
    std::ranges::sort(ms);
    return ms[ms.size() / 2];
  }
};

// Of this process: what is not a file's, or is its own copy of it.
uint64_t private_bytes() {
  std::ifstream in("/proc/self/smaps_rollup");
  uint64_t bytes = 0;
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("Anonymous:"))
      bytes += std::strtoull(line.c_str() + line.find(':') + 1, nullptr, 10) << 10;
  return bytes;
}

void measure(const Template& of, const FirstTurn& turn, int rounds) {
  auto session = after(of, turn.code);
  const uint64_t touched = session->private_bytes().value_or(0);
  auto start = Clock::now();
  const std::vector<uint8_t> bytes = checked(session->keep());
  const double first_keep = ms_since(start);
  start = Clock::now();
  const auto back = checked(sandbox::Session::restore(of, bytes, options()));
  const double first_restore = ms_since(start);
  const uint64_t restored = back->private_bytes().value_or(0);
  Times keeps, restores, whole_turns;
  for (int i = 0; i < rounds; ++i) {
    start = Clock::now();
    const std::vector<uint8_t> again = checked(session->keep());
    keeps.add(start);
    start = Clock::now();
    auto one = checked(sandbox::Session::restore(of, again, options()));
    restores.add(start);
    static_cast<void>(one->exec({.code = "2+2"}));
    whole_turns.add(start);
  }
  std::printf(
      "{\"first_turn\": \"%s\", \"touched_bytes\": %llu, \"kept_bytes\": %zu, \"restored_private_bytes\": "
      "%llu, "
      "\"first_keep_ms\": %.3f, \"first_restore_ms\": %.3f, \"keep_ms\": %.3f, \"restore_ms\": %.3f, "
      "\"restore_and_turn_ms\": %.3f}\n",
      turn.name, static_cast<unsigned long long>(touched), bytes.size(),
      static_cast<unsigned long long>(restored), first_keep, first_restore, keeps.median(), restores.median(),
      whole_turns.median());
}

// Sessions that are parked: each as its bytes alone.
void measure_parked(const Template& of, const FirstTurn& turn, int sessions) {
  const auto session = after(of, turn.code);
  static_cast<void>(checked(session->keep()));
  malloc_trim(0);
  const uint64_t before = private_bytes();
  std::vector<std::vector<uint8_t>> parked;
  for (int i = 0; i < sessions; ++i) {
    auto each = after(of, turn.code);
    parked.push_back(checked(each->keep()));
    parked.back().shrink_to_fit();
  }
  malloc_trim(0);
  const uint64_t after_all = private_bytes();
  std::printf("{\"parked\": %d, \"bytes_each\": %llu, \"process_bytes\": %llu}\n", sessions,
              static_cast<unsigned long long>((after_all - std::min(before, after_all)) /
                                              static_cast<uint64_t>(sessions)),
              static_cast<unsigned long long>(after_all));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: measure_kept_sessions LANGUAGE [ROUNDS [SESSIONS]]\n");
    return 2;
  }
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 200, sessions = argc > 3 ? std::atoi(argv[3]) : 2000;
  sandbox::LanguageTemplates languages(
      {.cache_directory = sandbox::LanguageTemplates::default_cache_directory(),
       .tier = engine::Tier::kAuto,
       .on_progress = {}});
  const Template of = checked(languages.open(argv[1], ""));
  const bool is_python = of->package().driver == lang::Driver::kPython;
  for (const FirstTurn& turn :
       is_python ? std::span<const FirstTurn>(kOfPython) : std::span<const FirstTurn>(kOfJavaScript))
    measure(of, turn, rounds);
  if (sessions > 0) measure_parked(of, is_python ? kOfPython[1] : kOfJavaScript[1], sessions);
}
