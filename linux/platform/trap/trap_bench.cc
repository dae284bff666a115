// The cost of a trap: a system call that is answered at once, changes of memory, a process. Arguments:
// whether both sides share a core, and for how many rounds they spin before they sleep.
#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include "linux/platform/guest_testing.h"
#include "linux/platform/trap/trap.h"

namespace membrane::linux {
namespace {

GUEST_CODE(calls, "1: mov $110, %eax; syscall; movl $1, 0x800000; jmp 1b");

struct Bench {
  explicit Bench(const benchmark::State& state) {
    TrapOptions options;
    options.shares_core = state.range(0) != 0;
    options.spins = static_cast<uint32_t>(state.range(1));
    auto started = start_trap_platform(options);
    if (!started) return;
    platform = std::move(*started);
    guest = load_guest(*platform, code_of(calls));
    if (guest != nullptr) run_guest(*platform, *guest);
  }
  ~Bench() {
    guest.reset();
    platform.reset();
  }
  std::unique_ptr<Platform> platform;
  std::unique_ptr<Thread> guest;
};

void getppid(benchmark::State& state) {
  Bench bench(state);
  if (bench.guest == nullptr) return state.SkipWithError("no platform");
  for (auto _ : state) {
    answer(*bench.guest, 1);
    if (run_guest(*bench.platform, *bench.guest) == nullptr)
      return state.SkipWithError("the guest does not stop");
  }
}

void read_of_a_word(benchmark::State& state) {
  Bench bench(state);
  if (bench.guest == nullptr) return state.SkipWithError("no platform");
  for (auto _ : state) benchmark::DoNotOptimize(peek<uint64_t>(*bench.guest, kDataAt));
}

void map_and_unmap(benchmark::State& state) {
  Bench bench(state);
  if (bench.guest == nullptr) return state.SkipWithError("no platform");
  for (auto _ : state) {
    bench.guest->space()->map(0x10000000, 0x10000, PROT_READ | PROT_WRITE, {});
    run_guest(*bench.platform, *bench.guest);
    bench.guest->space()->unmap(0x10000000, 0x10000);
    run_guest(*bench.platform, *bench.guest);
  }
}

void fork_and_end(benchmark::State& state) {
  Bench bench(state);
  if (bench.guest == nullptr) return state.SkipWithError("no platform");
  for (auto _ : state) {
    auto child = bench.guest->fork();
    if (!child) return state.SkipWithError("cannot fork");
    run_guest(*bench.platform, **child);
  }
}

void new_thread(benchmark::State& state) {
  Bench bench(state);
  if (bench.guest == nullptr) return state.SkipWithError("no platform");
  for (auto _ : state) {
    auto thread = bench.guest->clone_thread();
    if (!thread) return state.SkipWithError("cannot clone");
    run_guest(*bench.platform, **thread);
  }
}

void new_process(benchmark::State& state) {
  Bench bench(state);
  if (bench.guest == nullptr) return state.SkipWithError("no platform");
  for (auto _ : state)
    if (load_guest(*bench.platform, code_of(calls)) == nullptr) return state.SkipWithError("cannot start");
}

void new_platform(benchmark::State& state) {
  for (auto _ : state) Bench bench(state);
}

void ways(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"one_core", "spins"})
      ->Args({1, 0})
      ->Args({0, 0})
      ->Args({0, 20000})
      ->UseRealTime()
      ->Unit(benchmark::kMicrosecond);
}
BENCHMARK(getppid)->Apply(ways);
BENCHMARK(read_of_a_word)->Apply(ways);
BENCHMARK(map_and_unmap)->Apply(ways);
BENCHMARK(fork_and_end)->Apply(ways);
BENCHMARK(new_thread)->Apply(ways);
BENCHMARK(new_process)->Apply(ways);
BENCHMARK(new_platform)->Apply(ways);

}  // namespace
}  // namespace membrane::linux
