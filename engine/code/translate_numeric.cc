// Numbers and vectors.
#include <cstring>

#include "engine/code/numeric_simd.h"
#include "engine/code/translator.h"

namespace membrane::engine {

using wasm::Instruction;
using wasm::Opcode;

void Translator::unary(const OperationChoice& choice, Opcode op) {
  const Entry a = pop();
  const uint32_t a_slot = slot_of(a);
  const bool accumulated =
      choice.kind == OperationChoice::Kind::kUnary && in_accumulator(choice.from, a_slot);
  const uint32_t at = result(form(choice.operation, accumulated ? kFormA : 0), a.slot, choice.to);
  emit_slots(a.slot, a_slot);
  may_trap(at);
  if (op == Opcode::kI32Eqz || op == Opcode::kI64Eqz) {
    last_compare_ = at;
    compare_form_ = choice.operation;
  }
  push_slot();
}

void Translator::integer_binary(const OperationChoice& choice) {
  const Entry b = pop(), a = pop();
  if (fuse(choice, a, b)) return;
  // The immediate has 32 bits; for i64 it is sign-extended.
  const bool constant = b.kind == Entry::Kind::kConstant &&
                        (!choice.is_64 || static_cast<int64_t>(b.value) == static_cast<int32_t>(b.value));
  const uint32_t a_slot = slot_of(a);
  if (constant) {
    result(form(choice.operation, in_accumulator(ValueKind::kInteger, a_slot) ? kAK : kSK), a.slot);
    emit_immediate(a.slot, a_slot, static_cast<int32_t>(static_cast<uint32_t>(b.value)));
  } else {
    const uint32_t b_slot = slot_of(b);
    const int which = in_accumulator(ValueKind::kInteger, a_slot)   ? kAS
                      : in_accumulator(ValueKind::kInteger, b_slot) ? kSA
                                                                    : kSS;
    result(form(choice.operation, which), a.slot);
    emit_slots(a.slot, a_slot, b_slot);
  }
  push_slot();
}

void Translator::integer_compare(const OperationChoice& choice) {
  const Entry b = pop(), a = pop();
  const uint32_t a_slot = slot_of(a);
  uint32_t at = 0;
  compare_form_ = choice.operation;
  if (b.kind == Entry::Kind::kConstant) {
    at = result(form(choice.operation, in_accumulator(ValueKind::kInteger, a_slot) ? kCompareAK : kSK),
                a.slot);
    emit_slots(a.slot, a_slot);
    emit_constant(b.value);
  } else {
    const uint32_t b_slot = slot_of(b);
    const bool swap =
        !in_accumulator(ValueKind::kInteger, a_slot) && in_accumulator(ValueKind::kInteger, b_slot);
    const bool accumulated = swap || in_accumulator(ValueKind::kInteger, a_slot);
    if (swap) compare_form_ = swapped(choice.operation);
    at = result(form(compare_form_, accumulated ? kAS : kSS), a.slot);
    emit_slots(a.slot, swap ? b_slot : a_slot, swap ? a_slot : b_slot);
  }
  last_compare_ = at;
  push_slot();
}

// Fuses an operation with the last one emitted, whose result it takes: a product in a sum, a sum in a
// sum, a rotation in an exclusive or. The second then computes both, with the same roundings, and the
// first is removed.
bool Translator::fuse(const OperationChoice& choice, const Entry& a, const Entry& b) {
  const bool subtract = choice.operation == Operation::kF64SubSS;
  Operation fused{};
  uint32_t first = kNone;
  if (choice.operation == Operation::kF64AddSS || subtract) {
    first = last_multiply_;
    fused = subtract ? Operation::kF64MulSub : Operation::kF64MulAdd;
  } else if (choice.operation == Operation::kI32AddSS) {
    first = last_sum_;
    fused = Operation::kI32AddAdd;
  } else if (choice.operation == Operation::kI32XorSS) {
    first = last_rotation_;
    fused = Operation::kI32RotlXor;
  }
  if (first == kNone) return false;
  const Word taken = word(first + 1);
  const bool takes_b = b.kind == Entry::Kind::kSlot && b.slot == taken.slots.a;
  const bool takes_a = a.kind == Entry::Kind::kSlot && a.slot == taken.slots.a;
  if (!takes_b && (subtract || !takes_a)) return false;
  const Entry& rest = takes_b ? a : b;
  // A constant would have to be written to a slot, perhaps to one that the first operation reads.
  if (rest.kind == Entry::Kind::kConstant) return false;
  out_.resize(base_ + first);
  const uint32_t other = slot_of(rest);
  result(fused, a.slot, choice.to);
  if (fused == Operation::kI32RotlXor)
    emit_slots(a.slot, other, taken.imm.b, static_cast<uint32_t>(taken.imm.value) % 32);
  else emit_slots(a.slot, taken.slots.b, taken.slots.c, other);
  push_slot();
  return true;
}

void Translator::float_binary(const OperationChoice& choice) {
  const Entry b = pop(), a = pop();
  if (fuse(choice, a, b)) return;
  const uint32_t a_slot = slot_of(a);
  if (b.kind == Entry::Kind::kConstant) {
    result(form(choice.operation, kSK), a.slot, choice.to);
    emit_slots(a.slot, a_slot);
    emit_constant(b.value);
  } else {
    const uint32_t b_slot = slot_of(b);
    const int which = in_accumulator(choice.from, a_slot)   ? kAS
                      : in_accumulator(choice.from, b_slot) ? kSA
                                                            : kSS;
    const uint32_t at = result(form(choice.operation, which), a.slot, choice.to);
    emit_slots(a.slot, a_slot, b_slot);
    if (choice.operation == Operation::kF64MulSS)
      last_multiply_ = at;  // of any form: the slots are named in all
  }
  push_slot();
}

// Word 1 has the result, the operands, and the lane after them; a shuffle's lanes follow it.
void Translator::vector(const OperationChoice& choice, const Instruction& in) {
  static const bool has_pshufb = simd::has_pshufb();
  Entry entries[3];
  uint32_t words[4] = {};
  for (int i = choice.operands - 1; i >= 0; --i) entries[i] = pop();
  for (int i = 0; i < choice.operands; ++i) words[i] = slot_of(entries[i]);
  const wasm::Immediate immediate = wasm::info(in.op).immediate;
  if (immediate == wasm::Immediate::kLane) words[choice.operands] = in.lane;
  Operation operation = choice.operation;
  if (has_pshufb && in.op == Opcode::kI8x16Shuffle) operation = Operation::kShuffleByPshufb;
  if (has_pshufb && (in.op == Opcode::kI8x16Swizzle || in.op == Opcode::kI8x16RelaxedSwizzle))
    operation = Operation::kSwizzleByPshufb;
  result(operation, entries[0].slot, choice.to);
  emit_slots(entries[0].slot, words[0], words[1], words[2]);
  if (operation == Operation::kShuffleByPshufb) emit_pshufb_indices(in.raw);
  else if (immediate == wasm::Immediate::kShuffle) emit_bytes(in.raw);
  push_slot(slots_of(choice.to));
}

void Translator::emit_bytes(const uint8_t* bytes) {
  uint64_t halves[2];
  std::memcpy(halves, bytes, sizeof halves);
  emit_constant(halves[0]);
  emit_constant(halves[1]);
}

// Of a shuffle's indices, those into each operand; the others give 0.
void Translator::emit_pshufb_indices(const uint8_t* indices) {
  constexpr uint8_t kNoByte = 0x80;
  uint8_t of_a[16], of_b[16];
  for (int i = 0; i < 16; ++i) {
    of_a[i] = indices[i] < 16 ? indices[i] : kNoByte;
    of_b[i] = indices[i] < 16 ? kNoByte : static_cast<uint8_t>(indices[i] - 16);
  }
  emit_bytes(of_a);
  emit_bytes(of_b);
}

}  // namespace membrane::engine
