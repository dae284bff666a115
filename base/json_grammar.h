// Whether a text is JSON, without allocation or recursion.
//
// The library's parser quotes what it did not expect in errors that take many times its size; so it is given only what
// is JSON. Threads: pure functions.
#pragma once

#include <cstddef>
#include <string_view>

namespace membrane {

inline constexpr size_t kMaxJsonNumberBytes = 1'000;

// The grammar of RFC 8259, in UTF-8 (a byte order mark before it is ignored), nested at most kMaxJsonDepth (json.h)
// deep, with escapes that stand for characters, and numbers of at most kMaxJsonNumberBytes.
bool is_json(std::string_view text);

// How many bytes of the text are as that grammar wants them, before the first that is not: the size of the text where its
// end is missing, or it is JSON. Of text that is not UTF-8, 0.
size_t json_bytes(std::string_view text);

}  // namespace membrane
