#include "wasm/text/lexer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/findings.h"
#include "base/stop_scope.h"
#include "base/utf8.h"
#include "wasm/text/numbers.h"

namespace membrane::wasm {
namespace {

enum CharClass : uint8_t {
  kOther = 0,
  kSpace = 1,
  kIdChar = 2,
  kPunctuation = 4,  // , ; [ ] { }: only in reserved tokens
};

constexpr std::array<uint8_t, 256> kClasses = [] {
  std::array<uint8_t, 256> classes{};
  for (int c = '0'; c <= '9'; ++c) classes[c] = kIdChar;
  for (int c = 'A'; c <= 'Z'; ++c) classes[c] = kIdChar;
  for (int c = 'a'; c <= 'z'; ++c) classes[c] = kIdChar;
  for (const char c : std::string_view("!#$%&'*+-./:<=>?@\\^_`|~"))
    classes[static_cast<uint8_t>(c)] = kIdChar;
  for (const char c : std::string_view(" \t\n\r")) classes[static_cast<uint8_t>(c)] = kSpace;
  for (const char c : std::string_view(",;[]{}")) classes[static_cast<uint8_t>(c)] = kPunctuation;
  return classes;
}();

uint8_t class_of(char c) { return kClasses[static_cast<uint8_t>(c)]; }

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool is_scalar(uint32_t value) { return value < 0xD800 || (value >= 0xE000 && value <= 0x10FFFF); }

Token token(TokenKind kind, size_t begin, size_t end) {
  return {static_cast<uint32_t>(begin), static_cast<uint32_t>(end), kind, 0};
}

// Whether a form that starts with `inner`, a module field's keyword, may be in one that
// starts with `outer`.
bool may_contain(std::string_view outer, std::string_view inner) {
  if (outer.empty() || outer == "module" || outer == "import" || outer == "export") return true;
  if (inner == "func") return outer == "type" || outer == "sub";
  if (inner == "memory") return outer == "data";
  if (inner == "table") return outer == "elem";
  if (inner == "data") return outer == "memory";
  if (inner == "elem") return outer == "table";
  return false;
}

bool is_field_keyword(std::string_view word) {
  return word == "func" || word == "global" || word == "memory" || word == "table" || word == "data" ||
         word == "elem" || word == "start";
}

Diagnostic unopened_parenthesis(std::string_view text, Token close) {
  Diagnostic d;
  d.code = DiagnosticCode::kExtraParenthesis;
  d.place = locate(text, close.begin, close.end);
  d.message = "this ) closes nothing";
  d.found = ")";
  return d;
}

// Points at the parenthesis that probably lacks its partner: when a module field is where only instructions may
// be, the form around it was not closed; with no such sign it is the innermost
// one that is open at the end.
Diagnostic unclosed_parenthesis(std::string_view text, const std::vector<Token>& tokens, uint32_t open) {
  Diagnostic d;
  d.code = DiagnosticCode::kUnclosedParenthesis;
  d.place = locate(text, tokens[open].begin, tokens[open].end);
  d.message = "this ( is never closed";
  d.expected = ")";
  d.found = "the end of the text";
  std::vector<uint32_t> around;
  const auto word_after = [&](uint32_t i) { return std::string(tokens[i + 1].in(text)); };
  for (uint32_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i].kind == TokenKind::kClose) around.pop_back();
    if (tokens[i].kind != TokenKind::kOpen) continue;
    const std::string inner = word_after(i);
    if (!around.empty() && is_field_keyword(inner) && !may_contain(word_after(around.back()), inner)) {
      const Token& outer = tokens[around.back()];
      d.place = locate(text, outer.begin, outer.end);
      d.message = "this (" + word_after(around.back()) + " is not closed before the (" + inner + " in line " +
                  std::to_string(locate(text, tokens[i].begin).line);
      d.found = "(" + inner;
      return d;
    }
    around.push_back(i);
  }
  return d;
}

TokenKind classify_word(std::string_view word) {
  const char c = word[0];
  if (c >= 'a' && c <= 'z') return TokenKind::kKeyword;
  if (c == '$') return word.size() > 1 ? TokenKind::kId : TokenKind::kReserved;
  switch (classify_number(word)) {
    case NumberKind::kInteger: return TokenKind::kInteger;
    case NumberKind::kFloat: return TokenKind::kFloat;
    case NumberKind::kNone: return TokenKind::kReserved;
  }
  return TokenKind::kReserved;
}

}  // namespace

