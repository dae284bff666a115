#include "wasm/text/script.h"

#include <bit>
#include <cstring>
#include <optional>

#include "wasm/text/lexer.h"
#include "wasm/text/numbers.h"

namespace membrane::wasm {
namespace {

struct ShapeInfo {
  std::string_view name;
  LaneShape shape;
  unsigned lanes;
  unsigned bits;
  bool is_float;
};
constexpr ShapeInfo kShapes[] = {
    {"i8x16", LaneShape::kI8x16, 16, 8, false}, {"i16x8", LaneShape::kI16x8, 8, 16, false},
    {"i32x4", LaneShape::kI32x4, 4, 32, false}, {"i64x2", LaneShape::kI64x2, 2, 64, false},
    {"f32x4", LaneShape::kF32x4, 4, 32, true},  {"f64x2", LaneShape::kF64x2, 2, 64, true},
};

bool is_field(std::string_view w) {
  return w == "func" || w == "type" || w == "import" || w == "table" || w == "memory" || w == "global" ||
         w == "export" || w == "start" || w == "elem" || w == "data" || w == "tag" || w == "rec";
}

bool fits(NanPattern nan, uint64_t expected, uint64_t actual, bool is_wide) {
  if (nan == NanPattern::kNone) return expected == actual;
  const unsigned mantissa_bits = is_wide ? 52 : 23;
  const uint64_t sign = uint64_t{1} << (is_wide ? 63 : 31);
  const uint64_t quiet = uint64_t{1} << (mantissa_bits - 1);
  const uint64_t canonical = (sign - 1) & ~(quiet - 1);  // exponent and quiet bit
  const uint64_t magnitude = actual & ~sign;
  return nan == NanPattern::kCanonical ? magnitude == canonical : (magnitude & canonical) == canonical;
}

class ScriptParser {
 public:
  explicit ScriptParser(std::string_view text) : text_(text) {}

  std::expected<std::vector<Command>, Diagnostic> run() {
    if (auto error = tokenize(text_, tokens_)) return std::unexpected(std::move(*error));
    std::vector<Command> commands;
    uint32_t line = 1, seen = 0;  // line of the text offset `seen`
    while (peek().kind != TokenKind::kEnd) {
      Command command;
      for (; seen < peek().begin; ++seen) line += text_[seen] == '\n';
      command.line = line;
      if (!read_command(command)) return std::unexpected(std::move(*error_));
      commands.push_back(std::move(command));
    }
    return commands;
  }

 private:
  [[nodiscard]] const Token& peek(size_t ahead = 0) const { return tokens_[at_ + ahead]; }
  [[nodiscard]] std::string_view word(const Token& t) const { return t.in(text_); }

  bool fail(std::string_view expected) {
    Diagnostic d;
    d.code = DiagnosticCode::kUnexpectedToken;
    d.place = locate(text_, peek().begin, peek().end);
    d.found = peek().kind == TokenKind::kEnd ? "the end of the script" : word(peek()).substr(0, 60);
    d.message = "`" + d.found + "` does not fit here";
    d.expected = expected;
    error_ = std::move(d);
    return false;
  }

  // At `(keyword`: gives the keyword.
  bool open(std::string_view& keyword, std::string_view expected) {
    if (peek().kind != TokenKind::kOpen || peek(1).kind != TokenKind::kKeyword) return fail(expected);
    keyword = word(peek(1));
    at_ += 2;
    return true;
  }
  bool close() {
    if (peek().kind != TokenKind::kClose) return fail(")");
    ++at_;
    return true;
  }
  bool string(std::string& out) {
    if (peek().kind != TokenKind::kString) return fail("a string");
    append_unquoted(out, word(tokens_[at_++]));
    return true;
  }
  void id(std::string& out) {
    if (peek().kind == TokenKind::kId) out = id_of(word(tokens_[at_++])).substr(1);
  }

