#include <algorithm>

#include "base/leb128.h"
#include "wasm/text/heap_types.h"
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
    {"anyref", ValType::kAnyRef},
    {"eqref", ValType::kEqRef},
    {"i31ref", ValType::kI31Ref},
    {"structref", ValType::kStructRef},
    {"arrayref", ValType::kArrayRef},
    {"nullref", ValType::kNullRef},
    {"nullfuncref", ValType::kNullFuncRef},
    {"nullexternref", ValType::kNullExternRef},
    {"nullexnref", ValType::kNullExnRef},
};

uint32_t hash_type(const std::vector<ValType>& params, const std::vector<ValType>& results) {
  const auto view = [](const std::vector<ValType>& types) {
    return std::string_view(reinterpret_cast<const char*>(types.data()), types.size() * sizeof(ValType));
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
  if (at_form("ref")) return read_ref_form(out);
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
  if (full()) return false;
  std::vector<std::string_view> names;
  for (const auto& [name, type] : kValTypes) names.push_back(name);
  Diagnostic& d = report(DiagnosticCode::kUnknownValueType, t,
                         "`" + std::string(word(t).substr(0, kShownBytes)) + "` is not a value type");
  d.expected = "i32, i64, f32, f64, v128, or a reference such as funcref or (ref null $type)";
  if (const auto near = nearest(word(t), names); !near.empty())
    d.hint = "Did you mean " + std::string(near) + "?";
  return false;
}

bool Parser::at_ref_type() const {
  if (at_form("ref")) return true;
  for (const auto& [name, type] : kValTypes)
    if (is_ref(type) && at_keyword(name)) return true;
  return false;
}

bool Parser::read_ref_type(ValType& out) {
  if (!at_ref_type()) return unexpected("funcref, externref, exnref or another reference type");
  return read_val_type(out);
}

// `(ref null? heaptype)`
bool Parser::read_ref_form(ValType& out) {
  at_ += 2;
  const bool has_null = at_keyword("null");
  if (has_null) ++at_;
  if (!read_heap_type(out))
    return unexpected("func, extern, any or another heap type, or a type's name or index");
  if (!has_null) out = non_null(out);
  return take_close("(ref …)");
}

// Returns the nullable reference to it. False, and nothing is reported, when there is none here.
bool Parser::read_heap_type(ValType& out) {
  for (const auto& [name, type] : kHeapTypes) {
    if (!at_keyword(name)) continue;
    ++at_;
    out = type;
    return true;
  }
  uint32_t index = 0;
  if (!read_index_here(Space::kType, index)) return false;
  out = ref_null_to(std::min(index, kUnknownTypeIndex));
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

// Params and results go to the scratch, after what is there.
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
  TypeDetail detail;
  detail.group_begin = index;
  keep_detail(module_, std::move(detail));
  s_.types.insert(hash, index);
  return index;
}

// `(type $id? subtype)` or `(rec (type …)*)`, in the first pass, when all types have their names. The same type may
// be defined twice; inline types then mean the first.
bool Parser::define_types(uint32_t open) {
  const auto begin = static_cast<uint32_t>(module_.types.size());
  if (word(s_.tokens[open + 1]) != "rec") return define_type(open, begin, 1);
  const uint32_t close = s_.tokens[open].partner;
  uint32_t size = 0;
  for (uint32_t i = open + 2; i < close; i = s_.tokens[i].partner + 1, ++size) {
    at_ = i;
    if (!at_form("type")) return unexpected("(type …), or ) to close this group");
  }
  for (uint32_t i = open + 2; i < close; i = s_.tokens[i].partner + 1)
    if (!define_type(i, begin, size)) return false;
  return true;
}

bool Parser::define_type(uint32_t open, uint32_t group_begin, uint32_t group_size) {
  const uint32_t close = s_.tokens[open].partner;
  at_ = open + 2;
  take_id();
  const auto index = static_cast<uint32_t>(module_.types.size());
  module_.types.emplace_back();
  TypeDetail detail;
  detail.group_begin = group_begin;
  detail.group_size = group_size;
  s_.params.clear();
  s_.results.clear();
  const bool is_read = read_sub_type(detail, index);
  if (is_read) module_.types[index] = {s_.params, s_.results};
  const bool has_inline_form = is_plain(detail);
  keep_detail(module_, std::move(detail));
  if (!is_read) return false;
  if (at_ != close) return unexpected(") to close this type");
  const uint32_t hash = hash_type(s_.params, s_.results);
  if (has_inline_form && find_type(hash) == kNoIndex) s_.types.insert(hash, index);
  return true;
}

// `(sub final? supertype* form)`, or the form alone.
bool Parser::read_sub_type(TypeDetail& detail, uint32_t index) {
  if (!at_form("sub")) return read_composite_type(detail, index);
  at_ += 2;
  detail.is_final = at_keyword("final");
  if (detail.is_final) ++at_;
  for (; at_index(); ++detail.supertype_count)
    if (!read_index_token(Space::kType, detail.supertype)) return false;
  return read_composite_type(detail, index) && take_close("(sub …)");
}

bool Parser::read_composite_type(TypeDetail& detail, uint32_t index) {
  if (at_form("func")) {
    at_ += 2;
    return read_params(false, true) && read_results() && take_close("function type");
  }
  if (at_form("struct")) {
    detail.kind = TypeKind::kStruct;
    at_ += 2;
    return read_fields(detail, index) && take_close("struct type");
  }
  if (!at_form("array")) return unexpected("(func …), (struct …) or (array …)");
  detail.kind = TypeKind::kArray;
  at_ += 2;
  return read_field_type(detail.fields.emplace_back()) && take_close("array type");
}

// `(field $x t)`, `(field t*)`
bool Parser::read_fields(TypeDetail& detail, uint32_t index) {
  while (at_form("field")) {
    at_ += 2;
    if (peek().kind == TokenKind::kId) {
      const Token id = s_.tokens[at_++];
      name_field(index, static_cast<uint32_t>(detail.fields.size()), id);
      if (!read_field_type(detail.fields.emplace_back())) return false;
    } else {
      while (peek().kind != TokenKind::kClose)
        if (!read_field_type(detail.fields.emplace_back())) return false;
    }
    if (!take_close("(field …)")) return false;
  }
  return true;
}

bool Parser::read_field_type(FieldType& out) {
  const bool has_mut = at_form("mut");
  if (has_mut) at_ += 2;
  out.is_mutable = has_mut;
  if (at_keyword("i8") || at_keyword("i16")) {
    out.type = at_keyword("i8") ? ValType::kI8 : ValType::kI16;
    ++at_;
  } else if (!read_val_type(out.type)) {
    return false;
  }
  return !has_mut || take_close("(mut …)");
}

// The fields of each struct have names of their own.
void Parser::name_field(uint32_t type, uint32_t field, Token id) {
  const std::string_view name = word(id).substr(1);
  if (find_field(type, name) != kNoIndex) {
    report(DiagnosticCode::kDuplicateName, id, "a second field is called $" + std::string(name)).found =
        "$" + std::string(name);
    return;
  }
  s_.fields.insert(hash_bytes(name, hash_seed() + type), static_cast<uint32_t>(module_.names.fields.size()));
  module_.names.fields.push_back({type, field, std::string(name)});
}

uint32_t Parser::find_field(uint32_t type, std::string_view name) const {
  const auto& fields = module_.names.fields;
  const uint32_t at = s_.fields.find(hash_bytes(name, hash_seed() + type), [&](uint32_t i) {
    return fields[i].outer == type && fields[i].name == name;
  });
  return at == kNoIndex ? kNoIndex : fields[at].index;
}

// `(type x)? (param …)* (result …)*`. If both are there, they must agree.
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
