// Whether a text is JSON, without allocation or recursion.
//
// The library's parser quotes what it did not expect in errors many times the size of the text, so it is only given
// valid JSON. Threads: pure functions.
#pragma once

#include <cstddef>
#include <string_view>

namespace membrane {

inline constexpr size_t kMaxJsonNumberBytes = 1'000;

// The grammar of RFC 8259, in UTF-8 (a leading byte order mark is ignored), nested at most kMaxJsonDepth (json.h)
// deep, with escapes that encode characters, and numbers of at most kMaxJsonNumberBytes.
bool is_json(std::string_view text);

// How many bytes of the text match that grammar before the first that does not: the size of the text if only its end
// is missing, or if it is JSON. 0 for text that is not UTF-8.
size_t json_bytes(std::string_view text);

}  // namespace membrane