  bool read_command(Command& c) {
    using Kind = Command::Kind;
    const uint32_t begin = at_;
    std::string_view w;
    if (!open(w, "a command such as (module …) or (assert_return …)")) return false;
    if (w == "module" && is_keyword("instance")) return c.kind = Kind::kModuleInstance, read_instance(c);
    if (w == "module") {
      c.kind = is_keyword("definition") ? Kind::kModuleDefinition : Kind::kModule;
      return at_ = begin, read_module(c.module);
    }
    if (is_field(w)) return c.kind = Kind::kModule, at_ = begin, read_bare_fields(c.module);
    if (w == "register") return c.kind = Kind::kRegister, string(c.name) && (id(c.module_name), close());
    if (w == "invoke" || w == "get") return c.kind = Kind::kAction, at_ = begin, read_action(c.action);
    if (w == "assert_return")
      return c.kind = Kind::kAssertReturn, read_action(c.action) && read_results(c.results);
    if (w == "assert_exhaustion")
      return c.kind = Kind::kAssertExhaustion, read_action(c.action) && read_message(c);
    if (w == "assert_exception") return c.kind = Kind::kAssertException, read_action(c.action) && close();
    if (w == "assert_trap") {
      const bool is_module = peek().kind == TokenKind::kOpen && word(peek(1)) == "module";
      c.kind = is_module ? Kind::kAssertTrapModule : Kind::kAssertTrap;
      return (is_module ? read_module(c.module) : read_action(c.action)) && read_message(c);
    }
    if (w == "assert_invalid") c.kind = Kind::kAssertInvalid;
    else if (w == "assert_malformed") c.kind = Kind::kAssertMalformed;
    else if (w == "assert_unlinkable") c.kind = Kind::kAssertUnlinkable;
    else return --at_, fail("a command of WebAssembly's scripts");
    return read_module(c.module) && read_message(c);
  }

  [[nodiscard]] bool is_keyword(std::string_view w) const {
    return peek().kind == TokenKind::kKeyword && word(peek()) == w;
  }

  // `(module instance $name? $definition?)`
  bool read_instance(Command& c) {
    ++at_;
    id(c.name);
    id(c.module_name);
    return close();
  }

  bool read_message(Command& c) { return string(c.message) && close(); }

  bool read_module(ScriptModule& m) {
    const uint32_t begin = at_;
    std::string_view w;
    if (!open(w, "(module …)")) return false;
    if (w != "module") return --at_, fail("module");
    const Token& definition = peek();
    if (is_keyword("definition")) ++at_;
    id(m.name);
    const std::string_view form = peek().kind == TokenKind::kKeyword ? word(peek()) : "";
    if (form == "binary" || form == "quote") {
      ++at_;
      m.kind = form == "binary" ? ScriptModule::Kind::kBinary : ScriptModule::Kind::kQuote;
      while (peek().kind == TokenKind::kString) {
        if (m.kind == ScriptModule::Kind::kQuote && !m.bytes.empty()) m.bytes.push_back('\n');
        string(m.bytes);
      }
      return close();
    }
    const uint32_t end = tokens_[begin].partner;
    m.text = text_.substr(tokens_[begin].begin, tokens_[end].end - tokens_[begin].begin);
    at_ = end + 1;
    if (word(definition) != "definition") return true;
    m.bytes = "(module" + std::string(m.text.substr(definition.end - tokens_[begin].begin));
    return m.kind = ScriptModule::Kind::kQuote, true;  // the text without `definition`
  }

  // Fields outside of a `(module …)` are one module, up to the next command.
  bool read_bare_fields(ScriptModule& m) {
    const uint32_t begin = peek().begin;
    uint32_t end = begin;
    while (peek().kind == TokenKind::kOpen && is_field(word(peek(1)))) {
      at_ = peek().partner;
      end = peek().end;
      ++at_;
    }
    m.text = text_.substr(begin, end - begin);
    return true;
  }

