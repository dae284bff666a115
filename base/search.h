// Finding bytes in bytes, in time linear in both, whatever they are.
//
// std::string_view::find takes time n × m for inputs that are made to be slow; what a
// program hands over may be made so.
#pragma once

#include <cstddef>
#include <string_view>

namespace membrane {

// The first place of `needle` at or after `from`, or npos. An empty needle is found at
// `from` when that is not past the end.
size_t find_bytes(std::string_view text, std::string_view needle, size_t from = 0);
// The last place of `needle`, or npos. An empty needle is found at the end.
size_t find_last_bytes(std::string_view text, std::string_view needle);

}  // namespace membrane
