// Bytes and branches: n times the sieve of Eratosthenes up to 2^18; the sum of the primes found.
#include "freestanding.h"

enum { kLimit = 1 << 18 };
static uint8_t composite[kLimit];

static uint64_t sieve(void) {
  for (uint32_t i = 0; i < kLimit; ++i) composite[i] = 0;
  uint64_t sum = 0;
  for (uint32_t i = 2; i < kLimit; ++i) {
    if (composite[i]) continue;
    sum += i;
    for (uint32_t j = i + i; j < kLimit; j += i) composite[j] = 1;
  }
  return sum;
}

int64_t EXPORT(run)(int32_t n) {
  uint64_t sum = 0;
  for (int32_t i = 0; i < n; ++i) sum = mix(sum, sieve());
  return (int64_t)sum;
}