  bool read_action(Action& a) {
    std::string_view w;
    if (!open(w, "(invoke …) or (get …)")) return false;
    if (w != "invoke" && w != "get") return --at_, fail("invoke or get");
    a.kind = w == "get" ? Action::Kind::kGet : Action::Kind::kInvoke;
    id(a.module);
    if (!string(a.name)) return false;
    while (a.kind == Action::Kind::kInvoke && peek().kind == TokenKind::kOpen) {
      ResultPattern pattern;
      const uint32_t begin = at_;
      if (!read_pattern(pattern)) return false;
      bool is_exact = !pattern.any_reference && pattern.either.empty();
      for (const NanPattern nan : pattern.nans) is_exact &= nan == NanPattern::kNone;
      if (!is_exact) return at_ = begin, fail("a value");
      a.arguments.push_back(pattern.value);
    }
    return close();
  }

  bool read_results(std::vector<ResultPattern>& out) {
    while (peek().kind == TokenKind::kOpen)
      if (!read_pattern(out.emplace_back())) return false;
    return close();
  }

  // `(i32.const 1)`, `(f32.const nan:canonical)`, `(v128.const f32x4 …)`, `(ref.null func)`, …
  bool read_pattern(ResultPattern& p) {
    std::string_view w;
    if (!open(w, "a value such as (i32.const 1)")) return false;
    if (w == "i32.const") return p.value.type = ValType::kI32, read_scalar(p, 32, false) && close();
    if (w == "i64.const") return p.value.type = ValType::kI64, read_scalar(p, 64, false) && close();
    if (w == "f32.const") return p.value.type = ValType::kF32, read_scalar(p, 32, true) && close();
    if (w == "f64.const") return p.value.type = ValType::kF64, read_scalar(p, 64, true) && close();
    if (w == "v128.const") return p.value.type = ValType::kV128, read_vector(p) && close();
    if (w == "either") {
      while (peek().kind == TokenKind::kOpen)
        if (!read_pattern(p.either.emplace_back())) return false;
      return close();
    }
    if (w == "ref.null") {
      p.value.type = ValType::kBottom;
      if (peek().kind == TokenKind::kKeyword) p.value.type = heap_type(word(peek()));
      p.value.is_null = true;
      if (peek().kind != TokenKind::kClose) ++at_;
      return close();
    }
    if (w.starts_with("ref.")) {
      p.value.type = heap_type(w.substr(4));
      p.any_reference = peek().kind == TokenKind::kClose;
      if (p.any_reference) return close();
      p.value.is_host = w == "ref.host";
      return read_lane(p.value.bits, nullptr, 32, false) && close();
    }
    return --at_, fail("a constant");
  }

  // kBottom for what is no abstract heap type.
  static ValType heap_type(std::string_view w) {
    static constexpr std::pair<std::string_view, ValType> kTypes[] = {
        {"func", ValType::kFuncRef},       {"extern", ValType::kExternRef},
        {"exn", ValType::kExnRef},         {"any", ValType::kAnyRef},
        {"eq", ValType::kEqRef},           {"i31", ValType::kI31Ref},
        {"struct", ValType::kStructRef},   {"array", ValType::kArrayRef},
        {"host", ValType::kAnyRef},        {"none", ValType::kNullRef},
        {"nofunc", ValType::kNullFuncRef}, {"noextern", ValType::kNullExternRef},
        {"noexn", ValType::kNullExnRef},
    };
    for (const auto& [name, type] : kTypes)
      if (w == name) return type;
    return ValType::kBottom;
  }

  bool read_scalar(ResultPattern& p, unsigned bits, bool is_float) {
    return read_lane(p.value.bits, p.nans.data(), bits, is_float);
  }

