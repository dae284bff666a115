// Any text is expanded or refused, and an expansion has no forms left.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "lang/wat/host_table.h"
#include "lang/wat/load.h"
#include "lang/wat/preprocessor.h"

namespace {

using enum membrane::wasm::ValType;

const membrane::lang::HostTable& fuzz_host() {
  static const membrane::lang::HostTable kHost({
      {"http", "get", {{kI32}, {kI32, kI32}}, true, 0b1, "http.get(url) -> body, errno"},
      {"io", "print", {{kI32}, {}}, false, 0b1, "io.print(text)"},
      {"kv", "set", {{kI32, kI32}, {kI32}}, true, 0b11, "kv.set(key, value) -> errno"},
      {"str", "concat", {{kI32, kI32}, {kI32, kI32}}, true, 0b11, "str.concat(a, b) -> text, errno"},
  });
  return kHost;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view source(reinterpret_cast<const char*>(data), size);
  const auto expansion = membrane::lang::expand(source, fuzz_host());
  if (expansion && expansion->changed) {
    const auto again = membrane::lang::expand(expansion->text, fuzz_host());
    if (!again || again->changed) std::abort();
  }
  // In any case, each finding is inside the text.
  const auto loaded = membrane::lang::load_wat(source, fuzz_host());
  if (!loaded) {
    if (loaded.error().empty()) std::abort();
    for (const membrane::Diagnostic& d : loaded.error())
      if (d.place.in_text() && d.place.offset > source.size()) std::abort();
  }
  return 0;
}
