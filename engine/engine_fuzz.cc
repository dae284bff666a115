// The interpreter on valid modules: it must end as the reference interpreter does, with the same
// values, trap, place, fuel and state, whether it runs at once or pauses every few instructions.

#include <cstdio>
#include <cstdlib>

#include "engine/differential_testing.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  membrane::engine::DifferentialCount count;
  const std::string differs = membrane::engine::compare_with_reference({data, size}, count);
  if (differs.empty()) return 0;
  std::fprintf(stderr, "%s\n", differs.c_str());
  std::abort();
}
