// Every tier on valid modules: a run must end as in the reference interpreter, with the same
// values, trap, place, fuel and state, whether it runs at once or pauses every few instructions.

#include <cstdio>
#include <cstdlib>

#include "engine/testing/differential_testing.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace membrane::engine;
  DifferentialCount count;
  for (const Tier tier : {Tier::kInterpreter, Tier::kCompiler, Tier::kAuto}) {
    const std::string differs = compare_with_reference({data, size}, count, tier);
    if (differs.empty()) continue;
    std::fprintf(stderr, "%s: %s\n", std::string(name_of(tier)).c_str(), differs.c_str());
    std::abort();
  }
  return 0;
}
