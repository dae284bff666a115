// BLAKE2b: large messages, and many small ones.
#include <stdio.h>
#include <stdlib.h>

#include "blake2.h"
#include "text.h"

int main(void) {
  const size_t size = 4000000;
  uint8_t* const text = malloc(size);
  uint8_t digest[64] = {0};
  fill_with_text(text, size);
  for (int i = 0; i < 12; ++i) blake2b(digest, sizeof digest, text, size, digest, sizeof digest);
  for (int i = 0; i < 100000; ++i) blake2b(digest, sizeof digest, text + i, 100, digest, 32);
  for (int i = 0; i < 64; ++i) printf("%02x", digest[i]);
  printf("\n");
  return 0;
}
