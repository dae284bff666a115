// The text format's speed: a program as small as a model's first, and a large one.
#include <benchmark/benchmark.h>

#include <string>

#include "wasm/text/lexer.h"
#include "wasm/text/parser.h"
#include "wasm/text/printer.h"

namespace membrane::wasm {
namespace {

constexpr std::string_view kTiny =
    "(module (func (export \"main\") (result i32) (i32.add (i32.const 2) (i32.const 2))))";

std::string large() {
  std::string text = "(module (memory 1)\n";
  for (int i = 0; i < 1000; ++i) {
    const std::string n = std::to_string(i);
    text += "  (func $f" + n +
            " (param $a i32) (param $b i32) (result i32) (local $i i32)\n"
            "    (block $done (loop $next\n"
            "      (br_if $done (i32.ge_u (local.get $i) (local.get $a)))\n"
            "      (i32.store offset=4 (local.get $i) (i32.mul (local.get $b) (i32.const " +
            n +
            ")))\n"
            "      (local.set $i (i32.add (local.get $i) (i32.const 1)))\n"
            "      (br $next)))\n"
            "    (call $f" +
            n + " (local.get $a) (i32.load (local.get $i))))\n";
  }
  return text + ")";
}

void ParseTiny(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(parse_text(kTiny));
}
BENCHMARK(ParseTiny);

void TokenizeTiny(benchmark::State& state) {
  std::vector<Token> tokens;
  for (auto _ : state) benchmark::DoNotOptimize(tokenize(kTiny, tokens));
}
BENCHMARK(TokenizeTiny);

void ParseLarge(benchmark::State& state) {
  const std::string text = large();
  for (auto _ : state) benchmark::DoNotOptimize(parse_text(text));
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * text.size()));
}
BENCHMARK(ParseLarge);

void TokenizeLarge(benchmark::State& state) {
  const std::string text = large();
  std::vector<Token> tokens;
  for (auto _ : state) benchmark::DoNotOptimize(tokenize(text, tokens));
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * text.size()));
}
BENCHMARK(TokenizeLarge);

void PrintLarge(benchmark::State& state) {
  const auto module = parse_text(large());
  size_t size = 0;
  for (auto _ : state) size += print_text(*module).size();
  state.SetBytesProcessed(static_cast<int64_t>(size));
}
BENCHMARK(PrintLarge);

}  // namespace
}  // namespace membrane::wasm
