// Bytes with which a guest begins a connection: they are parsed or refused, and no prefix of them gives
// another result.
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
  if (!less) std::abort();                                    // what may continue well has begun well
  if (*less && (!*whole || **less != **whole)) std::abort();  // and once there, the name stays
  if (!*whole) return 0;
  membrane::computers::HelloWatch at_once(**whole), in_pieces(**whole);
  const bool passes = at_once.take(bytes).has_value();
  bool all_pass = true;
  for (size_t at = 0; all_pass && at < size; at += 3)
    all_pass = in_pieces.take(bytes.substr(at, 3)).has_value();
  if (passes != all_pass) std::abort();
  return 0;
}