bool is_id_char(char c) { return class_of(c) == kIdChar; }

Lexer::Lexer(std::string_view text) : text_(text), at_(byte_order_mark_bytes(text)) {}

Token Lexer::fail(DiagnosticCode code, size_t begin, size_t end) {
  error_ = code;
  error_begin_ = static_cast<uint32_t>(begin);
  error_end_ = static_cast<uint32_t>(end);
  return token(TokenKind::kError, begin, end);
}

Diagnostic Lexer::error() const {
  Diagnostic d;
  d.code = error_;
  d.place = locate(text_, error_begin_, error_end_);
  const std::string_view span = text_.substr(error_begin_, error_end_ - error_begin_);
  switch (error_) {
    case DiagnosticCode::kUnterminatedString: d.message = "this string has no closing quote"; break;
    case DiagnosticCode::kUnterminatedComment: d.message = "this block comment is never closed"; break;
    case DiagnosticCode::kUnterminatedAnnotation: d.message = "this annotation is never closed"; break;
    case DiagnosticCode::kTextTooLarge: d.message = "the text has more than 32 MiB"; break;
    case DiagnosticCode::kInvalidUtf8: d.message = "these bytes are not UTF-8"; break;
    case DiagnosticCode::kBadStringEscape:
      d.message = "this escape is not one of the text format";
      d.found = span;
      d.expected = "\\t \\n \\r \\\" \\' \\\\ \\hh or \\u{hex}";
      break;
    default:
      d.message = "this character is not allowed here";
      if (is_utf8(span) && static_cast<uint8_t>(span[0]) > 0x20) d.found = span;
  }
  return d;
}

Token Lexer::next() {
  const Token t = next_raw();
  if (t.kind == TokenKind::kOpen && at_ < text_.size() && text_[at_] == '@') [[unlikely]] {
    if (const auto error = skip_annotation(t)) return *error;
    return next();  // one level at most for each annotation: see skip_annotation
  }
  return t;
}

// Skips `(@id …)` and all annotations that follow it, so that next() does not recurse for each.
std::optional<Token> Lexer::skip_annotation(Token open) {
  for (;;) {
    const Token id = next_raw();
    if (id.kind == TokenKind::kError) return id;
    if (id.end - id.begin < 2) return fail(DiagnosticCode::kInvalidCharacter, id.begin, id.end);
    for (size_t depth = 1; depth > 0;) {
      const Token t = next_raw();
      if (t.kind == TokenKind::kError) return t;
      if (t.kind == TokenKind::kEnd)
        return fail(DiagnosticCode::kUnterminatedAnnotation, open.begin, open.begin + 1);
      if (t.kind == TokenKind::kOpen) ++depth;
      if (t.kind == TokenKind::kClose) --depth;
    }
    const size_t after_close = at_;
    open = next_raw();
    if (open.kind != TokenKind::kOpen || at_ >= text_.size() || text_[at_] != '@') {
      at_ = after_close;
      return std::nullopt;
    }
  }
}

Token Lexer::next_raw() {
  if (text_.size() > kMaxTextBytes) [[unlikely]] {
    text_ = text_.substr(0, 0);
    return fail(DiagnosticCode::kTextTooLarge, 0, 0);
  }
  for (;;) {
    while (at_ < text_.size() && class_of(text_[at_]) == kSpace) ++at_;
    if (at_ == text_.size()) return token(TokenKind::kEnd, at_, at_);
    const size_t begin = at_;
    const char c = text_[at_];
    const char next = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
    if (c == '(') {
      if (next == ';') [[unlikely]] {
        if (!skip_block_comment()) return token(TokenKind::kError, error_begin_, error_end_);
        continue;
      }
      ++at_;
      return token(TokenKind::kOpen, begin, at_);
    }
    if (c == ')') {
      ++at_;
      return token(TokenKind::kClose, begin, at_);
    }
    if (c == ';' && next == ';') {
      if (!skip_line_comment()) return token(TokenKind::kError, error_begin_, error_end_);
      continue;
    }
    if (c == '"' || class_of(c) != kOther) return scan_word(begin);
    at_ += std::max<size_t>(utf8_length(text_.substr(at_)), 1);
    return fail(DiagnosticCode::kInvalidCharacter, begin, at_);
  }
}