  bool read_vector(ResultPattern& p) {
    for (const ShapeInfo& shape : kShapes) {
      if (word(peek()) != shape.name) continue;
      ++at_;
      p.shape = shape.shape;
      for (unsigned i = 0; i < shape.lanes; ++i) {
        uint64_t bits = 0;
        if (!read_lane(bits, &p.nans[i], shape.bits, shape.is_float)) return false;
        for (unsigned b = 0; b < shape.bits / 8; ++b)
          p.value.vector[i * shape.bits / 8 + b] = static_cast<uint8_t>(bits >> (8 * b));
      }
      return true;
    }
    return fail("the lanes' shape, such as i32x4");
  }

  bool read_lane(uint64_t& out, NanPattern* nan, unsigned bits, bool is_float) {
    const Token t = peek();
    const std::string_view w = word(t);
    if (t.kind != TokenKind::kInteger && t.kind != TokenKind::kFloat && t.kind != TokenKind::kKeyword)
      return fail("a number");
    if (is_float && nan != nullptr && (w == "nan:canonical" || w == "nan:arithmetic")) {
      *nan = w == "nan:canonical" ? NanPattern::kCanonical : NanPattern::kArithmetic;
      ++at_;
      return true;
    }
    bool ok = false;
    if (!is_float) {
      const auto n = parse_integer(w, bits);
      ok = n.ok, out = n.value;
    } else if (bits == 32) {
      const auto n = parse_f32(w);
      ok = n.ok, out = n.value;
    } else {
      const auto n = parse_f64(w);
      ok = n.ok, out = n.value;
    }
    if (!ok) return fail("a number that fits its type");
    ++at_;
    return true;
  }

  std::string_view text_;
  std::vector<Token> tokens_;
  uint32_t at_ = 0;
  std::optional<Diagnostic> error_;
};

}  // namespace

uint32_t lane_count(LaneShape shape) {
  for (const ShapeInfo& s : kShapes)
    if (s.shape == shape) return s.lanes;
  return 1;
}

bool matches(const ResultPattern& pattern, uint64_t low, uint64_t high) {
  if (pattern.value.type != ValType::kV128) {
    const bool is_narrow = pattern.value.type == ValType::kI32 || pattern.value.type == ValType::kF32;
    if (is_narrow) low &= 0xFFFFFFFFu;
    return fits(pattern.nans[0], pattern.value.bits, low, !is_narrow);
  }
  std::array<uint8_t, 16> actual{};
  for (unsigned i = 0; i < 16; ++i) actual[i] = static_cast<uint8_t>((i < 8 ? low : high) >> (8 * (i % 8)));
  const unsigned lanes = lane_count(pattern.shape);
  const unsigned width = 16 / lanes;
  for (unsigned i = 0; i < lanes; ++i) {
    const auto lane = [&](const std::array<uint8_t, 16>& bytes) {
      uint64_t value = 0;
      for (unsigned b = 0; b < width; ++b) value |= static_cast<uint64_t>(bytes[i * width + b]) << (8 * b);
      return value;
    };
    if (!fits(pattern.nans[i], lane(pattern.value.vector), lane(actual), width == 8)) return false;
  }
  return true;
}

std::string_view name_of(Command::Kind kind) {
  switch (kind) {
    case Command::Kind::kModule:
    case Command::Kind::kModuleDefinition:
    case Command::Kind::kModuleInstance: return "module";
    case Command::Kind::kRegister: return "register";
    case Command::Kind::kAction: return "action";
    case Command::Kind::kAssertReturn: return "assert_return";
    case Command::Kind::kAssertTrap:
    case Command::Kind::kAssertTrapModule: return "assert_trap";
    case Command::Kind::kAssertExhaustion: return "assert_exhaustion";
    case Command::Kind::kAssertException: return "assert_exception";
    case Command::Kind::kAssertInvalid: return "assert_invalid";
    case Command::Kind::kAssertMalformed: return "assert_malformed";
    case Command::Kind::kAssertUnlinkable: return "assert_unlinkable";
  }
  return "module";
}

std::expected<std::vector<Command>, Diagnostic> parse_script(std::string_view text) {
  return ScriptParser(text).run();
}

}  // namespace membrane::wasm
