#include "host/egress/secret_mask.h"

#include <algorithm>
#include <charconv>
#include <cstdint>

#include "base/base64.h"

namespace membrane::host {
namespace {

struct Unit {
  char byte;
  size_t length;  // of the text that spells it
};

bool read_hex(std::string_view digits, unsigned& value) {
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  return read.ec == std::errc() && read.ptr == digits.data() + digits.size();
}

Unit percent_unit(std::string_view text) {
  unsigned value = 0;
  if (text.size() >= 3 && read_hex(text.substr(1, 2), value)) return {static_cast<char>(value), 3};
  return {text[0], 1};
}

Unit backslash_unit(std::string_view text) {
  unsigned value = 0;
  if (text.size() >= 6 && text[1] == 'u' && read_hex(text.substr(2, 4), value) && value < 0x100)
    return {static_cast<char>(value), 6};
  if (text.size() >= 2 && (text[1] == '/' || text[1] == '"' || text[1] == '\\')) return {text[1], 2};
  return {text[0], 1};
}

// What is the same wherever the secret stands in bytes that are encoded as base64: three bytes are four characters,
// so the secret's first and last characters may also hold bits of its neighbours.
std::string base64_after(std::string_view secret, size_t bytes_before) {
  const std::string text = base64_encode(std::string(bytes_before, '\0') + std::string(secret));
  const size_t first = (bytes_before * 8 + 5) / 6, end = (bytes_before + secret.size()) * 8 / 6;
  return text.substr(first, end - first);
}

std::string url_alphabet(std::string text) {
  std::ranges::replace(text, '+', '-');
  std::ranges::replace(text, '/', '_');
  return text;
}

std::string hex_of(std::string_view bytes, std::string_view digits) {
  std::string out;
  for (const char byte : bytes) {
    out += digits[static_cast<uint8_t>(byte) >> 4];
    out += digits[static_cast<uint8_t>(byte) & 15];
  }
  return out;
}

}  // namespace

SecretMask::SecretMask(std::string_view secret) : secret_(pattern_of(std::string(secret))) {
  for (size_t before = 0; before < 3; ++before) {
    const std::string text = base64_after(secret, before);
    encoded_.push_back(pattern_of(text));
    if (std::string other = url_alphabet(text); other != text)
      encoded_.push_back(pattern_of(std::move(other)));
  }
  encoded_.push_back(pattern_of(hex_of(secret, "0123456789abcdef")));
  encoded_.push_back(pattern_of(hex_of(secret, "0123456789ABCDEF")));
}

SecretMask::Pattern SecretMask::pattern_of(std::string bytes) {
  Pattern pattern{std::move(bytes), {}};
  pattern.borders.assign(pattern.bytes.size() + 1, 0);
  for (size_t i = 1, matched = 0; i < pattern.bytes.size(); ++i) {
    while (matched > 0 && pattern.bytes[i] != pattern.bytes[matched]) matched = pattern.borders[matched];
    if (pattern.bytes[i] == pattern.bytes[matched]) ++matched;
    pattern.borders[i + 1] = matched;
  }
  return pattern;
}

void SecretMask::find(std::string_view text, const Pattern& pattern, Escapes escapes,
                      std::vector<Span>& found) {
  const bool percent = (static_cast<uint8_t>(escapes) & 1) != 0,
             backslash = (static_cast<uint8_t>(escapes) & 2) != 0;
  const size_t length = pattern.bytes.size();
  std::vector<size_t> begins(length);  // where the last `length` units begin, in a ring
  size_t matched = 0, units = 0;
  for (size_t at = 0; at < text.size(); ++units) {
    Unit unit{text[at], 1};
    if (percent && unit.byte == '%') unit = percent_unit(text.substr(at));
    else if (backslash && unit.byte == '\\') unit = backslash_unit(text.substr(at));
    begins[units % length] = at;
    at += unit.length;
    while (matched > 0 && (matched == length || unit.byte != pattern.bytes[matched]))
      matched = pattern.borders[matched];
    if (unit.byte == pattern.bytes[matched]) ++matched;
    if (matched < length) continue;
    const size_t begin = begins[(units + 1) % length];  // the oldest in the ring
    if (!found.empty() && found.back().begin <= begin && begin <= found.back().end) found.back().end = at;
    else found.push_back({begin, at});
  }
}

void SecretMask::apply(std::string& text) const {
  const bool percent = text.find('%') != std::string::npos, backslash = text.find('\\') != std::string::npos;
  std::vector<Span> found;
  find(text, secret_, Escapes::kNone, found);
  if (percent) find(text, secret_, Escapes::kPercent, found);
  if (backslash) find(text, secret_, Escapes::kBackslash, found);
  if (percent && backslash) find(text, secret_, Escapes::kBoth, found);
  for (const Pattern& pattern : encoded_) find(text, pattern, Escapes::kNone, found);
  for (const auto& [begin, end] : found)
    std::fill(text.begin() + static_cast<ptrdiff_t>(begin), text.begin() + static_cast<ptrdiff_t>(end), '*');
}

}  // namespace membrane::host
