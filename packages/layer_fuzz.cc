// Any bytes as a layer's index: every file read from it lies inside the content.
#include <cstdlib>

#include "packages/layer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr uint64_t kContentBytes = 1000;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto files = membrane::packages::read_layer_index(text, "k", kContentBytes);
  if (!files) return 0;
  uint64_t offset = 0;
  for (const membrane::packages::LayerFile& file : *files) {
    if (file.offset != offset || file.bytes > kContentBytes - offset || file.path.empty() ||
        file.path.front() == '/')
      std::abort();
    offset += file.bytes;
  }
  if (offset != kContentBytes) std::abort();
  return 0;
}
