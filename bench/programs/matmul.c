// Floating point and strided loads: n times the product of two 64 by 64 matrices of doubles.
#include "freestanding.h"

enum { kSize = 64 };
static double a[kSize][kSize], b[kSize][kSize], c[kSize][kSize];

static void fill(int32_t round) {
  for (int32_t i = 0; i < kSize; ++i) {
    for (int32_t j = 0; j < kSize; ++j) {
      a[i][j] = (double)((i * 7 + j * 3 + round) % 17) / 16.0;
      b[i][j] = (double)((i * 5 + j * 11 - round) % 13) / 8.0;
    }
  }
}

static void multiply(void) {
  for (int32_t i = 0; i < kSize; ++i) {
    for (int32_t j = 0; j < kSize; ++j) {
      double sum = 0;
      for (int32_t k = 0; k < kSize; ++k) sum += a[i][k] * b[k][j];
      c[i][j] = sum;
    }
  }
}

int64_t EXPORT(run)(int32_t n) {
  uint64_t sum = 0;
  for (int32_t round = 0; round < n; ++round) {
    fill(round);
    multiply();
    for (int32_t i = 0; i < kSize; ++i) sum = mix(sum, bits_of(c[i][(i * 31 + round) % kSize]));
  }
  return (int64_t)sum;
}
