#include "base/terminal.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <iterator>

#include "base/utf8.h"

namespace membrane {
namespace {

struct Range {
  uint32_t first, last;
};

// Characters that reorder the text around them or cannot be seen, ascending.
constexpr Range kHidden[] = {
    {0x00AD, 0x00AD},    // soft hyphen
    {0x034F, 0x034F},    // combining grapheme joiner
    {0x061C, 0x061C},    // Arabic letter mark
    {0x115F, 0x1160},    // Hangul fillers
    {0x17B4, 0x17B5},    // invisible Khmer vowels
    {0x180B, 0x180F},    // Mongolian variation selectors and vowel separator
    {0x200B, 0x200B},    // zero width space
    {0x200E, 0x200F},    // left-to-right and right-to-left mark
    {0x2028, 0x202E},    // separators of lines and paragraphs, embeddings and overrides
    {0x2060, 0x206F},    // word joiner, invisible operators, isolates, deprecated format characters
    {0x2800, 0x2800},    // Braille blank
    {0x3164, 0x3164},    // Hangul filler
    {0xFE00, 0xFE0E},    // variation selectors, which can carry hidden text; emoji need the last, U+FE0F
    {0xFEFF, 0xFEFF},    // byte order mark
    {0xFFA0, 0xFFA0},    // halfwidth Hangul filler
    {0xFFF0, 0xFFFB},    // unassigned and ignored; interlinear annotation
    {0x13430, 0x13438},  // Egyptian hieroglyph format controls
    {0x1BCA0, 0x1BCA3},  // shorthand format controls
    {0x1D173, 0x1D17A},  // musical format controls
    {0xE0000, 0xE0FFF},  // tags, and variation selectors that carry hidden text
};

bool is_hidden(uint32_t character) {
  const auto* const at = std::ranges::lower_bound(kHidden, character, {}, &Range::last);
  return at != std::end(kHidden) && at->first <= character;
}

bool is_control(uint32_t character) { return character < 0x20 || (character >= 0x7F && character <= 0x9F); }

// The character encoded by the first `length` bytes of `text`, which are valid.
uint32_t character_of(std::string_view text, size_t length) {
  const auto lead = static_cast<uint8_t>(text[0]);
  if (length == 1) return lead;
  uint32_t character = lead & (0x7Fu >> length);
  for (size_t i = 1; i < length; ++i) character = character << 6 | (static_cast<uint8_t>(text[i]) & 0x3Fu);
  return character;
}

// Copies `text`; `escape(character, is_byte)` returns the replacement for a character or an invalid byte, or nothing
// to keep it.
template <typename Escape>
std::string rewritten(std::string_view text, Escape escape) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const std::string_view rest = text.substr(i);
    const size_t length = utf8_length(rest);
    const uint32_t character = length == 0 ? static_cast<uint8_t>(rest[0]) : character_of(rest, length);
    const size_t taken = std::max<size_t>(length, 1);
    char escaped[16] = "";
    if (escape(character, length == 0, escaped)) out += escaped;
    else out += rest.substr(0, taken);
    i += taken;
  }
  return out;
}

template <size_t kSize>
bool escape_character(uint32_t character, bool is_byte, char (&escaped)[kSize]) {
  if (is_byte || is_control(character)) std::snprintf(escaped, kSize, "\\x%02x", character);
  else if (is_hidden(character)) std::snprintf(escaped, kSize, "\\u{%x}", character);
  else return false;
  return true;
}

}  // namespace

std::string printable(std::string_view text) {
  return rewritten(text, [](uint32_t character, bool is_byte, auto& escaped) {
    return character != '\n' && character != '\t' && escape_character(character, is_byte, escaped);
  });
}

std::string printable_line(std::string_view text) {
  return rewritten(text, [](uint32_t character, bool is_byte, auto& escaped) {
    if (character == '\n') return std::snprintf(escaped, sizeof escaped, "\\n") > 0;
    if (character == '\t') return std::snprintf(escaped, sizeof escaped, "\\t") > 0;
    return escape_character(character, is_byte, escaped);
  });
}

// Between its tokens a JSON text has only white space, and its strings have no byte below the space.
std::string printable_json(std::string_view json) {
  return rewritten(json, [](uint32_t character, bool is_byte, auto& escaped) {
    if (is_byte) return std::snprintf(escaped, sizeof escaped, "\\ufffd") > 0;
    if (character < 0x20 || (!is_control(character) && !is_hidden(character))) return false;
    if (character < 0x10000) return std::snprintf(escaped, sizeof escaped, "\\u%04x", character) > 0;
    const uint32_t offset = character - 0x10000;
    return std::snprintf(escaped, sizeof escaped, "\\u%04x\\u%04x", 0xD800 + (offset >> 10),
                         0xDC00 + (offset & 0x3FF)) > 0;
  });
}

}  // namespace membrane
