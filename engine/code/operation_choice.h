// Which operation of the internal code each plain instruction becomes, and in which of its forms.
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>

#include "engine/code/code.h"
#include "wasm/opcode.h"

namespace membrane::engine {

// Which accumulator holds a value of a type. Vectors have none.
enum class ValueKind : uint8_t { kInteger, kF64, kF32, kVector };
constexpr uint32_t slots_of(ValueKind kind) { return kind == ValueKind::kVector ? 2 : 1; }

template <typename T>
constexpr ValueKind kind_of() {
  if constexpr (std::is_same_v<T, double>) return ValueKind::kF64;
  else if constexpr (std::is_same_v<T, float>) return ValueKind::kF32;
  else return ValueKind::kInteger;
}

struct OperationChoice {
  enum class Kind : uint8_t {
    kSpecial,
    kBinary,
    kCompare,
    kDivide,
    kFloatBinary,
    kFloatCompare,
    kUnary,
    kTruncate,
    kLoad,
    kStore,
    kVector,
    kLoadLane,
    kStoreLane
  };
  Kind kind = Kind::kSpecial;
  Operation operation{};  // the first of its forms
  ValueKind from = ValueKind::kInteger, to = ValueKind::kInteger;
  bool is_64 = false;    // operands of kBinary and kCompare
  uint8_t operands = 0;  // kVector
};

extern const std::array<OperationChoice, wasm::kOpcodeCount> kOperationChoices;
inline const OperationChoice& choice_of(wasm::Opcode op) {
  return kOperationChoices[static_cast<size_t>(op)];
}

// The place of a form among an operation's forms (operations_each.def).
constexpr Operation form(Operation first, int which) {
  return static_cast<Operation>(static_cast<uint16_t>(first) + which);
}
constexpr int kSS = 0, kSK = 1, kAS = 2, kSA = 3, kAK = 4;  // INTEGER_BINARY, FLOAT_*
constexpr int kCompareAK = 3, kToBranch = 4;       // INTEGER_COMPARE: the branch's forms follow in like order
constexpr int kFormA = 1, kFormK = 2, kFormM = 3;  // UNARY, LOAD, STORE
constexpr int kLaneM = 1;                          // VECTOR_LOAD_LANE, VECTOR_STORE_LANE

// The comparison of integers that is true when `compare` is false, and the same comparison with its operands
// swapped.
Operation opposite(Operation compare);
Operation swapped(Operation compare);

}  // namespace membrane::engine
