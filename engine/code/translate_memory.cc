// Loads, stores, and the bulk operations on memories and tables.
#include <algorithm>

#include "engine/code/translator.h"

namespace membrane::engine {

using wasm::Instruction;
using wasm::Opcode;

void Translator::load(const OperationChoice& choice, const Instruction& in) {
  const Entry address = pop();
  const auto offset = static_cast<int32_t>(static_cast<uint32_t>(in.mem_offset));
  uint32_t at = 0;
  if (address.kind == Entry::Kind::kSlot && last_add_ != kNone && word(last_add_ + 1).imm.a == address.slot) {
    const ImmediateWord sum = word(last_add_ + 1).imm;  // i32.add of a constant is done by the load
    out_.resize(base_ + last_add_);
    at = result(form(choice.operation, kFormK), address.slot, choice.to);
    emit_immediate(address.slot, sum.b, offset);
    emit_constant(static_cast<uint32_t>(sum.value));
  } else {
    const uint32_t address_slot = slot_of(address);
    const bool accumulated = in_accumulator(ValueKind::kInteger, address_slot);
    at = result(form(choice.operation, accumulated ? kFormA : 0), address.slot, choice.to);
    emit_immediate(address.slot, address_slot, offset);
  }
  may_trap(at);
  push_slot(slots_of(choice.to));
}

void Translator::store(const OperationChoice& choice, const Instruction& in) {
  const Entry value = pop(), address = pop();
  const auto offset = static_cast<int32_t>(static_cast<uint32_t>(in.mem_offset));
  const uint32_t address_slot = slot_of(address);
  const bool constant = value.kind == Entry::Kind::kConstant;
  const uint32_t value_slot = constant ? 0 : slot_of(value);
  const bool accumulated = !constant && in_accumulator(choice.from, value_slot);
  const uint32_t at = emit(form(choice.operation, constant ? kFormK : accumulated ? kFormA : 0));
  emit_immediate(address_slot, value_slot, offset);
  if (constant) emit_constant(value.value);
  may_trap(at);
}

void Translator::load_lane(const OperationChoice& choice, const Instruction& in) {
  const Entry value = pop(), address = pop();
  const uint32_t address_slot = slot_of(address), value_slot = slot_of(value);
  uint32_t at = 0;
  if (has_register(in.index)) {
    at = result(choice.operation, address.slot, ValueKind::kVector);
    emit_immediate(address.slot, address_slot, static_cast<int32_t>(static_cast<uint32_t>(in.mem_offset)));
    emit_slots(value_slot, in.lane);
  } else {
    at = result(form(choice.operation, kLaneM), address.slot, ValueKind::kVector);
    emit_slots(address.slot, address_slot, in.index);
    emit_constant(in.mem_offset);
    emit_slots(value_slot, in.lane);
  }
  may_trap(at);
  push_slot(2);
}

void Translator::store_lane(const OperationChoice& choice, const Instruction& in) {
  const Entry value = pop(), address = pop();
  const uint32_t address_slot = slot_of(address), value_slot = slot_of(value);
  const uint32_t at = emit(has_register(in.index) ? choice.operation : form(choice.operation, kLaneM));
  if (has_register(in.index)) {
    emit_immediate(address_slot, value_slot, static_cast<int32_t>(static_cast<uint32_t>(in.mem_offset)));
    emit_slots(in.lane);
  } else {
    emit_slots(address_slot, value_slot, in.index, in.lane);
    emit_constant(in.mem_offset);
  }
  may_trap(at);
}

// Of any memory: word 1 names it, word 2 is the offset.
void Translator::load_of_any(const OperationChoice& choice, const Instruction& in) {
  const Entry address = pop();
  const uint32_t address_slot = slot_of(address);
  const uint32_t at = result(form(choice.operation, kFormM), address.slot, choice.to);
  emit_slots(address.slot, address_slot, in.index);
  emit_constant(in.mem_offset);
  may_trap(at);
  push_slot(slots_of(choice.to));
}

void Translator::store_to_any(const OperationChoice& choice, const Instruction& in) {
  const Entry value = pop(), address = pop();
  const uint32_t address_slot = slot_of(address), value_slot = slot_of(value);
  const uint32_t at =
      emit(choice.from == ValueKind::kVector ? Operation::kV128StoreM : form(choice.operation, kFormM));
  emit_slots(address_slot, value_slot, in.index);
  emit_constant(in.mem_offset);
  may_trap(at);
}

// Word 1's last slot is the distance back to the header of the operation's own segment, where a pause resumes.
void Translator::bulk(const Instruction& in, Operation operation, int operands, bool has_result,
                      uint64_t constant) {
  Entry entries[3];
  for (int i = operands - 1; i >= 0; --i) entries[i] = pop();
  clamp_operands(in, entries);
  uint32_t slots[3] = {0, 0, 0};
  for (int i = 0; i < operands; ++i) slots[i] = slot_of(entries[i]);
  const uint32_t at = emit(operation);
  const uint32_t distance = at - header_;
  if (has_result) emit_slots(entries[0].slot, slots[0], slots[1], distance);
  else emit_slots(slots[0], slots[1], slots[2], distance);
  emit_constant(constant);
  may_trap(at);
  if (has_result) push_slot();
}

// An index of a table with 64-bit indices, as an i32 that is in bounds if and only if it was.
auto Translator::clamped(Entry index, uint32_t table) -> Entry {
  if (!module_.tables[table].type.limits.is_64) return index;
  if (index.kind == Entry::Kind::kConstant) {
    index.value = std::min<uint64_t>(index.value, UINT32_MAX);
    return index;
  }
  const uint32_t from = slot_of(index);
  forget_accumulated(index.slot);
  emit(Operation::kClampIndex);
  emit_slots(index.slot, from);
  index.kind = Entry::Kind::kSlot;
  return index;
}

void Translator::clamp_operands(const Instruction& in, Entry (&operands)[3]) {
  switch (in.op) {
    case Opcode::kTableGrow: operands[1] = clamped(operands[1], in.index); return;
    case Opcode::kTableFill:
      operands[0] = clamped(operands[0], in.index);
      operands[2] = clamped(operands[2], in.index);
      return;
    case Opcode::kTableCopy:
      operands[0] = clamped(operands[0], in.index);
      operands[1] = clamped(operands[1], in.index2);
      operands[2] = clamped(operands[2], module_.tables[in.index].type.limits.is_64 ? in.index2 : in.index);
      return;
    case Opcode::kTableInit: operands[0] = clamped(operands[0], in.index2); return;
    default: return;
  }
}

void Translator::table_access(const Instruction& in) {
  if (in.op == Opcode::kTableGet) {
    const Entry index = clamped(pop(), in.index);
    const uint32_t index_slot = slot_of(index);
    const uint32_t at = result_in_slot(Operation::kTableGet, index.slot);
    emit_slots(index.slot, index_slot);
    emit_constant(in.index);
    may_trap(at);
    return push_slot();
  }
  const Entry value = pop(), index = clamped(pop(), in.index);
  const uint32_t index_slot = slot_of(index), value_slot = slot_of(value);
  const uint32_t at = emit(Operation::kTableSet);
  emit_slots(index_slot, value_slot);
  emit_constant(in.index);
  may_trap(at);
}

}  // namespace membrane::engine
