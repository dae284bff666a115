// What follows a mnemonic. A fault here never loses the place: it is reported, a zero
// is written, and the sequence continues.
#include <bit>

#include "base/leb128.h"
#include "wasm/body.h"
#include "wasm/text/numbers.h"
#include "wasm/text/parser_impl.h"
#include "wasm/type_coding.h"

namespace membrane::wasm::text {
namespace {

void write_bytes(std::vector<uint8_t>& out, uint64_t value, unsigned count) {
  for (unsigned i = 0; i < count; ++i) out.push_back(static_cast<uint8_t>(value >> (8 * i)));
}

struct Shape {
  std::string_view name;
  unsigned lanes;
  unsigned bits;  // of a lane
  bool is_float;
};
constexpr Shape kShapes[] = {
    {"i8x16", 16, 8, false}, {"i16x8", 8, 16, false}, {"i32x4", 4, 32, false},
    {"i64x2", 2, 64, false}, {"f32x4", 4, 32, true},  {"f64x2", 2, 64, true},
};

}  // namespace

// At an index or identifier: its number. Reports an unknown name and then returns 0.
bool Parser::read_index_here(Space space, uint32_t& out) {
  const Token t = peek();
  out = 0;
  if (t.kind == TokenKind::kId) {
    ++at_;
    out = scope(space).find(word(t));
    if (out != kNoIndex) return true;
    report_unknown_name(space, t);
    out = 0;
    return true;
  }
  if (t.kind != TokenKind::kInteger) return false;
  ++at_;
  const auto n = parse_unsigned(word(t), 32);
  if (!n.ok) report_number(t, n.error == NumberError::kOutOfRange, "index", "0 … 4294967295");
  out = static_cast<uint32_t>(n.value);
  return true;
}

bool Parser::read_index_token(Space space, uint32_t& out) {
  return read_index_here(space, out) || unexpected("a " + std::string(name_of(space)) + "'s name or index");
}

uint32_t Parser::read_index(Space space, Token at) {
  uint32_t index = 0;
  if (!read_index_here(space, index))
    report_missing_operand(at, "a " + std::string(name_of(space)) + "'s name or index");
  return index;
}

uint32_t Parser::read_label(Token at) {
  const Token t = peek();
  if (t.kind == TokenKind::kId) {
    ++at_;
    const uint32_t depth = s_.labels.depth_of(word(t));
    if (depth != kNoIndex) return depth;
    report_unknown_label(t);
    return 0;
  }
  if (t.kind == TokenKind::kInteger) return static_cast<uint32_t>(take_integer(0, at, "label"));
  report_missing_operand(at, "a label's name or depth");
  return 0;
}

// Whether the next token is a literal; an atom that is not is reported and skipped.
bool Parser::operand_follows(Token at, std::string_view what) {
  const Token t = peek();
  const bool is_nan_or_inf = t.kind == TokenKind::kKeyword && classify_number(word(t)) == NumberKind::kFloat;
  if (t.kind == TokenKind::kInteger || t.kind == TokenKind::kFloat || is_nan_or_inf) return true;
  if (t.kind == TokenKind::kId || t.kind == TokenKind::kString || t.kind == TokenKind::kReserved) {
    const std::string shown(word(t).substr(0, kShownBytes));
    Diagnostic& d = report(DiagnosticCode::kMalformedNumber, t, "`" + shown + "` is not a number");
    d.expected = what;
    if (t.kind == TokenKind::kId)
      d.hint = "Immediates are literals: for a variable write (local.get " + shown + ").";
    ++at_;
    return false;
  }
  report_missing_operand(at, what);
  return false;
}

// An integer of 8, 16, 32 or 64 bits, signed or not; `bits` 0 means an unsigned index.
uint64_t Parser::take_integer(unsigned bits, Token at, std::string_view what) {
  static constexpr std::string_view kRanges[] = {"-128 … 255", "-32768 … 65535", "-2147483648 … 4294967295",
                                                 "-9223372036854775808 … 18446744073709551615"};
  if (!operand_follows(at, "an integer")) return 0;
  const Token t = peek();
  ++at_;
  const auto n = bits == 0 ? parse_unsigned(word(t), 32) : parse_integer(word(t), bits);
  if (n.ok) return n.value;
  const std::string type = bits == 0 ? std::string(what) : "i" + std::to_string(bits);
  report_number(t, n.error == NumberError::kOutOfRange, type,
                bits == 0 ? "0 … 4294967295" : kRanges[std::countr_zero(bits) - 3]);
  return 0;
}

uint64_t Parser::take_float(unsigned bits, Token at) {
  const std::string_view type = bits == 32 ? "f32" : "f64";
  if (!operand_follows(at, "a number")) return 0;
  const Token t = peek();
  ++at_;
  Number<uint64_t> n;
  if (bits == 32) {
    const auto narrow = parse_f32(word(t));
    n = {narrow.value, narrow.error, narrow.ok};
  } else {
    n = parse_f64(word(t));
  }
  if (!n.ok) report_number(t, n.error == NumberError::kOutOfRange, type, "what the type can hold");
  return n.value;
}

uint8_t Parser::take_lane(Token at) {
  if (!operand_follows(at, "a lane's number")) return 0;
  const Token t = peek();
  ++at_;
  const auto n = parse_unsigned(word(t), 8);
  if (!n.ok) report_number(t, n.error == NumberError::kOutOfRange, "lane", "0 … 255");
  return static_cast<uint8_t>(n.value);
}

// Writes `op` and its immediates, which are read here; `at` is the mnemonic.
void Parser::read_plain(Opcode op, Token at, std::vector<uint8_t>& out) {
  if (op == Opcode::kSelect) return read_select(out);
  if (op == Opcode::kRefTest || op == Opcode::kRefCast) return read_cast(op, at, out);
  write_opcode(out, op);
  const auto index = [&](Space space) { write_leb128(out, read_index(space, at)); };
  // An index that may be left out, and is then 0.
  const auto optional_index = [&](Space space) { write_leb128(out, at_index() ? read_index(space, at) : 0); };
  // `table.init $table? $elem`; the binary has the segment first.
  const auto init = [&](Space target, Space segment) {
    const bool two = at_index() && (peek(1).kind == TokenKind::kInteger || peek(1).kind == TokenKind::kId);
    const uint32_t to = two ? read_index(target, at) : 0;
    index(segment);
    write_leb128(out, to);
  };
  // Both indices or none.
  const auto copy = [&](Space space) {
    const bool named = at_index();
    write_leb128(out, named ? read_index(space, at) : 0);
    write_leb128(out, named ? read_index(space, at) : 0);
  };
  switch (info(op).immediate) {
    case Immediate::kNone:
    case Immediate::kBlock:  // read_block_head
    case Immediate::kTryTable:
    case Immediate::kSelectTypes:  // read_select
      return;
    case Immediate::kLabel: return write_leb128(out, read_label(at));
    case Immediate::kLabelTable: return read_label_table(at, out);
    case Immediate::kFunc: return index(Space::kFunc);
    case Immediate::kLocal: return index(Space::kLocal);
    case Immediate::kGlobal: return index(Space::kGlobal);
    case Immediate::kTag: return index(Space::kTag);
    case Immediate::kType: return index(Space::kType);
    case Immediate::kField: return read_field(at, out);
    case Immediate::kTypeCount:
      index(Space::kType);
      return write_leb128(out, static_cast<uint32_t>(take_integer(0, at, "count")));
    case Immediate::kTypeData:
      module_.has_data_count = true;
      index(Space::kType);
      return index(Space::kData);
    case Immediate::kTypeElem: index(Space::kType); return index(Space::kElem);
    case Immediate::kTypeCopy: index(Space::kType); return index(Space::kType);
    case Immediate::kLabelCast: return read_label_cast(at, out);
    case Immediate::kTable: return optional_index(Space::kTable);
    case Immediate::kElem: return index(Space::kElem);
    case Immediate::kData: module_.has_data_count = true; return index(Space::kData);
    case Immediate::kMemoryInit: module_.has_data_count = true; return init(Space::kMemory, Space::kData);
    case Immediate::kTableInit: return init(Space::kTable, Space::kElem);
    case Immediate::kTableCopy: return copy(Space::kTable);
    case Immediate::kCallIndirect: return read_call_indirect(out);
    case Immediate::kMemory: return optional_index(Space::kMemory);
    case Immediate::kMemoryCopy: return copy(Space::kMemory);
    case Immediate::kMem: return read_memarg(op, out);
    case Immediate::kMemLane: read_memarg(op, out); [[fallthrough]];
    case Immediate::kLane: return out.push_back(take_lane(at));
    case Immediate::kShuffle:
      for (int i = 0; i < 16; ++i) out.push_back(take_lane(at));
      return;
    case Immediate::kV128: return read_v128(at, out);
    case Immediate::kI32: return write_leb128(out, static_cast<int32_t>(take_integer(32, at, "i32")));
    case Immediate::kI64: return write_leb128(out, static_cast<int64_t>(take_integer(64, at, "i64")));
    case Immediate::kF32: return write_bytes(out, take_float(32, at), 4);
    case Immediate::kF64: return write_bytes(out, take_float(64, at), 8);
    case Immediate::kRefType: return read_ref_null(at, out);
  }
}

// `select`, or `select (result t)*`, which is another opcode.
void Parser::read_select(std::vector<uint8_t>& out) {
  if (!at_form("result")) return write_opcode(out, Opcode::kSelect);
  s_.results.clear();
  const uint32_t before = at_;
  if (!read_results()) skip_type_use(before);
  write_opcode(out, Opcode::kSelectTyped);
  write_leb128(out, static_cast<uint32_t>(s_.results.size()));
  for (const ValType type : s_.results) append_val_type(out, type);
}

void Parser::read_ref_null(Token at, std::vector<uint8_t>& out) {
  ValType type = ValType::kFuncRef;
  if (!read_heap_type(type)) {
    report_missing_operand(at, "func, extern, exn or another heap type, or a type's name or index");
    if (peek().kind == TokenKind::kKeyword) ++at_;
  }
  append_heap_type(out, type);
}

// `ref.test (ref null? heaptype)`: the opcode says whether null passes.
void Parser::read_cast(Opcode op, Token at, std::vector<uint8_t>& out) {
  ValType type = non_null(ValType::kAnyRef);
  if (!at_ref_type()) report_missing_operand(at, "a reference type such as (ref $type)");
  else read_val_type(type);
  const bool is_test = op == Opcode::kRefTest;
  if (is_nullable(type)) op = is_test ? Opcode::kRefTestNull : Opcode::kRefCastNull;
  write_opcode(out, op);
  append_heap_type(out, type);
}

// `br_on_cast $label reftype reftype`
void Parser::read_label_cast(Token at, std::vector<uint8_t>& out) {
  const uint32_t label = read_label(at);
  ValType types[2] = {ValType::kAnyRef, ValType::kAnyRef};
  for (ValType& type : types) {
    if (at_ref_type()) read_val_type(type);
    else report_missing_operand(at, "two reference types, such as anyref (ref $type)");
  }
  out.push_back(static_cast<uint8_t>((is_nullable(types[0]) ? 1 : 0) | (is_nullable(types[1]) ? 2 : 0)));
  write_leb128(out, label);
  append_heap_type(out, types[0]);
  append_heap_type(out, types[1]);
}

// A type, and one of its fields by name or number.
void Parser::read_field(Token at, std::vector<uint8_t>& out) {
  const uint32_t type = read_index(Space::kType, at);
  write_leb128(out, type);
  const Token field = peek();
  if (field.kind != TokenKind::kId)
    return write_leb128(out, static_cast<uint32_t>(take_integer(0, at, "field")));
  ++at_;
  uint32_t index = find_field(type, word(field).substr(1));
  if (index == kNoIndex) {
    report(DiagnosticCode::kUnknownStructField, field,
           "no field of this type is called " + std::string(word(field).substr(0, kShownBytes)))
        .found = word(field).substr(0, kShownBytes);
    index = 0;
  }
  write_leb128(out, index);
}

// Whether an index of a memory comes next. A number alone is the lane of an access that has one.
bool Parser::at_memory_of_access(Opcode op) const {
  if (info(op).immediate != Immediate::kMemLane || peek().kind != TokenKind::kInteger) return at_index();
  const Token& next = peek(1);
  return next.kind == TokenKind::kInteger ||
         (next.kind == TokenKind::kKeyword &&
          (word(next).starts_with("offset=") || word(next).starts_with("align=")));
}

// `$memory? offset=n? align=n?`; the binary has the alignment first, as a power of two.
void Parser::read_memarg(Opcode op, std::vector<uint8_t>& out) {
  uint32_t memory = 0;
  if (at_memory_of_access(op)) read_index_here(Space::kMemory, memory);
  uint64_t offset = 0;
  uint32_t align = info(op).align;
  if (peek().kind == TokenKind::kKeyword && word(peek()).starts_with("offset=")) {
    const Token t = s_.tokens[at_++];
    const auto n = parse_unsigned(word(t).substr(7), 64);
    if (!n.ok) report_number(t, n.error == NumberError::kOutOfRange, "offset", "0 … 18446744073709551615");
    offset = n.value;
  }
  if (peek().kind == TokenKind::kKeyword && word(peek()).starts_with("align=")) {
    const Token t = s_.tokens[at_++];
    const auto n = parse_unsigned(word(t).substr(6), 64);
    if (n.ok && std::has_single_bit(n.value)) {
      align = static_cast<uint32_t>(std::countr_zero(n.value));
    } else {
      Diagnostic& d = report(DiagnosticCode::kMalformedAlignment, t, "an alignment is a power of two");
      d.expected = "align=" + std::to_string(1u << align) + " or less";
    }
  }
  write_leb128(out, align + (memory == 0 ? 0 : kMemArgHasMemory));
  if (memory != 0) write_leb128(out, memory);
  write_leb128(out, offset);
}

// `call_indirect $table? (type x)? (param …)* (result …)*`; the binary has the type first.
void Parser::read_call_indirect(std::vector<uint8_t>& out) {
  uint32_t table = 0;
  if (at_index()) read_index_here(Space::kTable, table);
  TypeUse use;
  const uint32_t before = at_;
  if (!read_type_use(use, false)) skip_type_use(before);
  write_leb128(out, use.index == kNoIndex ? 0 : use.index);
  write_leb128(out, table);
}

// Continues after a type use that could not be read.
void Parser::skip_type_use(uint32_t begin) {
  at_ = begin;
  while (at_form("type") || at_form("param") || at_form("result")) at_ = peek().partner + 1;
}

void Parser::read_label_table(Token at, std::vector<uint8_t>& out) {
  std::vector<uint32_t> labels{read_label(at)};
  while (at_index() && !full()) labels.push_back(read_label(at));
  write_leb128(out, static_cast<uint32_t>(labels.size() - 1));
  for (const uint32_t label : labels) write_leb128(out, label);
}

void Parser::read_v128(Token at, std::vector<uint8_t>& out) {
  const Token t = peek();
  for (const Shape& shape : kShapes) {
    if (t.kind != TokenKind::kKeyword || word(t) != shape.name) continue;
    ++at_;
    const size_t errors = errors_.size();
    for (unsigned i = 0; i < shape.lanes && errors_.size() == errors; ++i)
      write_bytes(out, shape.is_float ? take_float(shape.bits, at) : take_integer(shape.bits, at, "lane"),
                  shape.bits / 8);
    return;
  }
  report_missing_operand(at, "the lanes' shape: i8x16, i16x8, i32x4, i64x2, f32x4 or f64x2");
}

// `(catch tag label)*` and its like. Labels count from outside of the try_table, whose own is not open yet.
bool Parser::read_clauses(std::vector<uint8_t>& out) {
  static constexpr std::string_view kNames[CatchClause::kKinds] = {"catch", "catch_ref", "catch_all",
                                                                   "catch_all_ref"};
  const auto kind_here = [&] {
    uint8_t kind = 0;
    while (kind < CatchClause::kKinds && !at_form(kNames[kind])) ++kind;
    return kind;
  };
  std::vector<uint8_t> clauses;
  uint32_t count = 0;
  for (uint8_t kind = kind_here(); kind < CatchClause::kKinds; kind = kind_here(), ++count) {
    const Token at = peek(1);
    at_ += 2;
    clauses.push_back(kind);
    if ((kind & CatchClause::kAll) == 0) write_leb128(clauses, read_index(Space::kTag, at));
    write_leb128(clauses, read_label(at));
    if (!take_close("(" + std::string(kNames[kind]) + " …)")) return false;
  }
  write_leb128(out, count);
  out.insert(out.end(), clauses.begin(), clauses.end());
  return true;
}

// Nothing, one result, or an index: the shortest form (chapter 6.5.2).
bool Parser::read_block_type(std::vector<uint8_t>& out) {
  if (peek().kind != TokenKind::kOpen) {
    out.push_back(0x40);
    return true;
  }
  if (at_form("type")) {
    TypeUse use;
    if (!read_type_use(use, false)) return false;
    write_leb128(out, static_cast<int64_t>(use.index));
    return true;
  }
  s_.params.clear();
  s_.results.clear();
  if (!read_params(false, false) || !read_results()) return false;
  if (s_.params.empty() && s_.results.empty()) {
    out.push_back(0x40);
  } else if (s_.params.empty() && s_.results.size() == 1) {
    append_val_type(out, s_.results[0]);
  } else {
    write_leb128(out, static_cast<int64_t>(intern_type()));
  }
  return true;
}

}  // namespace membrane::wasm::text
