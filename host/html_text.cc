#include "host/html_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <optional>

#include "base/search.h"
#include "base/utf8.h"

namespace membrane::host {
namespace {

constexpr auto kBlocks = std::to_array<std::string_view>(
    {"address", "article", "aside",      "blockquote", "body",   "br",      "caption", "dd",    "div",
     "dl",      "dt",      "figcaption", "figure",     "footer", "form",    "h1",      "h2",    "h3",
     "h4",      "h5",      "h6",         "head",       "header", "hr",      "html",    "li",    "main",
     "nav",     "ol",      "option",     "p",          "pre",    "section", "table",   "tbody", "td",
     "tfoot",   "th",      "thead",      "title",      "tr",     "ul"});
static_assert(std::ranges::is_sorted(kBlocks));

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }
std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](char c) { return lower(c); });
  return result;
}

// "&amp;", "&#8212;", "&#x2014;" at the start of `text`: the character, and the length of the entity.
struct Entity {
  uint32_t code_point = 0;
  size_t length = 0;
};
std::optional<Entity> entity_at(std::string_view text) {
  const size_t end = text.substr(0, 12).find(';');
  if (end == std::string_view::npos || end < 2) return std::nullopt;
  const std::string_view name = text.substr(1, end - 1);
  if (name[0] == '#') {
    const bool hex = name.size() > 1 && lower(name[1]) == 'x';
    const std::string_view digits = name.substr(hex ? 2 : 1);
    uint32_t code_point = 0;
    const auto [stop, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), code_point, hex ? 16 : 10);
    if (error != std::errc() || stop != digits.data() + digits.size() || code_point == 0) return std::nullopt;
    if (!is_scalar_value(code_point)) return Entity{0xFFFD, end + 1};
    return Entity{code_point, end + 1};
  }
  static constexpr std::pair<std::string_view, uint32_t> kNames[] = {
      {"amp", '&'},      {"lt", '<'},       {"gt", '>'},       {"quot", '"'},      {"apos", '\''},
      {"nbsp", ' '},     {"copy", 0xA9},    {"reg", 0xAE},     {"hellip", 0x2026}, {"mdash", 0x2014},
      {"ndash", 0x2013}, {"lsquo", 0x2018}, {"rsquo", 0x2019}, {"ldquo", 0x201C},  {"rdquo", 0x201D},
      {"bull", 0x2022},  {"middot", 0xB7},  {"times", 0xD7},   {"euro", 0x20AC},   {"deg", 0xB0},
      {"laquo", 0xAB},   {"raquo", 0xBB},   {"auml", 0xE4},    {"ouml", 0xF6},     {"uuml", 0xFC},
      {"szlig", 0xDF},   {"eacute", 0xE9},  {"egrave", 0xE8},  {"agrave", 0xE0},   {"ccedil", 0xE7}};
  for (const auto& [known, code_point] : kNames) {
    if (known == name) return Entity{code_point, end + 1};
  }
  return std::nullopt;
}

std::string decode(std::string_view text) {
  std::string decoded;
  while (!text.empty()) {
    if (const auto entity = text[0] == '&' ? entity_at(text) : std::nullopt) {
      append_utf8(decoded, entity->code_point);
      text.remove_prefix(entity->length);
    } else {
      decoded += text[0];
      text.remove_prefix(1);
    }
  }
  return decoded;
}

// Text with normalised white space: one space between words, one newline between lines.
class Folded {
 public:
  void add(char c) {
    if (is_space(c)) {
      space_ = true;
    } else {
      separate();
      text_ += c;
    }
  }
  void add(uint32_t code_point) {
    if (code_point < 0x80) return add(static_cast<char>(code_point));
    separate();
    append_utf8(text_, code_point);
  }
  void end_line() { line_ = true; }
  [[nodiscard]] std::string& text() { return text_; }

 private:
  void separate() {
    if (!text_.empty() && (line_ || space_)) text_ += line_ ? '\n' : ' ';
    line_ = space_ = false;
  }

  std::string text_;
  bool line_ = false;
  bool space_ = false;
};

struct Tag {
  std::string name;  // lower case; "/a" for an end tag
  std::string_view attributes;
};

class Scanner {
 public:
  explicit Scanner(std::string_view html) : html_(html) {}

  [[nodiscard]] bool done() const { return at_ >= html_.size(); }
  char take() { return html_[at_++]; }
  [[nodiscard]] std::string_view rest() const { return html_.substr(at_); }
  void skip(size_t bytes) { at_ += bytes; }

