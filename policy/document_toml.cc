#define TOML_EXCEPTIONS 0
// Without exceptions, toml++ 3.3 continues a little after an error that it has recorded, past assertions of its own
// that then do not hold; it still returns the error. An assertion must not end the process for bad input, nor may
// the compiler assume that it holds, as toml++ lets it with NDEBUG.
#undef NDEBUG
#define TOML_ASSERT(condition) static_cast<void>(0)
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

#include <cstdio>

#include "base/utf8.h"
#include "policy/document.h"

namespace membrane::policy {
namespace {

std::unexpected<Error> at_line(uint32_t line, const std::string& message, std::string hint = {}) {
  return fail(ErrorCode::kInvalidInput, "line " + std::to_string(line) + ": " + message, std::move(hint));
}

// A TOML escape for the character at the start of `text`, which is `length` bytes long.
std::string escape(std::string_view text, size_t length) {
  uint32_t scalar = static_cast<unsigned char>(text[0]) & (0xffu >> (length + 1));
  for (size_t i = 1; i < length; ++i) scalar = scalar << 6 | (static_cast<unsigned char>(text[i]) & 0x3fu);
  char out[16];
  std::snprintf(out, sizeof out, "\\U%08X", scalar);
  return out;
}

// toml++ reads arrays and inline tables by recursion, and frees tables likewise; a dotted key makes as many tables.
// So nesting is checked before toml++ sees the text. Gets every character outside of strings and comments.
class Nesting {
 public:
  // False: deeper than allowed.
  bool add(char c) {
    if (c == '[' || c == '{') ++depth_;
    if ((c == ']' || c == '}') && depth_ > 0) --depth_;
    if (c == '.') ++dots_;
    if (c == '\n' || c == '=' || c == ',' || c == '{') dots_ = 0;
    return depth_ <= kMaxDepth && dots_ <= kMaxDepth;
  }

 private:
  size_t depth_ = 0;
  size_t dots_ = 0;  // in the current key
};

// The same document in ASCII. toml++ 3.3 has undefined behaviour for some non-ASCII letters while it looks for white
// space, so it gets none: they are escaped in strings, dropped from comments, and refused elsewhere. Multi-line
// strings, which no policy needs and which would complicate this, are refused.
Result<std::string> to_ascii(std::string_view text) {
  std::string out;
  uint32_t line = 1;
  char quote = 0;  // the open string's quote, or '#' in a comment; 0 outside
  Nesting nesting;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (static_cast<unsigned char>(c) >= 0x80) {
      const size_t length = utf8_length(text.substr(i));
      if (length == 0) return at_line(line, "The policy is not UTF-8.");
      if (quote != '"' && quote != '#')
        return at_line(line, "A character that is not ASCII is outside \"…\".", "put it in double quotes");
      if (quote == '"') out += escape(text.substr(i), length);
      i += length - 1;
      continue;
    }
    out += c;
    if ((quote == 0 || c == '\n') && !nesting.add(c))
      return at_line(line, "The tables are nested too deeply.");
    if (c == '\n') {
      ++line;
      quote = 0;  // no string continues past the line; toml++ reports that itself
    } else if (quote == 0) {
      const bool opens = c == '"' || c == '\'';
      if (opens && text.substr(i, 3) == std::string(3, c))
        return at_line(line, "Multi-line strings are not accepted in a policy.", "use one pair of quotes");
      if (opens || c == '#') quote = c;
    } else if (quote == '"' && c == '\\') {
      const unsigned char next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0;
      if (next >= 0x80)
        return at_line(line, "A backslash precedes a character that needs none.", "remove it");
      if (next > ' ') out += text[++i];
    } else if (c == quote && quote != '#') {
      quote = 0;
    }
  }
  return out;
}

Result<Node> convert(const toml::node& from, size_t depth);

Result<Node> convert_table(const toml::table& from, size_t depth) {
  Node out{Table{}, from.source().begin.line};
  for (const auto& [key, value] : from) {
    MEMBRANE_ASSIGN(Node child, convert(value, depth + 1));
    std::get<Table>(out.value).push_back({std::string(key.str()), std::move(child)});
  }
  return out;
}

Result<Node> convert_array(const toml::array& from, size_t depth) {
  Node out{Array{}, from.source().begin.line};
  for (const auto& value : from) {
    MEMBRANE_ASSIGN(Node child, convert(value, depth + 1));
    std::get<Array>(out.value).push_back(std::move(child));
  }
  return out;
}

Result<Node> convert(const toml::node& from, size_t depth) {
  const uint32_t line = from.source().begin.line;
  if (depth > kMaxDepth) return at_line(line, "The tables are nested too deeply.");
  if (const auto* table = from.as_table()) return convert_table(*table, depth);
  if (const auto* array = from.as_array()) return convert_array(*array, depth);
  if (const auto* text = from.as_string()) return Node{text->get(), line};
  if (const auto* number = from.as_integer()) return Node{number->get(), line};
  if (const auto* number = from.as_floating_point()) return Node{number->get(), line};
  if (const auto* truth = from.as_boolean()) return Node{truth->get(), line};
  return at_line(line, "A date or time without quotes has no use in a policy.", "put it in quotes");
}

}  // namespace

Result<Node> parse_toml(std::string_view text) {
  if (text.size() > kMaxDocumentBytes)
    return fail(ErrorCode::kInvalidInput, "The policy is larger than 1 MiB.");
  MEMBRANE_ASSIGN(const std::string ascii, to_ascii(without_byte_order_mark(text)));
  const toml::parse_result parsed = toml::parse(ascii);
  if (!parsed) {
    const auto& error = parsed.error();
    const std::string description(error.description());
    const bool follows_value = description.contains("expected a comment or whitespace");
    return at_line(error.source().begin.line, description,
                   follows_value ? "strings need quotes: memory = \"64 MiB\""
                                 : "a policy is TOML: tables in brackets, and name = value (docs/policy.md)");
  }
  return convert_table(parsed.table(), 0);
}

}  // namespace membrane::policy
