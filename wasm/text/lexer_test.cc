#include "wasm/text/lexer.h"

#include <gtest/gtest.h>

namespace membrane::wasm {
namespace {

using enum TokenKind;

std::vector<TokenKind> kinds(std::string_view text) {
  std::vector<TokenKind> out;
  Lexer lexer(text);
  for (Token t = lexer.next(); t.kind != kEnd; t = lexer.next()) out.push_back(t.kind);
  return out;
}

std::vector<std::string> words(std::string_view text) {
  std::vector<std::string> out;
  Lexer lexer(text);
  for (Token t = lexer.next(); t.kind != kEnd; t = lexer.next()) out.emplace_back(t.in(text));
  return out;
}

DiagnosticCode first_error(std::string_view text) {
  Lexer lexer(text);
  for (Token t = lexer.next(); t.kind != kEnd; t = lexer.next())
    if (t.kind == kError) return lexer.error().code;
  ADD_FAILURE() << "no error in " << text;
  return {};
}

TEST(Lexer, ClassifiesEachKindOfToken) {
  EXPECT_EQ(kinds("( ) func $x \"s\" 12 -0x1F 1.5 1e9 0x1p-3 -inf +nan:0x7 nan offset=8"),
            (std::vector{kOpen, kClose, kKeyword, kId, kString, kInteger, kInteger, kFloat, kFloat, kFloat,
                         kFloat, kFloat, kKeyword, kKeyword}));
}

TEST(Lexer, ReservesWhatMeansNothing) {
  for (const std::string_view text :
       {"0drop",  "$",          "A",   "1__0", "1_", "0x", "0x_1", "1e",         ".5", "\"a\"x",
        "x\"a\"", "\"a\"\"b\"", "0$l", "a,b",  "[",  "{}", ";",    "nan:0x\"\"", "+",  "-nan:1"})
    EXPECT_EQ(kinds(text), std::vector{kReserved}) << text;
}

TEST(Lexer, ParenthesesAndCommentsSeparateTokens) {
  EXPECT_EQ(words("(func(nop)nop);;x"), (std::vector<std::string>{"(", "func", "(", "nop", ")", "nop", ")"}));
  EXPECT_EQ(words("a;;b(\nc(;d(;e;);;\n;)f"), (std::vector<std::string>{"a", "c", "f"}));
  EXPECT_EQ(words(";; up to a carriage return\rx"), std::vector<std::string>{"x"});
}

TEST(Lexer, SkipsAnnotations) {
  EXPECT_EQ(words("(@a) x (@b (c \"d)\" ,;[) (;e);)) (@c)(@d (@e)) y ("),
            (std::vector<std::string>{"x", "y", "("}));
  EXPECT_EQ(first_error("(@a (b)"), DiagnosticCode::kUnterminatedAnnotation);
  EXPECT_EQ(first_error("(@ a)"), DiagnosticCode::kInvalidCharacter);
}

TEST(Lexer, ReportsLexicalErrorsWithTheirPlace) {
  EXPECT_EQ(first_error("(func \"abc"), DiagnosticCode::kUnterminatedString);
  EXPECT_EQ(first_error("\"abc\ndef\""), DiagnosticCode::kUnterminatedString);
  EXPECT_EQ(first_error("(; (; ;)"), DiagnosticCode::kUnterminatedComment);
  EXPECT_EQ(first_error(";; \xFF"), DiagnosticCode::kInvalidUtf8);
  EXPECT_EQ(first_error("(; \xC3 ;)"), DiagnosticCode::kInvalidUtf8);
  EXPECT_EQ(first_error("\"\x80\""), DiagnosticCode::kInvalidUtf8);
  EXPECT_EQ(first_error("\"\t\""), DiagnosticCode::kInvalidCharacter);
  EXPECT_EQ(first_error("x \xE2\x82\xAC"), DiagnosticCode::kInvalidCharacter);
  EXPECT_EQ(first_error(std::string_view("\0", 1)), DiagnosticCode::kInvalidCharacter);
  const std::string_view text = "(a)\n  \"\\q\"";
  Lexer lexer(text);
  while (lexer.next().kind != kError) {}
  EXPECT_EQ(lexer.error().place, (Place{7, 9, 2, 4}));
  EXPECT_EQ(lexer.error().found, "\\q");
}

TEST(Lexer, AByteOrderMarkMayBeAtTheStart) {
  EXPECT_EQ(words("\xEF\xBB\xBF(a)"), (std::vector<std::string>{"(", "a", ")"}));
  EXPECT_EQ(first_error("\xEF\xBB\xBF\xEF\xBB\xBF(a)"), DiagnosticCode::kInvalidCharacter);
  EXPECT_EQ(first_error(" \xEF\xBB\xBF(a)"), DiagnosticCode::kInvalidCharacter);
}

TEST(Lexer, ContinuesAfterAnError) {
  EXPECT_EQ(kinds("\"\\q\" x \x01 y"), (std::vector{kError, kKeyword, kError, kKeyword}));
}

TEST(Lexer, RefusesBadEscapes) {
  for (const std::string_view text : {R"("\")", R"("\x")", R"("\0")", R"("\0g")", R"("\u00e9")", R"("\u{}")",
                                      R"("\u{110000}")", R"("\u{d800}")", R"("\u{_1}")", R"("\u{1__1}")",
                                      R"("\u{1_}")", R"("\u{1")", R"("\u{fffffffffffffffffffff}")"}) {
    Lexer lexer(text);
    EXPECT_EQ(lexer.next().kind, kError) << text;
  }
}

TEST(Lexer, UnquotesEveryEscape) {
  EXPECT_EQ(unquote(R"("a\t\n\r\"\'\\\00\fFz\u{e9}\u{1_F600}")"),
            std::string("a\t\n\r\"'\\\0\xFFz\xC3\xA9\xF0\x9F\x98\x80", 16));
}

TEST(Lexer, QuotingRoundTripsEveryByte) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes.push_back(static_cast<char>(i));
  std::string quoted;
  append_quoted(quoted, bytes);
  EXPECT_EQ(kinds(quoted), std::vector{kString});
  EXPECT_EQ(unquote(quoted), bytes);
}

TEST(Tokenize, MatchesParentheses) {
  std::vector<Token> tokens;
  ASSERT_FALSE(tokenize("(a (b) (c d))", tokens).has_value());
  ASSERT_EQ(tokens.size(), 11u);
  EXPECT_EQ(tokens[0].partner, 9u);
  EXPECT_EQ(tokens[9].partner, 0u);
  EXPECT_EQ(tokens[2].partner, 4u);
  EXPECT_EQ(tokens[5].partner, 8u);
  EXPECT_EQ(tokens.back().kind, kEnd);
}

TEST(Tokenize, ReportsUnbalancedParentheses) {
  std::vector<Token> tokens;
  auto extra = tokenize("(a))", tokens);
  ASSERT_TRUE(extra.has_value());
  EXPECT_EQ(extra->code, DiagnosticCode::kExtraParenthesis);
  EXPECT_EQ(extra->place.offset, 3u);

  auto open = tokenize("(a (b)", tokens);
  ASSERT_TRUE(open.has_value());
  EXPECT_EQ(open->code, DiagnosticCode::kUnclosedParenthesis);
  EXPECT_EQ(open->place.offset, 0u);
  ASSERT_TRUE(tokenize("(", tokens).has_value());
}

TEST(Tokenize, PointsAtTheFunctionThatWasNotClosed) {
  std::vector<Token> tokens;
  const auto open = tokenize("(module\n  (func $a (nop)\n  (func $b (nop))\n)", tokens);
  ASSERT_TRUE(open.has_value());
  EXPECT_EQ(open->place.line, 2u);
  EXPECT_EQ(open->message, "this (func is not closed before the (func in line 3");
}

}  // namespace
}  // namespace membrane::wasm
