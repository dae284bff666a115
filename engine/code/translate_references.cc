// Structs, arrays and casts.
#include "engine/code/translator.h"

namespace membrane::engine {

using wasm::Instruction;
using wasm::Opcode;
using wasm::ValType;

// The operands become contiguous; the result takes the place of the first.
void Translator::aggregate(const Instruction& in, size_t operands, bool has_result) {
  const size_t first = stack_.size() - operands;
  settle_from(first);
  const uint32_t slot = operands == 0 ? top_slot() : stack_[first].slot;
  cut_stack(first);
  const uint32_t at = emit(Operation::kAggregate);
  emit_slots(slot, 0, 0, at - header_);
  emit_constant(uint64_t{in.index} | uint64_t{in.index2} << 32);
  emit_constant(static_cast<uint64_t>(in.op));
  may_trap(at);
  if (has_result) push_slot();
}

namespace {

struct FieldForms {
  Operation of_8s, of_8u, of_16s, of_16u, of_32, of_64, of_vector;
};

Operation form_of(const FieldLayout& field, bool is_signed, const FieldForms& forms) {
  switch (field.bytes) {
    case 1: return is_signed ? forms.of_8s : forms.of_8u;
    case 2: return is_signed ? forms.of_16s : forms.of_16u;
    case 4: return forms.of_32;
    case 8: return forms.of_64;
    default: return forms.of_vector;
  }
}

constexpr FieldForms kStructGets = {
    Operation::kStructGet8S, Operation::kStructGet8U, Operation::kStructGet16S,   Operation::kStructGet16U,
    Operation::kStructGet32, Operation::kStructGet64, Operation::kStructGetVector};
constexpr FieldForms kStructSets = {
    Operation::kStructSet8,  Operation::kStructSet8,  Operation::kStructSet16,    Operation::kStructSet16,
    Operation::kStructSet32, Operation::kStructSet64, Operation::kStructSetVector};
constexpr FieldForms kArrayGets = {Operation::kArrayGet8S,    Operation::kArrayGet8U, Operation::kArrayGet16S,
                                   Operation::kArrayGet16U,   Operation::kArrayGet32, Operation::kArrayGet64,
                                   Operation::kArrayGetVector};
constexpr FieldForms kArraySets = {Operation::kArraySet8,     Operation::kArraySet8,  Operation::kArraySet16,
                                   Operation::kArraySet16,    Operation::kArraySet32, Operation::kArraySet64,
                                   Operation::kArraySetVector};

}  // namespace

void Translator::struct_get(const Instruction& in) {
  const FieldLayout& field = field_of(in.index, in.index2);
  const Operation operation = form_of(field, in.op == Opcode::kStructGetS, kStructGets);
  const Entry reference = pop();
  const uint32_t slot = slot_of(reference);
  const bool is_wide = field.bytes == 16;
  const uint32_t at = is_wide ? result(operation, reference.slot, ValueKind::kVector)
                              : result_in_slot(operation, reference.slot);
  emit_immediate(reference.slot, slot, field.offset);
  may_trap(at);
  push_slot(is_wide ? 2 : 1);
}

void Translator::struct_set(const Instruction& in) {
  const FieldLayout& field = field_of(in.index, in.index2);
  const Entry value = pop(), reference = pop();
  const uint32_t slot = slot_of(reference), value_slot = slot_of(value);
  const uint32_t at = emit(form_of(field, false, kStructSets));
  emit_immediate(slot, value_slot, field.offset);
  may_trap(at);
}

void Translator::array_get(const Instruction& in) {
  const FieldLayout& element = field_of(in.index, 0);
  const Operation operation = form_of(element, in.op == Opcode::kArrayGetS, kArrayGets);
  const Entry index = pop(), reference = pop();
  const uint32_t slot = slot_of(reference), index_slot = slot_of(index);
  const bool is_wide = element.bytes == 16;
  const uint32_t at = is_wide ? result(operation, reference.slot, ValueKind::kVector)
                              : result_in_slot(operation, reference.slot);
  emit_slots(reference.slot, slot, index_slot);
  may_trap(at);
  push_slot(is_wide ? 2 : 1);
}

void Translator::array_set(const Instruction& in) {
  const Entry value = pop(), index = pop(), reference = pop();
  const uint32_t slot = slot_of(reference), index_slot = slot_of(index), value_slot = slot_of(value);
  const uint32_t at = emit(form_of(field_of(in.index, 0), false, kArraySets));
  emit_slots(slot, index_slot, value_slot);
  may_trap(at);
}

void Translator::unary_reference(Operation operation) {
  const Entry value = pop();
  const uint32_t slot = slot_of(value);
  const uint32_t at = result_in_slot(operation, value.slot);
  emit_slots(value.slot, slot);
  may_trap(at);
  push_slot();
}

namespace {

// What passes a test or cast, with its nullability.
ValType target_of(const Instruction& in) {
  return in.op == Opcode::kRefTest || in.op == Opcode::kRefCast ? wasm::non_null(in.ref_type) : in.ref_type;
}

}  // namespace

void Translator::reference_test(const Instruction& in) {
  const Entry value = pop();
  const uint32_t slot = slot_of(value);
  result_in_slot(Operation::kRefTest, value.slot);
  emit_slots(value.slot, slot);
  emit_constant(static_cast<uint32_t>(target_of(in)));
  push_slot();
}

void Translator::reference_cast(const Instruction& in) {
  const Entry value = pop();
  const uint32_t at = [&] {
    const uint32_t slot = slot_of(value);
    const uint32_t operation = emit(Operation::kRefCast);
    emit_slots(slot);
    return operation;
  }();
  emit_constant(static_cast<uint32_t>(target_of(in)));
  may_trap(at);
  push(value);
}

// The branch carries the reference, which stays on the stack when the branch is not taken.
void Translator::branch_on_cast(const Instruction& in) {
  Label& target = walk_.target(in.index);
  const bool on_success = in.op == Opcode::kBrOnCast;
  settle_from(0);
  emit(Operation::kCastToAcc);
  emit_slots(stack_.back().slot);
  emit_constant(static_cast<uint32_t>(in.cast_type));
  accumulated_[static_cast<size_t>(ValueKind::kInteger)] = kNone;
  if (target.kind != Label::Kind::kFunction && values_in_place(target)) {
    emit(on_success ? Operation::kBrIfA : Operation::kBrUnlessA);
    link(target, emit_branch(0, 0));
  } else {
    branch_unless(on_success ? Operation::kBrUnlessA : Operation::kBrIfA, 0, target);
  }
}

void Translator::check_non_null() {
  const Entry reference = pop();
  const uint32_t slot = slot_of(reference);
  const uint32_t at = emit(Operation::kCheckNonNull);
  emit_slots(slot);
  may_trap(at);
  push(reference);
}

}  // namespace membrane::engine
