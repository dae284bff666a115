// Vectors of floats: how soon points of a square leave the Mandelbrot set, four points at a time, in n
// steps at most.
#include "freestanding.h"

typedef float f32x4 __attribute__((vector_size(16)));
typedef int32_t i32x4 __attribute__((vector_size(16)));

enum { kSize = 64 };

// Of each point the number of steps in which it stays within a distance of 2.
static i32x4 steps_within(f32x4 x, f32x4 y, int32_t most) {
  f32x4 re = {0, 0, 0, 0}, im = re;
  i32x4 steps = {0, 0, 0, 0};
  for (int32_t i = 0; i < most; ++i) {
    const f32x4 re2 = re * re, im2 = im * im;
    const i32x4 within = re2 + im2 <= 4.0f;  // -1 where it is so
    steps -= within;
    im = (re + re) * im + y;
    re = re2 - im2 + x;
  }
  return steps;
}

int64_t EXPORT(run)(int32_t n) {
  uint64_t sum = 0;
  for (int32_t row = 0; row < kSize; ++row) {
    const float y = (float)(row - kSize / 2) * (2.5f / kSize);
    for (int32_t column = 0; column < kSize; column += 4) {
      const f32x4 columns = {(float)column, (float)(column + 1), (float)(column + 2), (float)(column + 3)};
      const f32x4 x = columns * (2.5f / kSize) - 2.0f, ys = {y, y, y, y};
      const i32x4 steps = steps_within(x, ys, n);
      for (int i = 0; i < 4; ++i) sum = mix(sum, (uint64_t)steps[i]);
    }
  }
  return (int64_t)sum;
}
