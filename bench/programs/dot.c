// Vectors of integers, as the compiler makes them of loops: n times the products of the rows of a matrix of
// 16-bit numbers with a vector, each sum clamped to 8 bits.
#include "freestanding.h"

enum { kRows = 128, kColumns = 256 };
static int16_t matrix[kRows][kColumns], vector[kColumns];
static uint8_t clamped[kRows];

static int32_t product(const int16_t* row) {
  int32_t sum = 0;
  for (int i = 0; i < kColumns; ++i) sum += row[i] * vector[i];
  return sum;
}

int64_t EXPORT(run)(int32_t n) {
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < kColumns; ++j) matrix[i][j] = (int16_t)((i * 31 + j * 17) % 255 - 127);
  uint64_t sum = 0;
  for (int32_t round = 0; round < n; ++round) {
    for (int j = 0; j < kColumns; ++j) vector[j] = (int16_t)((j * 7 + round) % 251 - 125);
    for (int i = 0; i < kRows; ++i) {
      const int32_t scaled = product(matrix[i]) >> 10;
      clamped[i] = (uint8_t)(scaled < 0 ? 0 : scaled > 255 ? 255 : scaled);
    }
    for (int i = 0; i < kRows; ++i) sum += (uint64_t)clamped[i] * (uint64_t)(i + 1);
    sum = mix(sum, (uint64_t)round);
  }
  return (int64_t)sum;
}
