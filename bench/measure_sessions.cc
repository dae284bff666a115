// What a session costs in a process that has its template: a fresh fork that runs `2+2` and goes, the memory of forks
// that live, idle and after a turn. Prints a JSON object. One language a process: what another has left in the heap
// would look like nothing.
//
//   measure_sessions LANGUAGE [ROUNDS [SESSIONS]]

#include <malloc.h>
#include <unistd.h>

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

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// Of this process: what is not a file's, or is its own copy of it.
uint64_t private_bytes() {
  std::ifstream in("/proc/self/smaps_rollup");
  uint64_t bytes = 0;
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("Anonymous:"))
      bytes += std::strtoull(line.c_str() + line.find(':') + 1, nullptr, 10) << 10;
  return bytes;
}

std::unique_ptr<sandbox::Session> make(const std::shared_ptr<const sandbox::Template>& of) {
  sandbox::RunOptions options;
  options.policy.limits.wall_ms = 60'000;
  auto made = sandbox::Session::create(of, std::move(options));
  if (!made) {
    std::fprintf(stderr, "%s\n", made.error().message.c_str());
    std::exit(1);
  }
  return std::move(*made);
}

void check(const sandbox::Report& report) {
  if (report.result == "4") return;
  std::fprintf(stderr, "2+2 gave %s\n", sandbox::render_json(report, false).c_str());
  std::exit(1);
}

void measure(const char* language, sandbox::LanguageTemplates& languages, int rounds, int sessions) {
  auto opened = languages.open(language, "");
  if (!opened) {
    std::printf("null\n");
    return;
  }
  for (int i = 0; i < 20; ++i)
    check(make(*opened)->exec({.code = "2+2"}));  // as a process that has been at work
  std::vector<double> all, turns;
  for (int i = 0; i < rounds; ++i) {
    const auto start = Clock::now();
    {
      const auto session = make(*opened);
      const auto turn = Clock::now();
      check(session->exec({.code = "2+2"}));
      turns.push_back(ms_since(turn));
    }
    all.push_back(ms_since(start));
  }
  std::ranges::sort(all);
  std::ranges::sort(turns);
  malloc_trim(0);  // what sessions before these have left in the heap would hide their cost
  const uint64_t before = private_bytes();
  std::vector<std::unique_ptr<sandbox::Session>> live;
  for (int i = 0; i < sessions; ++i) live.push_back(make(*opened));
  const uint64_t idle = private_bytes();
  for (const auto& session : live) check(session->exec({.code = "2+2"}));
  const uint64_t after = private_bytes();
  std::printf(
      "{\"fork_exec_drop_ms\": {\"min\": %.4f, \"median\": %.4f}, \"exec_ms\": {\"min\": %.4f, "
      "\"median\": "
      "%.4f}, \"sessions\": %d, \"idle_bytes_each\": %llu, \"after_a_turn_bytes_each\": %llu, "
      "\"all_live_bytes\": %llu}\n",
      all.front(), all[all.size() / 2], turns.front(), turns[turns.size() / 2], sessions,
      static_cast<unsigned long long>((idle - std::min(idle, before)) / static_cast<uint64_t>(sessions)),
      static_cast<unsigned long long>((after - std::min(after, before)) / static_cast<uint64_t>(sessions)),
      static_cast<unsigned long long>(after));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: measure_sessions LANGUAGE [ROUNDS [SESSIONS]]\n");
    return 2;
  }
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 500, sessions = argc > 3 ? std::atoi(argv[3]) : 1000;
  sandbox::LanguageTemplates languages(
      {.cache_directory = sandbox::LanguageTemplates::default_cache_directory(),
       .tier = engine::Tier::kAuto,
       .on_progress = {}});
  measure(argv[1], languages, rounds, sessions);
}
