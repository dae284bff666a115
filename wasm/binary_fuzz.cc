// Arbitrary bytes as a module: decoding and validating them may fail, and nothing worse. A valid
// module is encoded, and the canonical binary must be stable, and valid, too.
#include <cstdint>
#include <cstdlib>
#include <span>

#include "wasm/binary.h"
#include "wasm/validate.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace membrane::wasm;
  const auto module = decode(std::span(data, size));
  if (!module) {
    require(!module.error().message.empty() && module.error().place.offset <= size);
    return 0;
  }
  // An invalid or even malformed body must still be encoded to something that is read back alike.
  const auto canonical = encode(*module);
  const auto again = decode(std::span(canonical));
  require(again.has_value());
  require(encode(*again) == canonical);

  const auto info = validate(*module);
  if (!info) {
    require(!info.error().message.empty() && info.error().place.offset <= size);
    return 0;
  }
  const auto info_again = validate(*again);
  require(info_again.has_value());
  require(info_again->functions.size() == info->functions.size());
  require(info_again->uses_simd == info->uses_simd);
  return 0;
}
