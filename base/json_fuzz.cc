// Any text: the measurement, the grammar and the library agree about it, and nothing exceeds the limits.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/json.h"
#include "base/json_grammar.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace membrane;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const JsonSize measured = measure_json(text);
  const auto read = read_json(text);
  const auto ordered = read_ordered_json(text);
  if (read) {
    if (measured.depth > kMaxJsonDepth || !is_json(text)) std::abort();
    const std::string printed = json_text(*read);
    const auto again = read_json(printed, "the text", {.bytes = SIZE_MAX, .memory_bytes = UINT64_MAX});
    if (!again || *again != *read) std::abort();
  } else if (size < 1'000 && measured.depth <= kMaxJsonDepth && is_json(text) &&
             nlohmann::json::accept(
                 text)) {  // which treats NUL as the end, and accepts no number above a double
    std::abort();          // it is JSON, and too small for the other limits
  }
  if (ordered && !read) std::abort();
  return 0;
}
