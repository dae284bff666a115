// Arbitrary bytes as the frames of a Connect request: parsed frames lie in the body, in order, and writing
// them again gives the body.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "service/e2b/connect.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace membrane::service::e2b;
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  const auto frames = read_frames(body);
  if (!frames) {
    if (frames.error().message.empty()) std::abort();
    return 0;
  }
  std::string again;
  for (const std::string_view each : *frames) again += frame(each);
  if (again != body) std::abort();
  return 0;
}
