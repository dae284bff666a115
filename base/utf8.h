// UTF-8 (RFC 3629): checking and writing. Surrogates, overlong forms and anything above
// U+10FFFF are invalid, as WebAssembly names demand (specification, chapter 5.2.4).
//
// Threads: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace membrane {

// Length in bytes (1..4) of the valid sequence at the start of `bytes`; 0 when there is none.
size_t utf8_length(std::string_view bytes);

// Offset of the first byte that is not part of a valid sequence; bytes.size() when all are valid.
size_t utf8_valid_prefix(std::string_view bytes);

inline bool is_utf8(std::string_view bytes) { return utf8_valid_prefix(bytes) == bytes.size(); }

// Bytes of a byte order mark at the start, which editors of some systems write; it is not part of the text.
constexpr size_t byte_order_mark_bytes(std::string_view text) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  return text.starts_with(kMark) ? kMark.size() : 0;
}
constexpr std::string_view without_byte_order_mark(std::string_view text) {
  return text.substr(byte_order_mark_bytes(text));
}

// For valid text: whether a character begins with this byte, and how many bytes, at most `most`, hold whole
// characters.
constexpr bool begins_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }
size_t utf8_cut(std::string_view text, size_t most);

// Appends a scalar value (not a surrogate, at most U+10FFFF: the caller has checked).
void append_utf8(std::string& out, uint32_t scalar);

constexpr bool is_scalar_value(uint32_t code_point) {
  return code_point <= 0x10FFFF && (code_point < 0xD800 || code_point > 0xDFFF);
}

// The same text with U+FFFD for each byte that is not part of a valid sequence.
std::string utf8_repair(std::string_view bytes);

}  // namespace membrane
