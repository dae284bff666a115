// Bytes with which a guest begins a connection: whatever they are, they are read or refused, and no less of them is complete.
#include "computers/network/client_hello.h"

#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using membrane::computers::server_name_of;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto whole = server_name_of(bytes);
  if (!whole) return 0;
  if (*whole && (*whole)->size() > 253) std::abort();
  const auto less = server_name_of(bytes.substr(0, size / 2));
  if (!less) std::abort();                                    // what may go on well has begun well
  if (*less && (!*whole || **less != **whole)) std::abort();  // and once there, the name stays
  return 0;
}
