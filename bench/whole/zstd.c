// Zstandard: a text compressed at three levels, and decompressed.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"
#include "zstd.h"

int main(void) {
  static const int kLevels[] = {1, 3, 9};
  const size_t size = 2000000, room = ZSTD_compressBound(size);
  uint8_t *const text = malloc(size), *const packed = malloc(room), *const again = malloc(size);
  fill_with_text(text, size);
  for (int i = 0; i < 3; ++i) {
    const size_t used = ZSTD_compress(packed, room, text, size, kLevels[i]);
    if (ZSTD_isError(used)) return 1;
    if (ZSTD_decompress(again, size, packed, used) != size || memcmp(text, again, size) != 0) return 1;
    printf("%d: %zu bytes, %08x\n", kLevels[i], used, checksum(packed, used));
  }
  return 0;
}
