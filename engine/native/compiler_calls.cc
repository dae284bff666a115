// Calls, tail calls, and the entry of a function.
#include "engine/native/function_compiler.h"

namespace membrane::engine::native {

// -- calls ------------------------------------------------------------------------------------------------------

void FunctionCompiler::call(uint32_t callee) {
  const wasm::FuncType& t = module_.type_of_function(callee);
  settle_for_call(stack_.size() - t.params.size());
  const bool imported = module_.functions[callee].import != wasm::kNotImported;
  write_call(t, [&] {
    if (imported) {
      a_.mov(Width::k64, rax, STATE(imports));
      a_.mov(Width::k64, rax, {rax, static_cast<int32_t>(callee * 8)});
      a_.call(STATE(exit_instance));
    } else if (callee == index_) {
      a_.patch(a_.call(), entry_);
    } else if (batch_ != nullptr) {
      batch_->emplace_back(a_.call(), callee);
    } else {
      a_.mov(Width::k64, rax, STATE(functions));
      a_.op(Alu::kAdd, Width::k64, rax, static_cast<int32_t>(callee * sizeof(FunctionCode)));
      a_.call(Mem{rax, static_cast<int32_t>(offsetof(FunctionCode, native_entry))});
    }
  });
}

// `element` is the index; with the arguments in their slots.
FunctionCompiler::Target FunctionCompiler::find_target(const Instruction& in, Operand& element) {
  const Reg i = register_of(element);
  const Reg table = alloc(), other = alloc();
  a_.mov(Width::k64, table, STATE(tables));
  a_.mov(Width::k64, table, {table, static_cast<int32_t>(in.index2 * 8)});
  a_.mov(Width::k64, other, {table, kElementsEnd});
  a_.mov(Width::k64, table, {table, kElementsBegin});
  a_.op(Alu::kSub, Width::k64, other, table);
  a_.shift(Shift::kShr, Width::k64, other, 3);
  a_.op(Alu::kCmp, Width::k64, i, other);
  trap_if(Cond::kAE, TrapKind::kUndefinedElement);
  a_.mov(Width::k64, table, {table, 0, i, 3});
  a_.test(Width::k64, table, table);
  trap_if(Cond::kE, TrapKind::kUninitializedElement);
  // The same type has the same pointer inside a module; others are compared by a helper.
  a_.mov(Width::k64, other, STATE(types));
  a_.mov(Width::k64, other, {other, static_cast<int32_t>(in.index * 8)});
  a_.op(Alu::kCmp, Width::k64, other, {table, static_cast<int32_t>(offsetof(FunctionHandle, type))});
  const Patch same = a_.jcc(Cond::kE);
  a_.mov(Width::k64, slot(element.slot), table);
  helper(Opcode::kCallIndirect, element.slot, in.index, 0);
  a_.patch_here(same);
  release(element);
  return {table, other};
}

// The index of a call through a table, where what is settled for the call leaves it alone.
Operand FunctionCompiler::pop_element() {
  Operand element = stack_.pop();
  if (element.kind == Operand::Kind::kLocal) {  // of which the register is about to be given up
    const Reg from = register_of(element);
    if (element.kind == Operand::Kind::kRegister) return element;  // it was loaded into one of its own
    const Reg r = alloc();
    a_.mov(Width::k64, r, from);
    element.kind = Operand::Kind::kRegister;
    element.number = r;
  }
  return element;
}

void FunctionCompiler::call_indirect(const Instruction& in) {
  const wasm::FuncType& t = module_.types[in.index];
  Operand element = pop_element();
  settle_for_call(stack_.size() - t.params.size());
  const auto [target, spare] = find_target(in, element);
  registers_.release(target);
  registers_.release(spare);
  write_call(t, [&, callee = target] {
    if (callee != rax) a_.mov(Width::k64, rax, callee);
    a_.mov(Width::k64, rcx, STATE(home));
    a_.op(Alu::kCmp, Width::k64, rcx, {rax, static_cast<int32_t>(offsetof(FunctionHandle, instance))});
    const Patch foreign = a_.jcc(Cond::kNE);
    a_.mov(Width::k64, rax, {rax, static_cast<int32_t>(offsetof(FunctionHandle, code))});
    a_.mov(Width::k64, rcx, {rax, static_cast<int32_t>(offsetof(FunctionCode, native_entry))});
    const Patch go = a_.jmp();
    a_.patch_here(foreign);
    a_.mov(Width::k64, rcx, STATE(exit_instance));
    a_.patch_here(go);
    a_.call_register(rcx);
  });
}

// -- tail calls: the frame becomes the callee's, and its return address stays ---------------------------------

void FunctionCompiler::return_call(uint32_t callee) {
  const wasm::FuncType& t = module_.type_of_function(callee);
  const size_t first = stack_.size() - t.params.size();
  if (module_.functions[callee].import != wasm::kNotImported) {
    settle_arguments(first);
    return leave_by_tail(Opcode::kReturnCall, first, callee);
  }
  check_frame_of(callee);
  if (!move_arguments_at_once(first)) {
    settle_arguments(first);
    move_arguments(first, rax);
  }
  if (callee == index_) {
    a_.jmp(entry_);
  } else if (batch_ != nullptr) {
    batch_->emplace_back(a_.jmp(), callee);
  } else {
    a_.mov(Width::k64, rax, STATE(functions));
    a_.op(Alu::kAdd, Width::k64, rax, static_cast<int32_t>(callee * sizeof(FunctionCode)));
    a_.jmp(Mem{rax, static_cast<int32_t>(offsetof(FunctionCode, native_entry))});
  }
}

// The frame of a later function is not known when a batch comes here, but may be when this code is made again: it is
// checked either way, and filled in.
void FunctionCompiler::check_frame_of(uint32_t callee) {
  const bool is_later = callee > index_;
  const uint32_t slots = compiled_.function(callee).frame_slots;
  if (!is_later && slots <= code_->frame_slots) return;  // it fits as this one does
  const Reg end = alloc();
  if (is_later) {
    a_.lea(Width::k64, end, {kFrame, INT32_MAX});
    if (batch_ != nullptr) batch_->emplace_back(a_.here(), callee, BatchCall::Wanted::kFrameBytes);
    else a_.put32(a_.here() - 4, static_cast<uint32_t>(slots * sizeof(uint64_t)));
  } else {
    a_.lea(Width::k64, end, slot(slots));
  }
  a_.op(Alu::kCmp, Width::k64, end, STATE(stack_end));
  trap_if(Cond::kA, TrapKind::kStackOverflow);
  registers_.release(end);
}

void FunctionCompiler::return_call_indirect(const Instruction& in) {
  const wasm::FuncType& t = module_.types[in.index];
  Operand element = pop_element();
  const size_t first = stack_.size() - t.params.size();
  settle_arguments(first);
  const auto [target, spare] = find_target(in, element);
  a_.mov(Width::k64, spare, STATE(home));
  a_.op(Alu::kCmp, Width::k64, spare, {target, static_cast<int32_t>(offsetof(FunctionHandle, instance))});
  const Patch own = a_.jcc(Cond::kE);
  a_.mov(Width::k64, slot(element.slot), target);
  leave_by_tail(Opcode::kReturnCallIndirect, first, wasm::slots_of(t.params));
  a_.patch_here(own);
  a_.mov(Width::k64, target, {target, static_cast<int32_t>(offsetof(FunctionHandle, code))});
  a_.mov(Width::k32, spare, {target, static_cast<int32_t>(offsetof(FunctionCode, frame_slots))});
  a_.lea(Width::k64, spare, {kFrame, 0, spare, 3});
  a_.op(Alu::kCmp, Width::k64, spare, STATE(stack_end));
  trap_if(Cond::kA, TrapKind::kStackOverflow);
  move_arguments(first, spare);
  if (target != rax) a_.mov(Width::k64, rax, target);
  a_.jmp(Mem{rax, static_cast<int32_t>(offsetof(FunctionCode, native_entry))});
  registers_.release(target);
  registers_.release(spare);
}

// Into another instance, or to the host: the runtime does it all.
void FunctionCompiler::leave_by_tail(Opcode op, size_t first, uint32_t what) {
  helper(op, slot_at(first), what, 0);
  a_.int3();
}

void FunctionCompiler::settle_arguments(size_t first) {
  settle_flags();
  for (size_t i = first; i < stack_.size(); ++i) store_entry(stack_[i]);
}

// Down from their slots to the frame's first ones. Nothing else is in a register any more.
void FunctionCompiler::move_arguments(size_t first, Reg spare) {
  const uint32_t from = slot_at(first), count = stack_.next_slot() - from;
  uint32_t i = 0;
  for (; from != 0 && i + 2 <= count; i += 2) {
    a_.ensure(Assembler::kRoom);
    a_.vload16(0, slot(from + i));
    a_.vstore16(slot(i), 0);
  }
  if (from == 0 || i == count) return;
  a_.mov(Width::k64, spare, slot(from + i));
  a_.mov(Width::k64, slot(i), spare);
}

// The same from registers and constants, when there is nothing else: false when an argument is in a slot that
// another one goes to, or may be.
bool FunctionCompiler::move_arguments_at_once(size_t first) {
  settle_flags();
  ensure_spare();  // nothing may give way later, to a slot that is written already
  uint32_t to = 0;
  const auto in_slot = [&](const Operand& v) {
    if (v.kind == Operand::Kind::kSlot) return true;
    if (v.kind != Operand::Kind::kLocal) return false;
    const Local& l = locals_[v.local()];
    return (l.pin == kUnpinned || !locals_.now().is_valid(l.pin)) && l.slot != to;
  };
  for (size_t i = first; i < stack_.size(); to += slots_of(stack_[i++].bank))
    if (in_slot(stack_[i])) return false;
  to = 0;
  for (size_t i = first; i < stack_.size(); to += slots_of(stack_[i++].bank)) {
    const Operand& v = stack_[i];
    const bool stays =
        v.kind == Operand::Kind::kLocal && locals_[v.local()].slot == to &&
        (locals_[v.local()].pin == kUnpinned || !locals_.now().is_dirty(locals_[v.local()].pin));
    if (!stays) store_copy(v, to);
  }
  return true;
}

// -- the function --------------------------------------------------------------------------------------------------

void FunctionCompiler::prologue() {
  a_.lea(Width::k64, rcx, {kFrame, static_cast<int32_t>(code_->frame_slots * 8)});
  a_.op(Alu::kCmp, Width::k64, rcx, STATE(stack_end));
  stubs_.add_overflow(a_.jcc(Cond::kA));
  a_.op(Alu::kCmp, Width::k64, rsp, STATE(depth_end));
  stubs_.add_overflow(a_.jcc(Cond::kB));
  clear_locals();
}

void FunctionCompiler::clear_locals() {
  uint32_t at = code_->param_slots, left = code_->zero_slots;
  if (left == 0) return;
  constexpr uint32_t kUnrolled = 16;
  a_.fbits(Bits::kXor, 0, 0, 0);
  if (left > kUnrolled) {
    a_.lea(Width::k64, rcx, slot(at));
    a_.lea(Width::k64, rdx, slot(at + (left & ~1u)));
    const uint32_t again = a_.here();
    a_.vstore16({rcx, 0}, 0);
    a_.op(Alu::kAdd, Width::k64, rcx, 16);
    a_.op(Alu::kCmp, Width::k64, rcx, rdx);
    a_.patch(a_.jcc(Cond::kNE), again);
    at += left & ~1u;
    left &= 1;
  }
  for (; left >= 2; left -= 2, at += 2) a_.vstore16(slot(at), 0);
  if (left != 0) a_.fstore(Real::kF64, slot(at), 0);
}

}  // namespace membrane::engine::native
