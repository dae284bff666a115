// WebP: a picture encoded with and without loss, and decoded.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "text.h"
#include "webp/decode.h"
#include "webp/encode.h"

enum { kWidth = 512, kHeight = 384 };

int main(void) {
  uint8_t* const picture = malloc(kWidth * kHeight * 3);
  uint32_t noise = 1;
  for (int y = 0; y < kHeight; ++y)
    for (int x = 0; x < kWidth; ++x) {
      uint8_t* const pixel = picture + (y * kWidth + x) * 3;
      noise = noise * 1664525 + 1013904223;
      pixel[0] = (uint8_t)(128 + 100 * sin(x / 17.0) * cos(y / 23.0) + (noise >> 29));
      pixel[1] = (uint8_t)(x * y / 512);
      pixel[2] = (uint8_t)((x / 32 + y / 32) % 2 * 180 + (noise >> 28));
    }
  uint8_t* lossy = NULL;
  uint8_t* exact = NULL;
  const size_t lossy_bytes = WebPEncodeRGB(picture, kWidth, kHeight, kWidth * 3, 75, &lossy);
  const size_t exact_bytes = WebPEncodeLosslessRGB(picture, kWidth, kHeight, kWidth * 3, &exact);
  int width = 0, height = 0;
  uint8_t* const decoded = WebPDecodeRGB(lossy, lossy_bytes, &width, &height);
  uint8_t* const same = WebPDecodeRGB(exact, exact_bytes, &width, &height);
  if (decoded == NULL || same == NULL) return 1;
  const size_t size = kWidth * kHeight * 3;
  if (checksum(same, size) != checksum(picture, size)) return 1;
  printf("%zu bytes, %zu without loss, %08x\n", lossy_bytes, exact_bytes, checksum(decoded, size));
  return 0;
}
