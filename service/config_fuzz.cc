// Arbitrary text as settings: accepted or refused.

#include <cstddef>
#include <cstdint>

#include "service/config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  membrane::service::Config config;
  static_cast<void>(membrane::service::read_config({reinterpret_cast<const char*>(data), size}, config));
  return 0;
}
