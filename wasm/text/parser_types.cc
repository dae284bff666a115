#include "base/leb128.h"
#include "wasm/text/numbers.h"
#include "wasm/text/parser_impl.h"

namespace membrane::wasm::text {
namespace {

constexpr std::pair<std::string_view, ValType> kValTypes[] = {
    {"i32", ValType::kI32},
    {"i64", ValType::kI64},
    {"f32", ValType::kF32},
    {"f64", ValType::kF64},
    {"v128", ValType::kV128},
    {"funcref", ValType::kFuncRef},
    {"externref", ValType::kExternRef},
    {"exnref", ValType::kExnRef},
};

uint32_t hash_type(const std::vector<ValType>& params, const std::vector<ValType>& results) {
  const auto view = [](const std::vector<ValType>& types) {
    return std::string_view(reinterpret_cast<const char*>(types.data()), types.size());
  };
  return hash_bytes(view(results),
                    hash_bytes(view(params), hash_seed() + static_cast<uint32_t>(params.size())));
}

// "(func (param i32 i64) (result f32))", of long lists the beginning.
std::string show_type(const std::vector<ValType>& params, const std::vector<ValType>& results) {
  constexpr size_t kShown = 16;
  std::string text = "(func";
  const auto add = [&](std::string_view keyword, const std::vector<ValType>& types) {
    if (types.empty()) return;
    text += " (" + std::string(keyword);
    for (size_t i = 0; i < types.size() && i < kShown; ++i)
      text += " " + std::string(wasm::name_of(types[i]));
    text += types.size() > kShown ? " …)" : ")";
  };
  add("param", params);
  add("result", results);
  return text + ")";
}

}  // namespace

bool Parser::read_val_type(ValType& out) {
  const Token& t = peek();
  if (t.kind == TokenKind::kKeyword) {
    const std::string_view w = word(t);
    for (const auto& [name, type] : kValTypes) {
      if (w != name) continue;
      out = type;
      ++at_;
      return true;
    }
  }
  if (t.kind == TokenKind::kOpen || t.kind == TokenKind::kClose || t.kind == TokenKind::kEnd)
    return unexpected("a value type");
  std::vector<std::string_view> names;
  for (const auto& [name, type] : kValTypes) names.push_back(name);
  Diagnostic& d = report(DiagnosticCode::kUnknownValueType, t,
                         "`" + std::string(word(t).substr(0, kShownBytes)) + "` is not a value type");
  d.expected = "i32, i64, f32, f64, v128, funcref, externref or exnref";
  if (const auto near = nearest(word(t), names); !near.empty())
    d.hint = "Did you mean " + std::string(near) + "?";
  return false;
}

bool Parser::read_ref_type(ValType& out) {
  if (at_keyword("funcref")) {
    out = ValType::kFuncRef;
  } else if (at_keyword("externref")) {
    out = ValType::kExternRef;
  } else if (at_keyword("exnref")) {
    out = ValType::kExnRef;
  } else {
    return unexpected("funcref, externref or exnref");
  }
  ++at_;
  return true;
}

bool Parser::take_address_type() {
  const bool is_64 = at_keyword("i64");
  if (is_64 || at_keyword("i32")) ++at_;
  return is_64;
}

bool Parser::read_u64(uint64_t& out, std::string_view what) {
  const Token at = peek();
  if (at.kind != TokenKind::kInteger) return unexpected(what);
  ++at_;
  const auto n = parse_unsigned(word(at), 64);
  if (!n.ok) report_number(at, n.error == NumberError::kOutOfRange, "u64", "0 … 18446744073709551615");
  out = n.value;
  return true;
}

bool Parser::read_limits(Limits& out) {
  if (!read_u64(out.min, "the least size, an integer")) return false;
  if (peek().kind != TokenKind::kInteger) return true;
  uint64_t max = 0;
  read_u64(max, "the greatest size, an integer");
  out.max = max;
  return true;
}

bool Parser::read_table_type(TableType& out) {
  out.limits.is_64 = take_address_type();
  return read_limits(out.limits) && read_ref_type(out.element);
}

bool Parser::read_global_type(GlobalType& out) {
  if (!at_form("mut")) return read_val_type(out.type);
  at_ += 2;
  out.is_mutable = true;
  return read_val_type(out.type) && take_close("(mut …)");
}

// `(param $x i32)`, `(param i32 i64)`; at the open parenthesis of the first, if any.
bool Parser::read_params(bool binds_names, bool names_allowed) {
  while (at_form("param")) {
    at_ += 2;
    if (peek().kind == TokenKind::kId) {
      const Token id = peek();
      if (!names_allowed) return unexpected("a value type; a name means nothing here");
      ++at_;
      if (binds_names && !scope(Space::kLocal).add(word(id), static_cast<uint32_t>(s_.params.size())))
        report_duplicate(Space::kLocal, id);
      ValType type{};
      if (!read_val_type(type)) return false;
      s_.params.push_back(type);
    } else {
      while (peek().kind != TokenKind::kClose) {
        ValType type{};
        if (!read_val_type(type)) return false;
        s_.params.push_back(type);
      }
    }
    if (!take_close("(param …)")) return false;
  }
  return true;
}

// Params and results go to the scratch, behind what is there.
bool Parser::read_results() {
  while (at_form("result")) {
    at_ += 2;
    while (peek().kind != TokenKind::kClose) {
      ValType type{};
      if (!read_val_type(type)) return false;
      s_.results.push_back(type);
    }
    ++at_;
  }
  return true;
}

uint32_t Parser::find_type(uint32_t hash) const {
  return s_.types.find(hash, [&](uint32_t i) {
    return module_.types[i].params == s_.params && module_.types[i].results == s_.results;
  });
}

uint32_t Parser::intern_type() {
  const uint32_t hash = hash_type(s_.params, s_.results);
  const uint32_t found = find_type(hash);
  if (found != kNoIndex) return found;
  const auto index = static_cast<uint32_t>(module_.types.size());
  module_.types.push_back({s_.params, s_.results});
  s_.types.insert(hash, index);
  return index;
}

// `(type $id? (func (param …)* (result …)*))`, in the first pass. The same type may stand twice;
// inline types then mean the first.
bool Parser::define_type(uint32_t open) {
  const uint32_t close = s_.tokens[open].partner;
  at_ = open + 2;
  declare(Space::kType, at_);
  take_id();
  const auto index = static_cast<uint32_t>(module_.types.size());
  module_.types.emplace_back();
  if (!at_form("func")) return unexpected("(func …), the function type");
  at_ += 2;
  s_.params.clear();
  s_.results.clear();
  if (!read_params(false, true) || !read_results() || !take_close("function type")) return false;
  if (at_ != close) return unexpected(") to close this type");
  module_.types[index] = {s_.params, s_.results};
  const uint32_t hash = hash_type(s_.params, s_.results);
  if (find_type(hash) == kNoIndex) s_.types.insert(hash, index);
  return true;
}

// `(type x)? (param …)* (result …)*`. With both, they must say the same.
bool Parser::read_type_use(TypeUse& out, bool binds_names) {
  const Token at = peek();
  Token type_at{};
  s_.params.clear();
  s_.results.clear();
  if (at_form("type")) {
    at_ += 2;
    type_at = peek();
    out.is_explicit = true;
    if (!read_index_token(Space::kType, out.index) || !take_close("(type …)")) return false;
  }
  if (peek().kind == TokenKind::kOpen) {
    if (!read_params(binds_names, binds_names) || !read_results()) return false;
  }
  if (!out.is_explicit) {
    out.index = intern_type();
    return true;
  }
  const bool says_something = !s_.params.empty() || !s_.results.empty();  // `(param)` does not
  if (out.index >= module_.types.size()) {
    if (says_something)
      report(DiagnosticCode::kUnknownType, type_at,
             "there is no type " + std::string(word(type_at).substr(0, kShownBytes)));
    else forward_types_.push_back({out.index, type_at});  // the validator's, when it is so at the end too
    return true;
  }
  const FuncType& type = module_.types[out.index];
  if (says_something && (type.params != s_.params || type.results != s_.results)) {
    Diagnostic& d =
        report(DiagnosticCode::kInlineTypeMismatch, at,
               "the inline type differs from type " + std::string(word(type_at).substr(0, kShownBytes)));
    d.expected = show_type(type.params, type.results);
    d.found = show_type(s_.params, s_.results);
  }
  return true;
}

}  // namespace membrane::wasm::text
