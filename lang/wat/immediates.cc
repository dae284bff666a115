#include "lang/wat/immediates.h"

#include <algorithm>
#include <string_view>

namespace membrane::lang {

using wasm::Immediate;
using wasm::Opcode;
using wasm::ValType;

namespace {

struct Signature {
  std::array<ValType, 3> operands{};
  std::array<ValType, 1> results{};
  uint8_t operand_count = 0;
  uint8_t result_count = 0;
  bool is_fixed = false;
};

consteval ValType type_of_letter(char c) {
  switch (c) {
    case 'i': return ValType::kI32;
    case 'I': return ValType::kI64;
    case 'f': return ValType::kF32;
    case 'F': return ValType::kF64;
    case 'v': return ValType::kV128;
    default: return ValType::kBottom;
  }
}

consteval std::array<Signature, wasm::kOpcodeCount> make_signatures() {
  std::array<Signature, wasm::kOpcodeCount> table{};
  for (size_t i = 0; i < wasm::kOpcodeCount; ++i) {
    const std::string_view text = wasm::detail::kOpcodes[i].signature;
    const size_t colon = text.find(':');
    if (colon == std::string_view::npos) continue;
    Signature& s = table[i];
    s.is_fixed = true;
    for (size_t k = 0; k < colon; ++k) s.operands.at(s.operand_count++) = type_of_letter(text[k]);
    for (size_t k = colon + 1; k < text.size(); ++k) s.results.at(s.result_count++) = type_of_letter(text[k]);
  }
  return table;
}

constexpr auto kSignatures = make_signatures();
const Signature& signature(Opcode op) { return kSignatures[static_cast<size_t>(op)]; }

bool is_index(const Tree& tree, Tree::Node n) { return tree.is_id(n) || tree.is_integer(n); }
bool is_number(const Tree& tree, Tree::Node n) {
  return tree.is_integer(n) || tree.kind(n) == wasm::TokenKind::kFloat ||
         (tree.is_word(n) && (tree.word(n).starts_with("nan") || tree.word(n) == "inf"));
}

using Node = Tree::Node;

// Skips at most `count` nodes that `accept` accepts.
template <typename Accept>
Node take(Node n, Node close, size_t count, Accept accept) {
  while (count-- > 0 && n < close && accept(n)) ++n;
  return n;
}

Node after_type_use(const Tree& tree, Node n, Node close) {
  while (n < close && (tree.is_form(n, "type") || tree.is_form(n, "param") || tree.is_form(n, "result")))
    n = tree.next(n);
  return n;
}

bool is_memarg(const Tree& tree, Node n) {
  return tree.is_word(n) && (tree.word(n).starts_with("offset=") || tree.word(n).starts_with("align="));
}

Node after_memarg(const Tree& tree, Node n, Node close) {
  return take(n, close, 2, [&](Node at) { return is_memarg(tree, at); });
}

// Counts the nodes from `n` to `close`, up to `most`, since a sequence may be long.
size_t count_nodes(const Tree& tree, Node n, Node close, size_t most) {
  size_t count = 0;
  for (; n < close && count < most; n = tree.next(n)) ++count;
  return count;
}

// `least` to `most` leading indices are immediates. The nodes after them are operands, `operands` of them, unless
// they come from the stack.
Node after_optional(const Tree& tree, Node n, Node close, size_t least, size_t most, size_t operands) {
  const size_t nodes = count_nodes(tree, n, close, most + operands);
  const size_t count = nodes < operands ? most : std::clamp(nodes - operands, least, most);
  return take(n, close, count, [&](Node at) { return is_index(tree, at); });
}

Node after_table(const Tree& tree, const Environment& environment, Node n, Node close, size_t operands) {
  if (n < close && tree.is_id(n) && environment.tables.find(tree.word(n)) != wasm::kNoIndex) return n + 1;
  return after_optional(tree, n, close, 0, 1, operands);
}

// The memory of an access: the name of a memory, or a number that is not an operand.
Node after_memory(const Tree& tree, const Environment& environment, Node n, Node close, bool has_lane,
                  size_t operands) {
  if (n >= close || !is_index(tree, n)) return n;
  if (tree.is_id(n)) return environment.memories.find(tree.word(n)) == wasm::kNoIndex ? n : n + 1;
  if (n + 1 < close && is_memarg(tree, n + 1)) return n + 1;
  if (has_lane)
    return n + 1 < close && tree.is_integer(n + 1) && count_nodes(tree, n, close, operands + 2) > operands + 1
               ? n + 1
               : n;
  return after_optional(tree, n, close, 0, 1, operands);
}

size_t lanes_of(std::string_view shape) {
  if (shape == "i8x16") return 16;
  if (shape == "i16x8") return 8;
  if (shape == "i32x4" || shape == "f32x4") return 4;
  return 2;
}

}  // namespace

bool has_fixed_signature(Opcode op) { return signature(op).is_fixed; }
Types operands_of(Opcode op) { return Types(signature(op).operands).first(signature(op).operand_count); }
Types results_of(Opcode op) { return Types(signature(op).results).first(signature(op).result_count); }

bool uses_memory(Opcode op) {
  switch (wasm::info(op).immediate) {
    case Immediate::kMem:
    case Immediate::kMemLane:
    case Immediate::kMemory:
    case Immediate::kMemoryCopy:
    case Immediate::kMemoryInit: return true;
    default: return false;
  }
}

Node after_clauses(const Tree& tree, Node n, Node close) {
  while (n < close && (tree.is_form(n, "catch") || tree.is_form(n, "catch_ref") ||
                       tree.is_form(n, "catch_all") || tree.is_form(n, "catch_all_ref")))
    n = tree.next(n);
  return n;
}

Node after_immediates(const Tree& tree, const Environment& environment, Opcode op, Node n, Node close) {
  const auto index = [&](Node at) { return is_index(tree, at); };
  const auto number = [&](Node at) { return is_number(tree, at); };
  const auto memory = [&](bool has_lane) {
    return after_memory(tree, environment, n, close, has_lane, operands_of(op).size());
  };
  switch (wasm::info(op).immediate) {
    case Immediate::kNone:
      // `select` with and without types has the same mnemonic.
      return op == Opcode::kSelect ? after_type_use(tree, n, close) : n;
    case Immediate::kMemory: return memory(false);
    case Immediate::kMemoryCopy: {
      const Node after = after_optional(tree, n, close, 0, 2, 3);
      return after - n == 2 ? after : n;
    }
    case Immediate::kSelectTypes: return after_type_use(tree, n, close);
    case Immediate::kBlock:
      return after_type_use(tree, take(n, close, 1, [&](Node at) { return tree.is_id(at); }), close);
    case Immediate::kTryTable:
      return after_clauses(
          tree, after_type_use(tree, take(n, close, 1, [&](Node at) { return tree.is_id(at); }), close),
          close);
    case Immediate::kLabelTable: return take(n, close, SIZE_MAX, index);
    case Immediate::kLabel:
    case Immediate::kFunc:
    case Immediate::kLocal:
    case Immediate::kGlobal:
    case Immediate::kTag:
    case Immediate::kType:
    case Immediate::kData:
    case Immediate::kElem: return take(n, close, 1, index);
    case Immediate::kCallIndirect: return after_type_use(tree, take(n, close, 1, index), close);
    case Immediate::kTable: {
      const size_t operands = op == Opcode::kTableSize   ? 0
                              : op == Opcode::kTableGet  ? 1
                              : op == Opcode::kTableFill ? 3
                                                         : 2;
      return after_table(tree, environment, n, close, operands);
    }
    case Immediate::kMemoryInit:
    case Immediate::kTableInit: return after_optional(tree, n, close, 1, 2, 3);
    case Immediate::kTableCopy: {
      const Node after = after_optional(tree, n, close, 0, 2, 3);
      return after - n == 2 ? after : n;
    }
    case Immediate::kMem: return after_memarg(tree, memory(false), close);
    case Immediate::kMemLane: return take(after_memarg(tree, memory(true), close), close, 1, number);
    case Immediate::kLane: return take(n, close, 1, number);
    case Immediate::kShuffle: return take(n, close, 16, number);
    case Immediate::kV128:
      if (n >= close || !tree.is_word(n)) return n;
      return take(n + 1, close, lanes_of(tree.word(n)), number);
    case Immediate::kI32:
    case Immediate::kI64:
    case Immediate::kF32:
    case Immediate::kF64: return take(n, close, 1, number);
    case Immediate::kField:
    case Immediate::kTypeCount:
    case Immediate::kTypeData:
    case Immediate::kTypeElem:
    case Immediate::kTypeCopy: return take(n, close, 2, index);
    case Immediate::kLabelCast: {
      n = take(n, close, 1, index);
      for (int i = 0; i < 2 && n < close; ++i) n = tree.next(n);
      return n;
    }
    case Immediate::kRefType:
      if (n < close && tree.is_form(n, "ref")) return tree.next(n);
      return take(n, close, 1, [&](Node at) { return tree.is_word(at) || is_index(tree, at); });
  }
  return n;
}

}  // namespace membrane::lang
