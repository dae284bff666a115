// Tokens of the text format (WebAssembly 3.0, chapter 6.3).
//
// The lexer knows nothing of modules: the text parser, the script parser and the
// preprocessor are built on it. White space, comments and annotations `(@id …)` are
// skipped. Every token that it returns without an error is well formed: the escapes of
// a kString are valid, and a kInteger or kFloat matches the grammar (its range is checked
// when its type is known, see numbers.h).
//
//   Lexer lexer(text);
//   for (Token t = lexer.next(); t.kind != TokenKind::kEnd; t = lexer.next()) …
//
// or all tokens at once with their parentheses matched: tokenize().
//
// Ownership: tokens are offsets into the text, which must outlive the lexer. Threads: a
// lexer belongs to one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"

namespace membrane::wasm {

// A text larger than this is refused (kTextTooLarge), so that offsets fit and memory is bounded.
inline constexpr size_t kMaxTextBytes = size_t{32} << 20;

enum class TokenKind : uint8_t {
  kEnd,       // the end of the text: an empty span there, again at each call
  kOpen,      // (
  kClose,     // )
  kKeyword,   // a word that starts with a-z: func, i32.add, offset=8, nan, inf
  kId,        // $name, or $"name"
  kString,    // "…", quotes included in the span
  kInteger,   // +1_000, -0x1F
  kFloat,     // 1.5, 0x1p-3, -inf, +nan:0x1 (unsigned nan and inf are keywords)
  kReserved,  // characters that may follow each other but mean nothing: 0drop, "a"x, $, %
  kError,     // not a token; Lexer::error() says why
};

struct Token {
  uint32_t begin = 0;  // bytes from the start of the text
  uint32_t end = 0;    // one past the last byte
  TokenKind kind = TokenKind::kEnd;
  // Of a parenthesis, after tokenize(): the index of its partner in the token vector.
  uint32_t partner = 0;

  [[nodiscard]] std::string_view in(std::string_view text) const {
    return {text.data() + begin, size_t{end} - begin};
  }
};

class Lexer {
 public:
  explicit Lexer(std::string_view text);

  Token next();

  // Why the last token was kError. After an error next() continues after the offending bytes.
  [[nodiscard]] Diagnostic error() const;

 private:
  Token fail(DiagnosticCode code, size_t begin, size_t end);
  Token next_raw();  // annotations are not skipped here
  std::optional<Token> skip_annotation(Token open);
  bool skip_block_comment();           // false and error_ when it does not end
  bool skip_line_comment();            // false and error_ on bad UTF-8
  std::optional<Token> scan_string();  // at_ is on the quote; an error token when bad
  bool scan_escape();                  // at_ is after the backslash
  Token scan_word(size_t begin);
  [[nodiscard]] bool run_goes_on() const;

  std::string_view text_;
  size_t at_ = 0;
  DiagnosticCode error_{};
  uint32_t error_begin_ = 0;
  uint32_t error_end_ = 0;
};

// All tokens of `text` into `out` (cleared first; its capacity is reused), closed by a kEnd
// token, each parenthesis with its partner. Fails on the first error of the lexer, on a
// parenthesis that is not closed or was not opened; `out` then holds the tokens up to there.
std::optional<Diagnostic> tokenize(std::string_view text, std::vector<Token>& out);

// Whether `c` may be in an identifier.
bool is_id_char(char c);

// Whether a kId token is in quotes, and the identifier that it stands for: $name of $name and of $"name".
constexpr bool is_quoted_id(std::string_view id) { return id.size() > 1 && id[1] == '"'; }
std::string id_of(std::string_view id);

// The bytes that a kString token denotes. `quoted` is the token's span with its quotes.
void append_unquoted(std::string& out, std::string_view quoted);
std::string unquote(std::string_view quoted);

// The literal of the text format that denotes `bytes`, with its quotes. Printable ASCII is
// written as it is, everything else is escaped, so that the result is plain ASCII.
void append_quoted(std::string& out, std::string_view bytes);

}  // namespace membrane::wasm
