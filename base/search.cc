#include "base/search.h"

#include <string.h>  // memmem: glibc's is the two-way algorithm

#include <string>

namespace membrane {

size_t find_bytes(std::string_view text, std::string_view needle, size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (needle.empty()) return from;
  if (needle.size() > text.size() - from) return std::string_view::npos;
  const void* at = ::memmem(text.data() + from, text.size() - from, needle.data(), needle.size());
  return at ? static_cast<size_t>(static_cast<const char*>(at) - text.data()) : std::string_view::npos;
}

size_t find_last_bytes(std::string_view text, std::string_view needle) {
  const std::string backward_text(text.rbegin(), text.rend());
  const std::string backward_needle(needle.rbegin(), needle.rend());
  const size_t at = find_bytes(backward_text, backward_needle);
  return at == std::string_view::npos ? at : text.size() - at - needle.size();
}

}  // namespace membrane
