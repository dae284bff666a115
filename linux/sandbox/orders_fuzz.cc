// Arbitrary bytes as an owner's orders: read as frames and unpacked, or refused.
#include <cstdint>
#include <cstdlib>

#include "linux/sandbox/protocol.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace membrane::linux;
  FrameReader reader(FrameReader::From::kOwner);
  reader.add(std::as_bytes(std::span(data, size)));
  for (;;) {
    auto frame = reader.next();
    if (!frame || !*frame) return 0;
    if ((*frame)->bytes.size() > size || !(*frame)->files.empty()) std::abort();
    const std::string_view bytes = (*frame)->bytes;
    if (const auto order = unpack_begin(bytes); order && pack(*order) != bytes) std::abort();
    const auto start = unpack_start(bytes);
    if (start && pack(start->spec, start->wants_output, start->wants_errors) != bytes) std::abort();
  }
}
