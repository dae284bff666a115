#include "engine/code/operation_choice.h"

namespace membrane::engine {
namespace {

using wasm::Opcode;
using Kind = OperationChoice::Kind;

constexpr std::array<OperationChoice, wasm::kOpcodeCount> make_choices() {
  std::array<OperationChoice, wasm::kOpcodeCount> choices{};
  const auto at = [&](Opcode op) -> OperationChoice& { return choices[static_cast<size_t>(op)]; };
  using enum ValueKind;
#define INTEGER_BINARY(id, type, function)                                                    \
  at(Opcode::id) = {Kind::kBinary, Operation::id##SS, kInteger, kInteger, sizeof(type) == 8};
#define INTEGER_COMPARE(id, type, function)                                                    \
  at(Opcode::id) = {Kind::kCompare, Operation::id##SS, kInteger, kInteger, sizeof(type) == 8};
#define INTEGER_DIVIDE(id, type, function, overflows) at(Opcode::id) = {Kind::kDivide, Operation::id};
#define FLOAT_BINARY(id, type, function)                                                      \
  at(Opcode::id) = {Kind::kFloatBinary, Operation::id##SS, kind_of<type>(), kind_of<type>()};
#define FLOAT_COMPARE(id, type, function)                                               \
  at(Opcode::id) = {Kind::kFloatCompare, Operation::id##SS, kind_of<type>(), kInteger};
#define UNARY(id, from, to, expression)                                              \
  at(Opcode::id) = {Kind::kUnary, Operation::id##S, kind_of<from>(), kind_of<to>()};
#define TRUNCATE(id, from, to) at(Opcode::id) = {Kind::kTruncate, Operation::id, kind_of<from>(), kInteger};
#include "engine/code/operations.def"
  const auto load = [&](Opcode op, Operation first, ValueKind to = kInteger) {
    at(op) = {Kind::kLoad, first, kInteger, to};
  };
  load(Opcode::kI32Load, Operation::kLoad32US);
  load(Opcode::kI64Load, Operation::kLoad64S);
  load(Opcode::kF32Load, Operation::kLoadF32S, kF32);
  load(Opcode::kF64Load, Operation::kLoadF64S, kF64);
  load(Opcode::kI32Load8S, Operation::kLoad8S32S);
  load(Opcode::kI32Load8U, Operation::kLoad8US);
  load(Opcode::kI32Load16S, Operation::kLoad16S32S);
  load(Opcode::kI32Load16U, Operation::kLoad16US);
  load(Opcode::kI64Load8S, Operation::kLoad8S64S);
  load(Opcode::kI64Load8U, Operation::kLoad8US);
  load(Opcode::kI64Load16S, Operation::kLoad16S64S);
  load(Opcode::kI64Load16U, Operation::kLoad16US);
  load(Opcode::kI64Load32S, Operation::kLoad32S64S);
  load(Opcode::kI64Load32U, Operation::kLoad32US);
  const auto store = [&](Opcode op, Operation first, ValueKind from = kInteger) {
    at(op) = {Kind::kStore, first, from};
  };
  store(Opcode::kI32Store, Operation::kStore32S);
  store(Opcode::kI64Store, Operation::kStore64S);
  store(Opcode::kF32Store, Operation::kStoreF32S, kF32);
  store(Opcode::kF64Store, Operation::kStoreF64S, kF64);
  store(Opcode::kI32Store8, Operation::kStore8S);
  store(Opcode::kI32Store16, Operation::kStore16S);
  store(Opcode::kI64Store8, Operation::kStore8S);
  store(Opcode::kI64Store16, Operation::kStore16S);
  store(Opcode::kI64Store32, Operation::kStore32S);
  store(Opcode::kV128Store, Operation::kV128Store, kVector);
  const auto vector = [&](Opcode op, Operation operation, ValueKind to) {
    const auto operands = static_cast<uint8_t>(wasm::info(op).signature.find(':'));
    at(op) = {Kind::kVector, operation, kVector, to, false, operands};
  };
  vector(Opcode::kI8x16Shuffle, Operation::kI8x16Shuffle, kVector);
#define VECTOR_UNARY(id, function) vector(Opcode::id, Operation::id, kVector);
#define VECTOR_BINARY(id, function) vector(Opcode::id, Operation::id, kVector);
#define VECTOR_TERNARY(id, function) vector(Opcode::id, Operation::id, kVector);
#define VECTOR_SHIFT(id, function) vector(Opcode::id, Operation::id, kVector);
#define VECTOR_TEST(id, function) vector(Opcode::id, Operation::id, kInteger);
#define VECTOR_SPLAT(id, type) vector(Opcode::id, Operation::id, kVector);
#define VECTOR_EXTRACT(id, from, to) vector(Opcode::id, Operation::id, kind_of<to>());
#define VECTOR_REPLACE(id, type) vector(Opcode::id, Operation::id, kVector);
#define VECTOR_LOAD(id, type, function) load(Opcode::id, Operation::id##S, kVector);
#define VECTOR_LOAD_LANE(id, type) at(Opcode::id) = {Kind::kLoadLane, Operation::id};
#define VECTOR_STORE_LANE(id, type) at(Opcode::id) = {Kind::kStoreLane, Operation::id};
#include "engine/code/vector_operations.def"
  return choices;
}

// eq ne lt_s lt_u gt_s gt_u le_s le_u ge_s ge_u, as the table has them.
constexpr int kCompareForms = 8;
constexpr int8_t kOpposite[10] = {1, 0, 8, 9, 6, 7, 4, 5, 2, 3};  // of a < b: a >= b
constexpr int8_t kSwapped[10] = {0, 1, 4, 5, 2, 3, 8, 9, 6, 7};   // of a < b: b > a

Operation related(Operation compare, const int8_t (&table)[10]) {
  const auto base =
      static_cast<int>(compare >= Operation::kI64EqSS ? Operation::kI64EqSS : Operation::kI32EqSS);
  const int which = (static_cast<int>(compare) - base) / kCompareForms;
  return static_cast<Operation>(base + kCompareForms * table[which]);
}

}  // namespace

constinit const std::array<OperationChoice, wasm::kOpcodeCount> kOperationChoices = make_choices();

Operation opposite(Operation compare) { return related(compare, kOpposite); }
Operation swapped(Operation compare) { return related(compare, kSwapped); }

}  // namespace membrane::engine
