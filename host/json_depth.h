// JSON from outside is measured before it is parsed: libraries print and free nested values
// by recursion, and a page of brackets must not use up the stack.
#pragma once

#include <cstddef>
#include <string_view>

namespace membrane::host {

inline constexpr size_t kMaxJsonDepth = 200;

// Whether arrays and objects stand more than kMaxJsonDepth deep. For text that is not JSON
// the answer means nothing, but is safe: what passes cannot nest deeper in any parser.
constexpr bool is_json_too_deep(std::string_view text) {
  size_t depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxJsonDepth) return true;
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return false;
}

}  // namespace membrane::host
