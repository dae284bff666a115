#include "base/utf8.h"

#include <cstring>

namespace membrane {

size_t utf8_length(std::string_view bytes) {
  if (bytes.empty()) return 0;
  const auto at = [&](size_t i) { return static_cast<uint8_t>(bytes[i]); };
  const auto follows = [&](size_t i) { return i < bytes.size() && (at(i) & 0xC0) == 0x80; };
  const uint8_t lead = at(0);
  if (lead < 0x80) return 1;
  if (lead < 0xC2) return 0;  // a continuation byte, or an overlong form of ASCII
  if (lead < 0xE0) return follows(1) ? 2 : 0;
  if (lead < 0xF0) {
    if (!follows(1) || !follows(2)) return 0;
    const bool overlong = lead == 0xE0 && at(1) < 0xA0;
    const bool surrogate = lead == 0xED && at(1) >= 0xA0;
    return overlong || surrogate ? 0 : 3;
  }
  if (lead > 0xF4 || !follows(1) || !follows(2) || !follows(3)) return 0;
  const bool overlong = lead == 0xF0 && at(1) < 0x90;
  const bool too_large = lead == 0xF4 && at(1) >= 0x90;
  return overlong || too_large ? 0 : 4;
}

size_t utf8_valid_prefix(std::string_view bytes) {
  size_t i = 0;
  while (i < bytes.size()) {
    uint64_t word = 0;
    if (bytes.size() - i >= sizeof word) {  // eight ASCII bytes at a time
      std::memcpy(&word, bytes.data() + i, sizeof word);
      if ((word & 0x8080808080808080u) == 0) {
        i += sizeof word;
        continue;
      }
    }
    const size_t length = utf8_length(bytes.substr(i));
    if (length == 0) return i;
    i += length;
  }
  return i;
}

size_t utf8_cut(std::string_view text, size_t most) {
  if (text.size() <= most) return text.size();
  while (most > 0 && !begins_character(text[most])) --most;
  return most;
}

void append_utf8(std::string& out, uint32_t scalar) {
  const auto put = [&](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  const auto put_tail = [&](unsigned shift) { put(0x80 | ((scalar >> shift) & 0x3F)); };
  if (scalar < 0x80) {
    put(scalar);
  } else if (scalar < 0x800) {
    put(0xC0 | (scalar >> 6));
    put_tail(0);
  } else if (scalar < 0x10000) {
    put(0xE0 | (scalar >> 12));
    put_tail(6);
    put_tail(0);
  } else {
    put(0xF0 | (scalar >> 18));
    put_tail(12);
    put_tail(6);
    put_tail(0);
  }
}

std::string utf8_repair(std::string_view bytes) {
  std::string repaired;
  repaired.reserve(bytes.size());
  while (true) {
    const size_t valid = utf8_valid_prefix(bytes);
    repaired += bytes.substr(0, valid);
    if (valid == bytes.size()) return repaired;
    repaired += "\xEF\xBF\xBD";
    bytes.remove_prefix(valid + 1);
  }
}

}  // namespace membrane
