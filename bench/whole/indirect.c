// Two hundred small functions, called through a table.
#include <stdint.h>
#include <stdio.h>

#define NOINLINE __attribute__((noinline))

#define F(n)                                                         \
  static NOINLINE uint32_t f##n(uint32_t x, uint32_t y) {            \
    for (uint32_t i = 0; i < n % 7; ++i) x = (x ^ y) * (2u * n + 1); \
    return x + (y >> (n % 13)) + n;                                  \
  }
// clang-format off
#define TEN(X, n) X(n##0) X(n##1) X(n##2) X(n##3) X(n##4) X(n##5) X(n##6) X(n##7) X(n##8) X(n##9)
#define ALL(X)                                                                                      \
  TEN(X, 1) TEN(X, 2) TEN(X, 3) TEN(X, 4) TEN(X, 5) TEN(X, 6) TEN(X, 7) TEN(X, 8) TEN(X, 9) TEN(X, 10) \
  TEN(X, 11) TEN(X, 12) TEN(X, 13) TEN(X, 14) TEN(X, 15) TEN(X, 16) TEN(X, 17) TEN(X, 18) TEN(X, 19) TEN(X, 20)
// clang-format on

ALL(F)

typedef uint32_t (*Function)(uint32_t, uint32_t);
#define NAME(n) f##n,
static const Function kFunctions[200] = {ALL(NAME)};

int main(void) {
  uint32_t sum = 1;
  for (uint32_t i = 0; i < 20000000; ++i) sum = kFunctions[(sum >> 7) % 200](sum, i);
  printf("%08x\n", sum);
  return 0;
}
