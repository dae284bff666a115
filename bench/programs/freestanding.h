// What the benchmark programs have instead of a C library. The same source is built for wasm32 and for the
// machine itself (bench/CMakeLists.txt), so nothing here may depend on either.
//
// Each program exports one function, run(n): it does work that grows with n, on its own static memory, and
// returns a checksum that depends on all of it. Loops that the compiler takes for memset or memcpy become
// memory.fill and memory.copy in wasm32, and calls of the C library natively.
#pragma once

#include <stddef.h>
#include <stdint.h>

#if defined(__wasm__)
#define EXPORT(name) __attribute__((export_name(#name))) name
#else
// Natively each program is a function of its own name (run_fib), so that all fit in one process.
#define CONCAT_(a, b) a##_##b
#define CONCAT(a, b) CONCAT_(a, b)
#define EXPORT(name) CONCAT(name, PROGRAM)
#endif

// A checksum over 64-bit words: order matters, every bit matters.
static inline uint64_t mix(uint64_t sum, uint64_t word) {
  sum = (sum ^ word) * UINT64_C(0x9E3779B97F4A7C15);
  return sum ^ (sum >> 29);
}

static inline uint64_t bits_of(double value) {
  uint64_t bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  return bits;
}