  // At "<": the tag; nothing for a comment or a declaration, which is skipped. For a "<" that begins neither,
  // nothing is consumed and `is_text` is set.
  std::optional<Tag> tag(bool& is_text) {
    const std::string_view text = rest();
    is_text = false;
    if (text.starts_with("<!--")) {
      skip_to("-->", 4);
      return std::nullopt;
    }
    const char next = text.size() > 1 ? text[1] : '\0';
    if (next == '!' || next == '?') {
      skip_to(">", 1);
      return std::nullopt;
    }
    if (!is_letter(next) && !(next == '/' && text.size() > 2 && is_letter(text[2]))) {
      is_text = true;
      return std::nullopt;
    }
    const size_t end = tag_end(text);
    const std::string_view inside = text.substr(1, end - 1);
    const size_t name_end = std::min(inside.find_first_of(" \t\r\n\f/>", 1), inside.size());
    at_ += std::min(end + 1, text.size());
    return Tag{lower(inside.substr(0, name_end)), inside.substr(name_end)};
  }

  // Skips past the end tag of a script or a style: the content is not text.
  void skip_raw(std::string_view name) {
    const std::string end = "</" + std::string(name);
    while (!done()) {
      const size_t at = find_bytes(html_, "</", at_);
      if (at == std::string_view::npos) break;
      at_ = at + 2;
      if (lower(html_.substr(at, end.size())) == end) return skip_to(">", 0);
    }
    at_ = html_.size();
  }

 private:
  // The ">" that ends the tag: not one in a quoted attribute.
  static size_t tag_end(std::string_view text) {
    char quote = '\0';
    for (size_t i = 1; i < text.size(); ++i) {
      if (quote != '\0') {
        if (text[i] == quote) quote = '\0';
      } else if ((text[i] == '"' || text[i] == '\'') && text[i - 1] == '=') {
        quote = text[i];
      } else if (text[i] == '>') {
        return i;
      }
    }
    return text.size();
  }
  void skip_to(std::string_view mark, size_t from) {
    const size_t at = find_bytes(html_, mark, std::min(at_ + from, html_.size()));
    at_ = at == std::string_view::npos ? html_.size() : at + mark.size();
  }

  std::string_view html_;
  size_t at_ = 0;
};

std::optional<std::string> attribute(std::string_view text, std::string_view wanted) {
  while (true) {
    while (!text.empty() && (is_space(text[0]) || text[0] == '/')) text.remove_prefix(1);
    if (text.empty()) return std::nullopt;
    const size_t name_end = std::min(text.find_first_of(" \t\r\n\f=/"), text.size());
    const std::string name = lower(text.substr(0, name_end));
    text.remove_prefix(std::max<size_t>(name_end, name.empty() ? 1 : 0));
    while (!text.empty() && is_space(text[0])) text.remove_prefix(1);
    std::string_view value;
    if (!text.empty() && text[0] == '=') {
      text.remove_prefix(1);
      while (!text.empty() && is_space(text[0])) text.remove_prefix(1);
      const bool quoted = !text.empty() && (text[0] == '"' || text[0] == '\'');
      const size_t end = quoted ? text.find(text[0], 1) : text.find_first_of(" \t\r\n\f");
      value = quoted ? text.substr(1, end == std::string_view::npos ? end : end - 1) : text.substr(0, end);
      text.remove_prefix(end == std::string_view::npos ? text.size() : end + (quoted ? 1 : 0));
    }
    if (name == wanted) return decode(value);
  }
}

// Calls `on_tag` for each tag; `text` gets the text between them.
template <typename OnTag>
void scan(std::string_view html, Folded*& text, OnTag on_tag) {
  Scanner scanner(html);
  while (!scanner.done()) {
    const char next = scanner.rest()[0];
    if (next == '<') {
      bool is_text = false;
      const auto tag = scanner.tag(is_text);
      if (tag) {
        if (std::ranges::binary_search(kBlocks, std::string_view(tag->name).substr(tag->name[0] == '/')))
          text->end_line();
        if (tag->name == "script" || tag->name == "style") scanner.skip_raw(tag->name);
        on_tag(*tag);
      }
      if (!is_text) continue;
    }
    if (const auto entity = next == '&' ? entity_at(scanner.rest()) : std::nullopt) {
      text->add(entity->code_point);
      scanner.skip(entity->length);
    } else {
      text->add(scanner.take());
    }
  }
}

}  // namespace

std::string html_text(std::string_view html) {
  Folded folded;
  Folded* text = &folded;
  scan(html, text, [](const Tag&) {});
  return std::move(folded.text());
}

std::vector<HtmlLink> html_links(std::string_view html) {
  std::vector<HtmlLink> links;
  Folded outside, inside;
  Folded* text = &outside;
  const auto finish = [&] {
    if (text == &inside) links.back().text = std::move(inside.text());
    outside = Folded();
    text = &outside;
  };
  scan(html, text, [&](const Tag& tag) {
    if (tag.name != "a" && tag.name != "/a") return;
    finish();  // links do not nest: a new one ends the previous one
    if (links.size() == kMaxHtmlLinks) return;
    if (auto href = tag.name == "a" ? attribute(tag.attributes, "href") : std::nullopt) {
      links.push_back({std::move(*href), {}});
      inside = Folded();
      text = &inside;
    }
  });
  finish();
  return links;
}

}  // namespace membrane::host
