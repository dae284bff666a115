// Calls: the Fibonacci number n by the doubly recursive definition, with no memory at all.
#include "freestanding.h"

static __attribute__((noinline)) uint32_t fib(uint32_t n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }

int64_t EXPORT(run)(int32_t n) { return (int64_t)fib((uint32_t)n); }
