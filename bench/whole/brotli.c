// Brotli: a text compressed at two qualities, and decompressed.
#include <brotli/decode.h>
#include <brotli/encode.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

int main(void) {
  static const int kQualities[] = {2, 6};
  const size_t size = 1500000, room = BrotliEncoderMaxCompressedSize(size);
  uint8_t *const text = malloc(size), *const packed = malloc(room), *const again = malloc(size);
  fill_with_text(text, size);
  for (int i = 0; i < 2; ++i) {
    size_t used = room, got = size;
    if (!BrotliEncoderCompress(kQualities[i], 22, BROTLI_MODE_TEXT, size, text, &used, packed)) return 1;
    if (BrotliDecoderDecompress(used, packed, &got, again) != BROTLI_DECODER_RESULT_SUCCESS || got != size ||
        memcmp(text, again, size) != 0)
      return 1;
    printf("%d: %zu bytes, %08x\n", kQualities[i], used, checksum(packed, used));
  }
  return 0;
}
