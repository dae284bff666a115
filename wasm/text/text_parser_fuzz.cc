// Arbitrary text: it parses or is refused with findings, and what parses prints to text that parses
// to a module with the same binary. Arbitrary binaries: what decodes prints, valid or not.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "wasm/binary.h"
#include "wasm/text/parser.h"
#include "wasm/text/printer.h"
#include "wasm/text/script.h"

namespace {

void require(bool held) {
  if (!held) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace membrane::wasm;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto decoded = decode({data, size})) {
    (void)parse_text(print_text(*decoded));
    return 0;
  }
  (void)parse_script(text);
  const auto module = parse_text(text);
  if (!module) {
    require(!module.error().empty() && module.error().size() <= kMaxParseErrors);
    for (const auto& d : module.error()) require(!render(d, text, "fuzz.wat").empty());
    return 0;
  }
  const auto binary = encode(*module);
  const auto again = parse_text(print_text(*module));
  require(again.has_value());
  require(encode(*again) == binary);
  const auto decoded = decode(binary);
  require(decoded.has_value());
  require(encode(*decoded) == binary);
  return 0;
}
