// Archives sent by clients.
#include <cstddef>
#include <cstdint>

#include "service/archive.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto entries = membrane::service::read_archive({reinterpret_cast<const char*>(data), size});
  if (!entries) return 0;
  for (const auto& entry : *entries)
    if (entry.name.starts_with('/') || entry.name.starts_with("../") ||
        entry.name.find("/../") != entry.name.npos)
      __builtin_trap();
  return 0;
}
