// How fast the benchmark programs are without any engine: the baseline of every ratio.
#include <benchmark/benchmark.h>

#include <string>

#include "bench/programs.h"

namespace membrane::bench {
namespace {

void run_native(benchmark::State& state, const Program& program) {
  for (auto _ : state)
    if (program.native(program.n) != program.checksum) state.SkipWithError("wrong checksum");
}

const bool kRegistered = [] {
  for (const Program& program : kPrograms)
    benchmark::RegisterBenchmark(("native/" + std::string(program.name)).c_str(), run_native, program)
        ->Unit(benchmark::kMillisecond);
  return true;
}();

}  // namespace
}  // namespace membrane::bench
