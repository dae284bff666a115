// Arbitrary text as a request's traceparent: a valid one can be written and read again.

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "service/traces.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace membrane::service;
  const auto context = read_traceparent({reinterpret_cast<const char*>(data), size});
  if (context && !read_traceparent(traceparent(*context))) std::abort();
  return 0;
}