bool Lexer::skip_line_comment() {
  const size_t begin = at_;
  at_ = std::min(text_.find_first_of("\n\r", at_), text_.size());
  const std::string_view comment = text_.substr(begin, at_ - begin);
  const size_t valid = utf8_valid_prefix(comment);
  if (valid == comment.size()) return true;
  fail(DiagnosticCode::kInvalidUtf8, begin + valid, begin + valid + 1);
  return false;
}

bool Lexer::skip_block_comment() {
  const size_t begin = at_;
  at_ += 2;
  for (size_t depth = 1; depth > 0;) {
    at_ = text_.find_first_of("(;", at_);
    if (at_ == std::string_view::npos || at_ + 1 >= text_.size()) {
      at_ = text_.size();
      fail(DiagnosticCode::kUnterminatedComment, begin, begin + 2);
      return false;
    }
    const std::string_view pair = text_.substr(at_, 2);
    if (pair == "(;") ++depth;
    if (pair == ";)") --depth;
    at_ += pair == "(;" || pair == ";)" ? 2 : 1;
  }
  const std::string_view comment = text_.substr(begin, at_ - begin);
  const size_t valid = utf8_valid_prefix(comment);
  if (valid == comment.size()) return true;
  fail(DiagnosticCode::kInvalidUtf8, begin + valid, begin + valid + 1);
  return false;
}

// Whether the run of characters that make one token continues at at_.
bool Lexer::run_goes_on() const {
  if (at_ == text_.size()) return false;
  const char c = text_[at_];
  if (c == ';') return text_.substr(at_, 2) != ";;";
  return class_of(c) >= kIdChar || c == '"';
}

// A run of identifier characters, strings and punctuation is one token. It means something
// when it is one word or one string; else it is reserved, so that `0drop` is not `0 drop`.
Token Lexer::scan_word(size_t begin) {
  if (text_[at_] == '"') {
    if (const auto error = scan_string()) return *error;
    if (!run_goes_on()) return token(TokenKind::kString, begin, at_);
  } else {
    while (at_ < text_.size() && class_of(text_[at_]) == kIdChar) ++at_;
    if (!run_goes_on()) return token(classify_word(text_.substr(begin, at_ - begin)), begin, at_);
  }
  // $"name" is an identifier; @"name" one of an annotation.
  const bool may_be_id = at_ == begin + 1 && (text_[begin] == '$' || text_[begin] == '@');
  bool is_id = may_be_id && text_[at_] == '"';
  while (run_goes_on()) {
    if (text_[at_] != '"') {
      is_id = false;
      ++at_;
    } else if (const auto error = scan_string()) {
      return *error;
    } else if (is_id && run_goes_on()) {
      is_id = false;
    }
  }
  if (!is_id) return token(TokenKind::kReserved, begin, at_);
  const std::string name = unquote(text_.substr(begin + 1, at_ - begin - 1));
  if (!is_utf8(name)) return fail(DiagnosticCode::kInvalidUtf8, begin, at_);
  if (text_[begin] == '@' && name.empty()) return fail(DiagnosticCode::kInvalidCharacter, begin, at_);
  return token(text_[begin] == '$' && !name.empty() ? TokenKind::kId : TokenKind::kReserved, begin, at_);
}

std::optional<Token> Lexer::scan_string() {
  const size_t begin = at_++;
  std::optional<Token> error;  // the first; the string is read to its end anyway
  while (at_ < text_.size()) {
    const size_t here = at_;
    const auto c = static_cast<uint8_t>(text_[at_]);
    if (c == '"') {
      ++at_;
      return error;
    }
    if (c == '\\') {
      ++at_;
      if (!scan_escape() && !error) error = fail(DiagnosticCode::kBadStringEscape, here, at_);
    } else if (c >= 0x20 && c < 0x7F) {
      ++at_;
    } else if (c == '\n' || c == '\r') {
      break;
    } else if (c < 0x80) {
      ++at_;
      if (!error) error = fail(DiagnosticCode::kInvalidCharacter, here, at_);
    } else {
      const size_t length = utf8_length(text_.substr(at_));
      at_ += std::max<size_t>(length, 1);
      if (length == 0 && !error) error = fail(DiagnosticCode::kInvalidUtf8, here, at_);
    }
  }
  return fail(DiagnosticCode::kUnterminatedString, begin, at_);
}

