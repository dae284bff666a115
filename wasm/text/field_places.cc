#include "wasm/text/field_places.h"

#include <array>
#include <optional>
#include <vector>

#include "wasm/text/lexer.h"

namespace membrane::wasm {
namespace {

struct KindKeyword {
  std::string_view keyword;
  FieldKind kind;
};
constexpr KindKeyword kKeywords[] = {
    {"type", FieldKind::kType},     {"func", FieldKind::kFunc},     {"table", FieldKind::kTable},
    {"memory", FieldKind::kMemory}, {"global", FieldKind::kGlobal}, {"elem", FieldKind::kElem},
    {"data", FieldKind::kData},     {"start", FieldKind::kStart},   {"tag", FieldKind::kTag},
};

std::optional<FieldKind> kind_of(std::string_view keyword) {
  for (const KindKeyword& k : kKeywords)
    if (k.keyword == keyword) return k.kind;
  return std::nullopt;
}

// The forms of a module's text: fields at the outermost level, or within one (module …).
class Fields {
 public:
  explicit Fields(std::string_view text) : text_(text) {
    if (tokenize(text, tokens_)) tokens_.clear();
  }

  // Calls visit(open, keyword) for each form directly within tokens [begin, end), until it returns
  // true.
  bool each_form(size_t begin, size_t end, auto visit) const {
    for (size_t i = begin; i < end; ++i) {
      if (tokens_[i].kind != TokenKind::kOpen) continue;
      if (visit(i, keyword(i))) return true;
      i = tokens_[i].partner;
    }
    return false;
  }

  bool each_field(auto visit) const {
    if (tokens_.empty()) return false;
    return each_form(0, tokens_.size(), [&](size_t open, std::string_view word) {
      return word == "module" ? each_form(open + 1, tokens_[open].partner, visit) : visit(open, word);
    });
  }

  // The index space to which the form at `open` adds an entry; a segment within counts by itself.
  [[nodiscard]] std::optional<FieldKind> defines(size_t open) const {
    if (keyword(open) != "import") return kind_of(keyword(open));
    std::optional<FieldKind> kind;
    each_form(open + 1, tokens_[open].partner, [&](size_t, std::string_view word) {
      kind = kind_of(word);
      return kind.has_value();
    });
    return kind;
  }

  // From the form's open to the end of its keyword and name, or to its close when that is near.
  [[nodiscard]] Place place_of_form(size_t open) const {
    const size_t close = tokens_[open].partner;
    constexpr uint32_t kShort = 60;
    const bool is_short = tokens_[close].end - tokens_[open].begin <= kShort;
    const bool has_name = open + 2 < tokens_.size() && tokens_[open + 2].kind == TokenKind::kId;
    const size_t last = is_short ? close : has_name ? open + 2 : open + 1;
    return locate(text_, tokens_[open].begin, tokens_[last].end);
  }

  [[nodiscard]] std::string_view keyword(size_t open) const {
    return open + 1 < tokens_.size() ? tokens_[open + 1].in(text_) : std::string_view{};
  }

  [[nodiscard]] const std::vector<Token>& tokens() const { return tokens_; }

 private:
  std::string_view text_;
  std::vector<Token> tokens_;  // empty when the text is not well formed
};

}  // namespace

Place place_of_field(std::string_view text, FieldKind kind, uint32_t index) {
  const Fields fields(text);
  Place place;
  const auto found = [&](size_t open) {
    if (index-- != 0) return false;
    place = fields.place_of_form(open);
    return true;
  };
  fields.each_field([&](size_t open, std::string_view word) {
    const auto defined = fields.defines(open);
    if (defined == kind) return found(open);
    const bool may_hold_segment =
        (word == "table" && kind == FieldKind::kElem) || (word == "memory" && kind == FieldKind::kData);
    const bool may_hold_types = word == "rec" && kind == FieldKind::kType;
    return (may_hold_segment || may_hold_types) &&
           fields.each_form(open + 1, fields.tokens()[open].partner, [&](size_t inner, std::string_view w) {
             return kind_of(w) == kind && found(inner);
           });
  });
  return place;
}

Place place_of_export(std::string_view text, std::string_view name, uint32_t occurrence) {
  const Fields fields(text);
  const auto& tokens = fields.tokens();
  for (size_t i = 0; i + 2 < tokens.size(); ++i) {
    if (tokens[i].kind != TokenKind::kOpen || fields.keyword(i) != "export") continue;
    const Token& string = tokens[i + 2];
    if (string.kind != TokenKind::kString || unquote(string.in(text)) != name) continue;
    if (occurrence-- == 0) return locate(text, string.begin, string.end);
  }
  return {};
}

}  // namespace membrane::wasm
