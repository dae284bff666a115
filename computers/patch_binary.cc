// Git's encoding of binary files.
#include <array>

#include "computers/patch.h"

namespace membrane::computers {
namespace {

constexpr std::string_view kDigits =
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";
constexpr uint8_t kNoDigit = 255;
constexpr std::array<uint8_t, 256> kValues = [] {
  std::array<uint8_t, 256> values = {};
  values.fill(kNoDigit);
  for (size_t i = 0; i < kDigits.size(); ++i)
    values[static_cast<uint8_t>(kDigits[i])] = static_cast<uint8_t>(i);
  return values;
}();

std::unexpected<Error> damaged(const char* what) {
  return fail(ErrorCode::kInvalidInput, std::string("binary bytes of the patch are damaged: ") + what);
}

// A number in a delta's header: seven bits per byte, the lowest first.
std::optional<uint64_t> take_size(std::string_view& delta) {
  uint64_t value = 0;
  for (int shift = 0; shift < 63; shift += 7) {
    if (delta.empty()) return std::nullopt;
    const auto byte = static_cast<unsigned char>(delta.front());
    delta.remove_prefix(1);
    value |= uint64_t{byte & 127u} << shift;
    if ((byte & 128) == 0) return value;
  }
  return std::nullopt;
}

}  // namespace

std::string git_base85(std::string_view bytes) {
  std::string text;
  for (size_t at = 0; at < bytes.size(); at += 4) {
    uint32_t word = 0;
    for (size_t i = 0; i < 4; ++i)
      word = word << 8 | (at + i < bytes.size() ? static_cast<unsigned char>(bytes[at + i]) : 0u);
    std::array<char, 5> digits = {};
    for (size_t i = 5; i-- > 0; word /= 85) digits[i] = kDigits[word % 85];
    text.append(digits.data(), digits.size());
  }
  return text;
}

Result<std::string> from_git_base85(std::string_view text, size_t bytes) {
  if (text.size() != (bytes + 3) / 4 * 5) return damaged("a line's length does not match its header");
  std::string made;
  for (size_t at = 0; at < text.size(); at += 5) {
    uint64_t word = 0;
    for (const char c : text.substr(at, 5)) {
      const uint8_t digit = kValues[static_cast<uint8_t>(c)];
      if (digit == kNoDigit) return damaged("a character is not a base 85 digit");
      word = word * 85 + digit;
    }
    if (word > UINT32_MAX) return damaged("a number is too large");
    for (const int shift : {24, 16, 8, 0}) made += static_cast<char>(word >> shift & 255);
  }
  made.resize(bytes);
  return made;
}

Result<std::string> apply_git_delta(std::string_view base, std::string_view delta, PatchBudget& budget) {
  const auto from = take_size(delta), to = take_size(delta);
  if (!from || !to || *from != base.size()) return damaged("the delta belongs to another file");
  MEMBRANE_TRY(budget.take_bytes(*to));
  std::string made;
  made.reserve(*to);
  while (!delta.empty()) {
    const auto head = static_cast<unsigned char>(delta.front());
    delta.remove_prefix(1);
    std::string_view piece;
    if ((head & 128) != 0) {
      uint64_t offset = 0, size = 0;
      for (int i = 0; i < 7; ++i) {
        if ((head >> i & 1) == 0) continue;
        if (delta.empty()) return damaged("the delta is cut off");
        const uint64_t byte = static_cast<unsigned char>(delta.front());
        delta.remove_prefix(1);
        if (i < 4) offset |= byte << (8 * i);
        else size |= byte << (8 * (i - 4));
      }
      if (size == 0) size = 0x10000;
      if (offset > base.size() || size > base.size() - offset)
        return damaged("the delta copies from outside the file");
      piece = base.substr(offset, size);
    } else {
      if (head == 0 || head > delta.size()) return damaged("the delta is cut off");
      piece = delta.substr(0, head);
      delta.remove_prefix(head);
    }
    if (piece.size() > *to - made.size()) return damaged("the delta makes more than it says");
    made += piece;
  }
  if (made.size() != *to) return damaged("the delta makes less than it says");
  return made;
}

}  // namespace membrane::computers
