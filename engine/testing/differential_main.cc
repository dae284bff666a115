// Compares the tiers with the reference interpreter on many generated modules.
//
//   differential [--first N] [--count N] [--tier interpreter|compiler|auto]
//   differential --for-others … | tools/compare-with-v8
//
// With --for-others it prints, for another engine to compare, modules of what both support, and their outcomes (run_for_others()), each
// after its seed and a tab. The same seed makes the same module everywhere; with --for-others another one, without what only this engine
// supports. Prints progress to a terminal, and each difference; exit code 1 when there was one.

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "engine/testing/differential_testing.h"
#include "engine/testing/module_generator_testing.h"

using namespace membrane::engine;

namespace {

std::vector<uint8_t> choices_of(uint64_t seed) { return choices_of_seed(seed, 200 + seed % 1800); }

int print_for_others(uint64_t first, uint64_t count, Tier tier) {
  for (uint64_t seed = first; seed < first + count; ++seed)
    if (const std::string line = run_for_others(choices_of(seed), tier); !line.empty())
      std::printf("%llu\t%s\n", static_cast<unsigned long long>(seed), line.c_str());
  return std::fflush(stdout) == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t first = 0, count = 100'000;
  bool for_others = false;
  Tier tier = Tier::kAuto;
  if (argc > 1 && std::string_view(argv[1]) == "--for-others") {
    for_others = true;
    ++argv;
    --argc;
  }
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view option = argv[i];
    const auto named = find_tier(argv[i + 1]);
    if (option == "--first") first = std::strtoull(argv[i + 1], nullptr, 10);
    else if (option == "--count") count = std::strtoull(argv[i + 1], nullptr, 10);
    else if (option == "--tier" && named) tier = *named;
    else return std::fprintf(stderr, "differential: unknown option %s\n", argv[i]), 2;
  }
  if (for_others) return print_for_others(first, count, tier);
  const bool shows_progress = isatty(STDERR_FILENO) != 0;
  DifferentialCount seen;
  uint64_t different = 0;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    if (shows_progress && (seed - first) % 1000 == 0)
      std::fprintf(stderr, "\r%llu of %llu", static_cast<unsigned long long>(seed - first),
                   static_cast<unsigned long long>(count));
    const std::string differs = compare_with_reference(choices_of(seed), seen, tier);
    if (differs.empty()) continue;
    ++different;
    std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), differs.c_str());
  }
  std::printf("%s: %llu modules: %llu finished, %llu trapped, %llu too long; %llu different\n",
              std::string(name_of(tier)).c_str(), static_cast<unsigned long long>(count),
              static_cast<unsigned long long>(seen.finished), static_cast<unsigned long long>(seen.trapped),
              static_cast<unsigned long long>(seen.too_long), static_cast<unsigned long long>(different));
  return different == 0 ? 0 : 1;
}
