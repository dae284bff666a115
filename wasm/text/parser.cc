#include "wasm/text/parser.h"

#include <algorithm>
#include <utility>

#include "base/utf8.h"
#include "wasm/text/parser_impl.h"

namespace membrane::wasm {
namespace text {
namespace {

// The kind of import or definition that a keyword names, as an index space.
bool space_of(std::string_view word, Space& out) {
  if (word == "func") return out = Space::kFunc, true;
  if (word == "table") return out = Space::kTable, true;
  if (word == "memory") return out = Space::kMemory, true;
  if (word == "global") return out = Space::kGlobal, true;
  if (word == "tag") return out = Space::kTag, true;
  return false;
}

void keep_space(const NameScope& scope, std::vector<NameEntry>& out) {
  out.reserve(scope.names().size());
  for (const auto& name : scope.names()) out.push_back({0, name.index, std::string(name.text.substr(1))});
}

}  // namespace

void Scratch::clear() {
  frames.clear();
  labels.clear();
  pending.clear();
  for (NameScope& scope : scopes) scope.clear();
  types.clear();
  fields.clear();
}

std::string_view name_of(Space space) {
  switch (space) {
    case Space::kFunc: return "function";
    case Space::kTable: return "table";
    case Space::kMemory: return "memory";
    case Space::kGlobal: return "global";
    case Space::kTag: return "tag";
    case Space::kType: return "type";
    case Space::kElem: return "element segment";
    case Space::kData: return "data segment";
    case Space::kLocal: return "local";
  }
  return "name";
}

bool Parser::run() {
  if (auto error = tokenize(text_, s_.tokens)) {
    errors_.push_back(std::move(*error));
    return false;
  }
  module_.bytes.reserve(text_.size() / 8 + 32);
  module_.source_map.reserve(s_.tokens.size() / 6 + 4);
  if (find_module()) {
    declare_types();
    declare_fields();
    define_fields();
    check_forward_types();
  }
  if (errors_.empty()) {
    keep_names();
    return true;
  }
  std::sort(errors_.begin(), errors_.end(),
            [](const Diagnostic& a, const Diagnostic& b) { return a.place.offset < b.place.offset; });
  return false;
}

// Finds where the fields begin and end: inside `(module $name? …)`, or the whole text.
bool Parser::find_module() {
  fields_begin_ = 0;
  fields_end_ = static_cast<uint32_t>(s_.tokens.size()) - 1;
  if (!at_form("module")) return true;
  const uint32_t close = peek().partner;
  at_ += 2;
  if (const auto id = take_id(); !id.empty()) module_.names.module = id.substr(1);
  if (at_keyword("binary") || at_keyword("quote")) {
    report(DiagnosticCode::kUnexpectedToken, peek(), "modules of this form are only for test scripts")
        .expected = "a module field";
    return false;
  }
  fields_begin_ = at_;
  fields_end_ = close;
  at_ = close + 1;
  return peek().kind == TokenKind::kEnd || unexpected("the end of the text after the module");
}

std::string_view Parser::unquoted_id(const Token& t) const {
  std::string& name = unquoted_ids_[t.begin];
  if (name.empty()) name = id_of(t.in(text_));
  return name;
}

// Types may be named before they are defined.
void Parser::declare_types() {
  for (uint32_t i = fields_begin_; i < fields_end_; ++i) {
    if (s_.tokens[i].kind != TokenKind::kOpen) continue;
    const uint32_t close = s_.tokens[i].partner;
    const std::string_view head = word(s_.tokens[i + 1]);
    if (head == "type") declare(Space::kType, i + 2);
    for (uint32_t inner = i + 2; head == "rec" && inner < close; ++inner) {
      if (s_.tokens[inner].kind != TokenKind::kOpen) continue;
      if (word(s_.tokens[inner + 1]) == "type") declare(Space::kType, inner + 2);
      inner = s_.tokens[inner].partner;
    }
    i = close;
  }
}

void Parser::declare_fields() {
  for (uint32_t i = fields_begin_; i < fields_end_ && !full();) {
    if (s_.tokens[i].kind == TokenKind::kOpen) {
      declare_field(i);
      i = s_.tokens[i].partner + 1;
    } else {
      ++i;  // the second pass reports it
    }
  }
}

// Gives an index and a name to what the field at `open` defines. Reports duplicate names and imports that come
// too late; any other fault is left to the second pass.
void Parser::declare_field(uint32_t open) {
  const std::string_view head = word(s_.tokens[open + 1]);
  Space space{};
  if (head == "type" || head == "rec") {
    define_types(open);
  } else if (head == "import") {
    declare_import(open);
  } else if (head == "elem") {
    declare(Space::kElem, open + 2);
  } else if (head == "data") {
    declare(Space::kData, open + 2);
  } else if (space_of(head, space)) {
    declare(space, open + 2);
    at_ = open + 2;
    take_id();
    while (at_form("export")) at_ = peek().partner + 1;
    note_definition(s_.tokens[open + 1], at_form("import"));
    // Segments that are written inside the table or memory take an index too.
    if (space == Space::kMemory || space == Space::kTable) take_address_type();
    if (space == Space::kMemory && at_form("data")) ++count(Space::kData);
    if (space == Space::kTable && at_ref_type()) {
      at_ = peek().kind == TokenKind::kOpen ? peek().partner + 1 : at_ + 1;
      if (at_form("elem")) ++count(Space::kElem);
    }
  }
}

void Parser::declare_import(uint32_t open) {
  note_definition(s_.tokens[open + 1], true);
  const uint32_t close = s_.tokens[open].partner;
  const uint32_t inner = open + 4;  // after `(import "module" "name"`
  Space space{};
  if (inner + 1 < close && s_.tokens[inner].kind == TokenKind::kOpen &&
      space_of(word(s_.tokens[inner + 1]), space))
    declare(space, inner + 2);
}

uint32_t Parser::declare(Space space, uint32_t id_token) {
  const uint32_t index = count(space)++;
  const Token& id = s_.tokens[id_token];
  if (id.kind == TokenKind::kId && !scope(space).add(word(id), index)) report_duplicate(space, id);
  return index;
}

// Imports come first: their indices do.
void Parser::note_definition(Token at, bool is_import) {
  if (!is_import) {
    if (first_definition_.kind == TokenKind::kEnd) first_definition_ = at;
  } else if (first_definition_.kind != TokenKind::kEnd) {
    Diagnostic& d = report(DiagnosticCode::kImportAfterDefinition, at,
                           "this import comes after the " + std::string(word(first_definition_)) +
                               " in line " + std::to_string(locate(text_, first_definition_.begin).line));
    d.expected = "all imports before the first func, table, memory, global or tag";
  }
}

void Parser::define_fields() {
  module_.functions.own().reserve(4);
  for (at_ = fields_begin_; at_ < fields_end_ && !full() && !must_stop();) {
    const uint32_t open = at_;
    if (peek().kind != TokenKind::kOpen) {
      unexpected("a module field such as (func …)");
      return;  // without a form there is no next field to continue with
    }
    const uint32_t close = peek().partner;
    if (define_field(open) && at_ != close)
      unexpected("the end of this " + std::string(word(s_.tokens[open + 1])));
    function_ = kNoIndex;
    at_ = close + 1;
  }
}

// A type use may name the index of an inline type, but only after that type.
void Parser::check_forward_types() {
  for (const ForwardType& f : forward_types_)
    if (!full() && f.index < module_.types.size())
      report(DiagnosticCode::kUnknownType, f.at,
             "type " + std::to_string(f.index) + " is an inline type that is written further down")
          .hint = "Define the type with (type $name (func …)) and use its name.";
}

void Parser::keep_names() {
  Names& names = module_.names;
  keep_space(scope(Space::kFunc), names.functions);
  keep_space(scope(Space::kType), names.types);
  keep_space(scope(Space::kTable), names.tables);
  keep_space(scope(Space::kMemory), names.memories);
  keep_space(scope(Space::kGlobal), names.globals);
  keep_space(scope(Space::kTag), names.tags);
  keep_space(scope(Space::kElem), names.elements);
  keep_space(scope(Space::kData), names.datas);
}

std::string_view Parser::take_id() {
  if (peek().kind != TokenKind::kId) return {};
  return word(s_.tokens[at_++]);
}

bool Parser::take_close(std::string_view form) {
  if (peek().kind != TokenKind::kClose) return unexpected(") to close this " + std::string(form));
  ++at_;
  return true;
}

bool Parser::take_string(std::string& out, std::string_view what) {
  if (peek().kind != TokenKind::kString) return unexpected("a string, the " + std::string(what));
  append_unquoted(out, word(s_.tokens[at_++]));
  return true;
}

bool Parser::take_name(std::string& out, std::string_view what) {
  const Token at = peek();
  if (!take_string(out, what)) return false;
  if (!is_utf8(out)) {
    Diagnostic& d = report(DiagnosticCode::kMalformedUtf8, at, "the " + std::string(what) + " is not UTF-8");
    d.hint = "Names are UTF-8: write a character as \\u{e9}.";
  }
  return true;
}

}  // namespace text

std::expected<Module, std::vector<Diagnostic>> parse_text(std::string_view text) {
  thread_local text::Scratch scratch;
  scratch.clear();
  std::expected<Module, std::vector<Diagnostic>> result(
      std::in_place);  // built in place: a Module is large to move
  text::Parser parser(text, scratch, *result);
  if (!parser.run()) result = std::unexpected(parser.take_errors());
  constexpr size_t kKeptTokens = 16 * 1024;
  if (scratch.tokens.capacity() > kKeptTokens) scratch = {};
  return result;
}

}  // namespace membrane::wasm
