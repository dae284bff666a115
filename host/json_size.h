// JSON from outside is measured before it is parsed: libraries print and free nested values
// by recursion, and take many times the text's bytes for a page of brackets and commas.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace membrane::host {

inline constexpr size_t kMaxJsonDepth = 200;
inline constexpr size_t kMaxJsonValues = 2'000'000;  // some 160 MB when parsed

struct JsonSize {
  size_t depth = 0;   // arrays and objects inside each other
  size_t values = 0;  // and names; one more than there are, at most
};

// An upper bound for text that is JSON. For other text the numbers mean nothing, but what is
// below the limits here nests no deeper, and makes no more values, in any parser.
constexpr JsonSize measure_json(std::string_view text) {
  JsonSize size{.depth = 0, .values = 1};
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
      size.depth = std::max(size.depth, ++depth);
      ++size.values;
    } else if (c == ',' || c == ':') {
      ++size.values;
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return size;
}

constexpr bool is_json_too_deep(std::string_view text) { return measure_json(text).depth > kMaxJsonDepth; }

}  // namespace membrane::host
