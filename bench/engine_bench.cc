// The engine against the clock: the smallest program from text or binary to its result, and the benchmark
// programs interpreted, beside the same programs native. Fuel is on, as always.
//
// tools/bench runs this with the benchmarks interleaved, and makes the table.
#include <benchmark/benchmark.h>

#include <fstream>
#include <iterator>
#include <string>

#include "bench/programs.h"
#include "engine/execution/execution.h"
#include "engine/execution/module.h"
#include "engine/freeze/snapshot.h"
#include "wasm/binary.h"
#include "wasm/text/parser.h"

namespace membrane::bench {
namespace {

// The text of bench/add.wat, without its comment: it is part of what is measured.
constexpr std::string_view kAddText = R"((module
  (func (export "run") (result i32)
    (i32.add (i32.const 2) (i32.const 2))))
)";
constexpr uint64_t kFuel = 1'000'000'000'000;

std::vector<uint8_t> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Instantiates, calls run() and returns its result's bits; an error message on anything but a result.
Result<uint64_t> call(std::shared_ptr<engine::CompiledModule> module,
                      std::span<const engine::Value> arguments) {
  const engine::Resolver no_imports = [](const wasm::Module&, const wasm::Import&) { return std::nullopt; };
  auto instance = engine::Instance::create(std::move(module), no_imports, {});
  if (!instance) return std::unexpected(instance.error().error);
  const auto exported = (*instance)->find_export("run");
  if (!exported || exported->function == nullptr) return fail(ErrorCode::kNotFound, "there is no run()");
  engine::Execution execution((engine::ExecutionLimits()));
  MEMBRANE_TRY(execution.start(exported->function, arguments));
  execution.add_fuel(kFuel);
  if (execution.resume() != engine::RunState::kFinished)
    return fail(ErrorCode::kInternal, "run() did not finish");
  return execution.results()[0].bits;
}

Result<uint64_t> run_module(wasm::Module module, std::span<const engine::Value> arguments) {
  auto compiled = engine::compile_module(std::move(module));
  if (!compiled) return fail(ErrorCode::kInvalidInput, compiled.error().message);
  return call(std::move(*compiled), arguments);
}

void text_to_result(benchmark::State& state) {
  for (auto _ : state) {
    auto module = wasm::parse_text(kAddText);
    if (!module || run_module(std::move(*module), {}) != 4u) return state.SkipWithError("not 4");
  }
}

void binary_to_result(benchmark::State& state) {
  const auto parsed = wasm::parse_text(kAddText);
  if (!parsed) return state.SkipWithError("does not parse");
  const std::vector<uint8_t> binary = wasm::encode(*parsed);
  for (auto _ : state) {
    auto module = wasm::decode(binary);
    if (!module || run_module(std::move(*module), {}) != 4u) return state.SkipWithError("not 4");
  }
}

// An instance and a call of a module that is compiled already.
void warm_call(benchmark::State& state) {
  auto module = wasm::parse_text(kAddText);
  if (!module) return state.SkipWithError("does not parse");
  auto compiled = engine::compile_module(std::move(*module));
  if (!compiled) return state.SkipWithError("does not validate");
  for (auto _ : state)
    if (call(*compiled, {}) != 4u) return state.SkipWithError("not 4");
}

void native(benchmark::State& state, const Program& program) {
  for (auto _ : state)
    if (program.native(program.n) != program.checksum) return state.SkipWithError("wrong checksum");
}

void in_tier(benchmark::State& state, const Program& program, engine::Tier tier) {
  auto module =
      wasm::decode(read_file(std::string(MEMBRANE_BENCH_MODULES "/") + std::string(program.name) + ".wasm"));
  if (!module) return state.SkipWithError("cannot be decoded");
  auto compiled = engine::compile_module(std::move(*module), {}, tier);
  if (!compiled) return state.SkipWithError("does not validate");
  const engine::Value n = engine::Value::i32(static_cast<uint32_t>(program.n));
  for (auto _ : state)
    if (call(*compiled, {&n, 1}) != program.checksum) return state.SkipWithError("wrong checksum");
}

// A guest in the middle of a loop, with 1 MiB of memory that it has written to.
constexpr std::string_view kTouchingText = R"((module (memory 32)
  (func (export "run") (result i32) (local i32)
    (loop $page
      (i64.store (local.get 0) (i64.extend_i32_u (local.get 0)))
      (br_if $page (i32.lt_u (local.tee 0 (i32.add (local.get 0) (i32.const 64))) (i32.const 1048576))))
    (loop $on (br_if $on (local.tee 0 (i32.sub (local.get 0) (i32.const 1)))))
    (local.get 0))))";

void freeze_and_thaw(benchmark::State& state) {
  auto module = wasm::parse_text(kTouchingText);
  auto compiled = engine::compile_module(std::move(*module));
  const engine::Resolver no_imports = [](const wasm::Module&, const wasm::Import&) { return std::nullopt; };
  engine::Store store;
  auto instance = store.instantiate(*compiled, no_imports, {});
  engine::Execution run((engine::ExecutionLimits()));
  if (!run.start((*instance)->find_function("run"), {})) return state.SkipWithError("does not start");
  run.add_fuel(1'000'000);
  if (run.resume() != engine::RunState::kOutOfFuel) return state.SkipWithError("does not pause");
  for (auto _ : state) {
    auto frozen = engine::freeze(run, **instance);
    if (!frozen) return state.SkipWithError("does not freeze");
    const auto snapshot = engine::Snapshot::read(std::move(*frozen));
    if (!snapshot) return state.SkipWithError("does not read");
    engine::Store other;
    auto thawed = snapshot->instantiate(other, no_imports, {});
    engine::Execution again((engine::ExecutionLimits()));
    if (!thawed || !snapshot->resume_in(again, **thawed)) return state.SkipWithError("does not thaw");
    benchmark::DoNotOptimize(again.state());
  }
}

const bool kRegistered = [] {
  benchmark::RegisterBenchmark("text to result of 2+2", text_to_result)->Unit(benchmark::kMicrosecond);
  benchmark::RegisterBenchmark("binary to result of 2+2", binary_to_result)->Unit(benchmark::kMicrosecond);
  benchmark::RegisterBenchmark("instance and call, compiled already", warm_call)
      ->Unit(benchmark::kMicrosecond);
  benchmark::RegisterBenchmark("freeze and thaw, 1 MiB touched", freeze_and_thaw)
      ->Unit(benchmark::kMicrosecond);
  for (const Program& program : kPrograms) {
    const std::string name(program.name);
    benchmark::RegisterBenchmark(("native/" + name).c_str(), native, program)->Unit(benchmark::kMillisecond);
    for (const engine::Tier tier : {engine::Tier::kInterpreter, engine::Tier::kCompiler, engine::Tier::kAuto})
      benchmark::RegisterBenchmark((std::string(engine::name_of(tier)) + "/" + name).c_str(), in_tier,
                                   program, tier)
          ->Unit(benchmark::kMillisecond);
  }
  return true;
}();

}  // namespace
}  // namespace membrane::bench
