// What the programs work on: text that repeats itself as prose does, the same at every run.
#pragma once

#include <stddef.h>
#include <stdint.h>

static void fill_with_text(uint8_t* bytes, size_t size) {
  static const char* const kWords[] = {"the ", "sandbox ", "of ",       "a ",          "program ", "runs ",
                                       "and ", "memory ",  "function ", "returns ",    "value, ",  "grant ",
                                       "is ",  "not ",     "fuel. ",    "interpreter "};
  uint32_t random = 12345;
  size_t at = 0;
  while (at < size) {
    random = random * 1664525 + 1013904223;
    const uint32_t choice = random >> 24;
    const char* word = kWords[choice % 16];
    if (choice > 240) bytes[at++] = (uint8_t)(random >> 8);
    for (; *word != '\0' && at < size; ++word) bytes[at++] = (uint8_t)*word;
  }
}

static uint32_t checksum(const uint8_t* bytes, size_t size) {
  uint32_t sum = 2166136261;
  for (size_t i = 0; i < size; ++i) sum = (sum ^ bytes[i]) * 16777619;
  return sum;
}
