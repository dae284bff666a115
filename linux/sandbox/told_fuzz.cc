// Arbitrary bytes as a kernel process's messages: read as frames and unpacked, or refused.
#include <cstdint>
#include <cstdlib>

#include "linux/sandbox/protocol.h"

namespace {

template <typename T>
void expect_same(const membrane::Result<T>& unpacked, std::string_view bytes) {
  if (unpacked && membrane::linux::pack(*unpacked) != bytes) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace membrane::linux;
  FrameReader reader(FrameReader::From::kKernelProcess);
  reader.add(std::as_bytes(std::span(data, size)));
  for (;;) {
    auto frame = reader.next();
    if (!frame || !*frame) return 0;
    const std::string_view bytes = (*frame)->bytes;
    if (bytes.size() > size || !(*frame)->files.empty()) std::abort();
    expect_same(unpack_begun(bytes), bytes);
    expect_same(unpack_end(bytes), bytes);
    expect_same(unpack_facts(bytes), bytes);
    expect_same(unpack_changes(bytes), bytes);
    if (const auto usage = unpack_usage(bytes); usage && pack(*usage).size() > bytes.size()) std::abort();
    (void)unpack_answer(bytes);
  }
}
