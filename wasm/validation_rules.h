// What validation needs to know of an instruction: its row of opcodes.def, digested.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "wasm/opcode.h"
#include "wasm/types.h"

namespace membrane::wasm {

struct Rule {
  enum class Kind : uint8_t {
    kPlain,    // only its signature matters
    kChecked,  // and its immediate must be checked
    kSpecial,  // has a method of its own
  };
  Kind kind = Kind::kPlain;
  uint8_t operand_count = 0;
  std::array<ValType, 3> operands{};
  ValType result = ValType::kBottom;  // kBottom: none
  uint8_t limit = 0;                  // of the immediate: log2 alignment, or number of lanes
  bool is_simd = false;
};

constexpr ValType type_of_letter(char letter) {
  switch (letter) {
    case 'i': return ValType::kI32;
    case 'I': return ValType::kI64;
    case 'f': return ValType::kF32;
    case 'F': return ValType::kF64;
    case 'v': return ValType::kV128;
  }
  throw "a signature has a letter that is no type";
}

constexpr bool needs_check(Immediate immediate) {
  switch (immediate) {
    case Immediate::kNone:
    case Immediate::kV128:
    case Immediate::kI32:
    case Immediate::kI64:
    case Immediate::kF32:
    case Immediate::kF64: return false;
    default: return true;
  }
}

// "i8x16.extract_lane_s" has 16.
constexpr uint8_t lanes_of(std::string_view mnemonic) {
  const size_t x = mnemonic.find('x');
  uint8_t lanes = 0;
  for (size_t i = x + 1; mnemonic[i] != '.'; ++i)
    lanes = static_cast<uint8_t>(lanes * 10 + (mnemonic[i] - '0'));
  return lanes;
}

constexpr Rule rule_of(const OpcodeInfo& row) {
  Rule rule;
  rule.is_simd = row.prefix == 0xFD;
  rule.limit = row.immediate == Immediate::kLane ? lanes_of(row.text) : row.align;
  if (row.signature == "*") {
    rule.kind = Rule::Kind::kSpecial;
    return rule;
  }
  rule.kind = needs_check(row.immediate) ? Rule::Kind::kChecked : Rule::Kind::kPlain;
  size_t i = 0;
  for (; row.signature[i] != ':'; ++i) rule.operands[rule.operand_count++] = type_of_letter(row.signature[i]);
  if (++i < row.signature.size()) rule.result = type_of_letter(row.signature[i++]);
  if (i != row.signature.size()) throw "a signature has more than one result";
  return rule;
}

}  // namespace membrane::wasm
