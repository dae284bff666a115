#include <benchmark/benchmark.h>

#include "wasm/assemble_testing.h"
#include "wasm/binary.h"
#include "wasm/validate.h"

namespace membrane::wasm {
namespace {

using namespace testing;
using enum ValType;

// (module (func (export "add") (param i32 i32) (result i32) local.get 0 local.get 1 i32.add))
Bytes tiny() {
  return binary({section(1, vec({func_type({kI32, kI32}, {kI32})})), section(3, vec({u32(0)})),
                 section(7, vec({cat({name("add"), {0, 0}})})),
                 section(10, vec({body("local.get 0; local.get 1; i32.add; end")}))});
}

// What compilers emit, in about the usual mix: locals, constants, arithmetic, memory, branches, calls.
const char* const kLoop =
    "i32.const 0; local.set 2; block; loop; local.get 2; local.get 1; i32.ge_u; br_if 1;"
    "local.get 0; local.get 2; i32.const 2; i32.shl; i32.add; local.tee 4; i32.load 2 16; local.set 5;"
    "local.get 5; i32.const 1103515245; i32.mul; i32.const 12345; i32.add; local.set 5;"
    "local.get 5; i32.const 7; i32.and; i32.eqz; if i32; local.get 5; call 0; else; local.get 4; i32.load8_u "
    "0 3; end;"
    "local.get 3; i32.xor; local.set 3; local.get 4; local.get 3; i32.store 2 1024;"
    "local.get 6; local.get 5; f64.convert_i32_s; f64.mul; f64.const 0; f64.add; local.set 6;"
    "local.get 7; local.get 3; i64.extend_i32_u; i64.add; local.set 7; i32.const 8; global.get 0; i32.add; "
    "drop;"
    "local.get 2; i32.const 1; i32.add; local.set 2; br 0; end; end; ";

Bytes large(uint32_t functions) {
  std::string text;
  for (int i = 0; i < 8; ++i) text += kLoop;
  const Bytes one = body(text + "local.get 3; end", {{4, kI32}, {1, kF64}, {1, kI64}});
  const std::vector<Bytes> declared(functions, u32(1)), bodies(functions, one);
  std::vector<Bytes> exports;
  for (uint32_t i = 0; i < functions; i += 16)
    exports.push_back(cat({name("f" + std::to_string(i)), {0}, u32(i)}));
  return binary({section(1, vec({func_type({kI32}, {kI32}), func_type({kI32, kI32}, {kI32})})),
                 section(2, vec({cat({name("env"), name("f"), {0, 0}})})), section(3, vec(declared)),
                 section(5, vec({{0, 1}})), section(6, vec({cat({{0x7F, 1}, code("i32.const 65536; end")})})),
                 section(7, vec(exports)), section(10, vec(bodies))});
}

void decode_only(benchmark::State& state, const Bytes& bytes) {
  for (auto _ : state) benchmark::DoNotOptimize(decode(bytes));
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * bytes.size()));
}

void validate_only(benchmark::State& state, const Bytes& bytes) {
  const auto module = decode(bytes);
  for (auto _ : state)
    if (auto info = validate(*module); !info) state.SkipWithError(info.error().message.c_str());
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * bytes.size()));
}

void encode_only(benchmark::State& state, const Bytes& bytes) {
  const auto module = decode(bytes);
  for (auto _ : state) benchmark::DoNotOptimize(encode(*module));
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * bytes.size()));
}

constexpr uint32_t kFunctions = 16'000;  // about 20 MB
BENCHMARK_CAPTURE(decode_only, tiny, tiny());
BENCHMARK_CAPTURE(validate_only, tiny, tiny());
BENCHMARK_CAPTURE(encode_only, tiny, tiny());
BENCHMARK_CAPTURE(decode_only, large, large(kFunctions))->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(validate_only, large, large(kFunctions))->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(encode_only, large, large(kFunctions))->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace membrane::wasm