bool Lexer::scan_escape() {
  if (at_ == text_.size()) return false;
  const char c = text_[at_];
  if (std::string_view("tnr\"'\\").find(c) != std::string_view::npos) {
    ++at_;
    return true;
  }
  if (hex_digit(c) >= 0) {
    ++at_;
    if (at_ == text_.size() || hex_digit(text_[at_]) < 0) return false;
    ++at_;
    return true;
  }
  if (c != 'u') {
    if (c >= 0x20 && c < 0x7F) ++at_;
    return false;
  }
  ++at_;
  if (at_ == text_.size() || text_[at_] != '{') return false;
  const size_t digits = ++at_;
  uint64_t value = 0;
  while (at_ < text_.size() && (hex_digit(text_[at_]) >= 0 || text_[at_] == '_')) {
    const char d = text_[at_++];
    if (d == '_') {  // only between two digits
      if (at_ - 1 == digits || text_[at_ - 2] == '_') return false;
      continue;
    }
    value = std::min<uint64_t>(value * 16 + static_cast<uint64_t>(hex_digit(d)), 0x110000);
  }
  if (at_ == digits || text_[at_ - 1] == '_' || at_ == text_.size() || text_[at_] != '}') return false;
  ++at_;
  return is_scalar(static_cast<uint32_t>(value));
}

std::string id_of(std::string_view id) {
  if (!is_quoted_id(id)) return std::string(id);
  std::string name = "$";
  append_unquoted(name, id.substr(1));
  return name;
}

std::optional<Diagnostic> tokenize(std::string_view text, std::vector<Token>& out) {
  out.clear();
  // While a parenthesis is open its `partner` is the index of the one around it: a stack
  // without memory of its own.
  constexpr uint32_t kNone = UINT32_MAX;
  uint32_t open = kNone;
  Lexer lexer(text);
  for (;;) {
    Token t = lexer.next();
    const auto index = static_cast<uint32_t>(out.size());
    if (t.kind == TokenKind::kError) return lexer.error();
    if (StopScope::stop_wanted()) return stopped_finding("the parser");
    if (t.kind == TokenKind::kOpen) {
      t.partner = open;
      open = index;
    } else if (t.kind == TokenKind::kClose) {
      if (open == kNone) return unopened_parenthesis(text, t);
      t.partner = open;
      open = std::exchange(out[open].partner, index);
    }
    out.push_back(t);
    if (t.kind != TokenKind::kEnd) continue;
    if (open != kNone) return unclosed_parenthesis(text, out, open);
    return std::nullopt;
  }
}

void append_unquoted(std::string& out, std::string_view quoted) {
  for (size_t i = 1; i + 1 < quoted.size(); ++i) {
    if (quoted[i] != '\\') {
      out.push_back(quoted[i]);
      continue;
    }
    const char c = quoted[++i];
    switch (c) {
      case 't': out.push_back('\t'); continue;
      case 'n': out.push_back('\n'); continue;
      case 'r': out.push_back('\r'); continue;
      case '"':
      case '\'':
      case '\\': out.push_back(c); continue;
      default: break;
    }
    uint32_t value = 0;
    if (c == 'u') {
      for (i += 2; quoted[i] != '}'; ++i)
        if (quoted[i] != '_') value = value * 16 + static_cast<uint32_t>(hex_digit(quoted[i]));
      append_utf8(out, value);
    } else {
      value = static_cast<uint32_t>(hex_digit(c) * 16 + hex_digit(quoted[++i]));
      out.push_back(static_cast<char>(value));
    }
  }
}

std::string unquote(std::string_view quoted) {
  std::string out;
  append_unquoted(out, quoted);
  return out;
}

void append_quoted(std::string& out, std::string_view bytes) {
  constexpr std::string_view kHex = "0123456789abcdef";
  out.push_back('"');
  for (const char c : bytes) {
    const auto byte = static_cast<uint8_t>(c);
    if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(c);
    } else if (byte >= 0x20 && byte < 0x7F) {
      out.push_back(c);
    } else if (c == '\n' || c == '\t' || c == '\r') {
      out.push_back('\\');
      out.push_back(c == '\n' ? 'n' : c == '\t' ? 't' : 'r');
    } else {
      out.push_back('\\');
      out.push_back(kHex[byte >> 4]);
      out.push_back(kHex[byte & 15]);
    }
  }
  out.push_back('"');
}

}  // namespace membrane::wasm
