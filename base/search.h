// Finding bytes in bytes, in linear time for any input.
//
// std::string_view::find takes time n × m in the worst case, which an untrusted program can provoke.
#pragma once

#include <cstddef>
#include <string_view>

namespace membrane {

// The first occurrence of `needle` at or after `from`, or npos. An empty needle is found at `from` if that is not
// past the end.
size_t find_bytes(std::string_view text, std::string_view needle, size_t from = 0);
// The last occurrence of `needle`, or npos. An empty needle is found at the end.
size_t find_last_bytes(std::string_view text, std::string_view needle);

}  // namespace membrane
