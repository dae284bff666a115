// The benchmark programs as native functions, and where their wasm32 builds lie (bench/programs.def).
//
// Threads: the programs work on static memory; run each on one thread at a time.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <string_view>

namespace membrane::bench {

namespace detail {
using i64 = int64_t;
using f64 = double;
extern "C" {
#define PROGRAM(name, n, result, checksum) result run_##name(int32_t);
#include "bench/programs.def"
#undef PROGRAM
}
}  // namespace detail

struct Program {
  std::string_view name;        // "fib"; its module is the file name.wasm
  int32_t n;                    // the argument of run()
  uint64_t checksum;            // what run(n) returns, as bits
  uint64_t (*native)(int32_t);  // run(n) built for this machine, its result as bits
};

inline constexpr std::array kPrograms{
#define PROGRAM(name, n, result, checksum)                                                         \
  Program{#name, n, checksum,                                                                      \
          [](int32_t argument) { return std::bit_cast<uint64_t>(detail::run_##name(argument)); }},
#include "bench/programs.def"
#undef PROGRAM
};

}  // namespace membrane::bench
