#include "base/json_grammar.h"

#include <algorithm>
#include <bitset>

#include "base/json.h"
#include "base/utf8.h"

namespace membrane {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

class Grammar {
 public:
  explicit Grammar(std::string_view text) : text_(text) {}

  // The current offset.
  [[nodiscard]] size_t at() const { return std::min(at_, text_.size()); }

  bool holds() {
    bool expects_value = true;
    while (true) {
      skip_blanks();
      if (expects_value) {
        if (!value(expects_value)) return false;
      } else if (depth_ == 0) {
        return at_ == text_.size();
      } else if (next_is(is_object_[depth_ - 1] ? '}' : ']')) {
        --depth_;
      } else if (next_is(',') && (!is_object_[depth_ - 1] || name())) {
        expects_value = true;
      } else {
        return false;
      }
    }
  }

 private:
  // A scalar, an empty container, or the beginning of one: then its first value is expected.
  bool value(bool& expects_value) {
    const bool is_object = peek() == '{';
    if (!is_object && peek() != '[') {
      expects_value = false;
      return peek() == '"' ? string() : literal("null") || literal("true") || literal("false") || number();
    }
    ++at_;
    skip_blanks();
    expects_value = !next_is(is_object ? '}' : ']');
    if (!expects_value) return true;
    if (depth_ == kMaxJsonDepth) return false;
    is_object_[depth_++] = is_object;
    return !is_object || name();
  }

  bool name() {
    skip_blanks();
    if (!string()) return false;
    skip_blanks();
    return next_is(':');
  }

  bool string() {
    if (!next_is('"')) return false;
    while (at_ < text_.size() && text_[at_] != '"') {
      if (static_cast<unsigned char>(text_[at_]) < 0x20) return false;
      if (text_[at_++] == '\\' && !escape()) return false;
    }
    return next_is('"');
  }

  bool escape() {
    constexpr std::string_view kShort = "\"\\/bfnrt";
    if (!next_is('u')) return at_ < text_.size() && kShort.find(text_[at_++]) != std::string_view::npos;
    unsigned unit = 0;
    if (!hex(unit) || (unit >= 0xDC00 && unit <= 0xDFFF)) return false;
    if (unit < 0xD800 || unit > 0xDBFF) return true;
    return next_is('\\') && next_is('u') && hex(unit) && unit >= 0xDC00 && unit <= 0xDFFF;
  }

  bool hex(unsigned& unit) {
    unit = 0;
    for (int i = 0; i < 4; ++i, ++at_) {
      const char c = peek(), lower = static_cast<char>(c | 0x20);
      if (is_digit(c)) unit = unit * 16 + static_cast<unsigned>(c - '0');
      else if (lower >= 'a' && lower <= 'f') unit = unit * 16 + static_cast<unsigned>(lower - 'a' + 10);
      else return false;
    }
    return true;
  }

  bool number() {
    const size_t begin = at_;
    (void)next_is('-');
    if (!next_is('0') && !digits()) return false;
    if (next_is('.') && !digits()) return false;
    if (next_is('e') || next_is('E')) {
      if (!next_is('+')) (void)next_is('-');
      if (!digits()) return false;
    }
    return at_ - begin <= kMaxJsonNumberBytes;
  }

  bool digits() {
    const size_t begin = at_;
    while (is_digit(peek())) ++at_;
    return at_ != begin;
  }

  bool literal(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  bool next_is(char c) {
    if (peek() != c || at_ == text_.size()) return false;
    ++at_;
    return true;
  }

  void skip_blanks() {
    constexpr std::string_view kBlanks = " \t\n\r";
    at_ = std::min(text_.find_first_not_of(kBlanks, at_), text_.size());
  }

  [[nodiscard]] char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  std::string_view text_;
  size_t at_ = 0;
  size_t depth_ = 0;
  std::bitset<kMaxJsonDepth> is_object_;
};

}  // namespace

bool is_json(std::string_view text) {
  text = without_byte_order_mark(text);
  return is_utf8(text) && Grammar(text).holds();
}

size_t json_bytes(std::string_view text) {
  if (!is_utf8(text)) return 0;
  const size_t before = byte_order_mark_bytes(text);
  Grammar grammar(text.substr(before));
  static_cast<void>(grammar.holds());
  return before + grammar.at();
}

}  // namespace membrane
