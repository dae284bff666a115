// Calls, tail calls, and the entry of a function.
#include "engine/native/compiler_parts.h"

namespace membrane::engine::native {

// -- calls ------------------------------------------------------------------------------------------------------

void Compiler::Parts::call(uint32_t callee) {
  const wasm::FuncType& t = module.type_of_function(callee);
  settle_for_call(stack.size() - t.params.size());
  const bool imported = module.functions[callee].import != wasm::kNotImported;
  write_call(t, [&] {
    if (imported) {
      a.mov(Width::k64, rax, STATE(imports));
      a.mov(Width::k64, rax, {rax, static_cast<int32_t>(callee * 8)});
      a.call(STATE(exit_instance));
    } else if (callee == index) {
      a.patch(a.call(), entry);
    } else if (batch != nullptr) {
      batch->emplace_back(a.call(), callee);
    } else {
      a.mov(Width::k64, rax, STATE(functions));
      a.op(Alu::kAdd, Width::k64, rax, static_cast<int32_t>(callee * sizeof(FunctionCode)));
      a.call(Mem{rax, static_cast<int32_t>(offsetof(FunctionCode, native_entry))});
    }
  });
}

// `element` is the index; with the arguments in their slots.
Compiler::Parts::Target Compiler::Parts::find_target(const Instruction& in, Value& element) {
  const Reg i = register_of(element);
  const Reg table = alloc(), other = alloc();
  a.mov(Width::k64, table, STATE(tables));
  a.mov(Width::k64, table, {table, static_cast<int32_t>(in.index2 * 8)});
  a.mov(Width::k64, other, {table, kElementsEnd});
  a.mov(Width::k64, table, {table, kElementsBegin});
  a.op(Alu::kSub, Width::k64, other, table);
  a.shift(Shift::kShr, Width::k64, other, 3);
  a.op(Alu::kCmp, Width::k64, i, other);
  trap_if(Cond::kAE, TrapKind::kUndefinedElement);
  a.mov(Width::k64, table, {table, 0, i, 3});
  a.test(Width::k64, table, table);
  trap_if(Cond::kE, TrapKind::kUninitializedElement);
  // The same type has the same pointer inside a module; others are compared by a helper.
  a.mov(Width::k64, other, STATE(types));
  a.mov(Width::k64, other, {other, static_cast<int32_t>(in.index * 8)});
  a.op(Alu::kCmp, Width::k64, other, {table, static_cast<int32_t>(offsetof(FunctionHandle, type))});
  const Patch same = a.jcc(Cond::kE);
  a.mov(Width::k64, slot(element.slot), table);
  helper(Opcode::kCallIndirect, element.slot, in.index, 0);
  a.patch_here(same);
  release(element);
  return {table, other};
}

// The index of a call through a table, where what is settled for the call leaves it alone.
Value Compiler::Parts::pop_element() {
  Value element = pop();
  if (element.kind == Value::Kind::kLocal) {  // of which the register is about to be given up
    const Reg from = register_of(element);
    if (element.kind == Value::Kind::kRegister) return element;  // it was loaded into one of its own
    const Reg r = alloc();
    a.mov(Width::k64, r, from);
    element.kind = Value::Kind::kRegister;
    element.number = r;
  }
  return element;
}

void Compiler::Parts::call_indirect(const Instruction& in) {
  const wasm::FuncType& t = module.types[in.index];
  Value element = pop_element();
  settle_for_call(stack.size() - t.params.size());
  const auto [target, spare] = find_target(in, element);
  free_registers |= 1u << target | 1u << spare;
  write_call(t, [&, callee = target] {
    if (callee != rax) a.mov(Width::k64, rax, callee);
    a.mov(Width::k64, rcx, STATE(home));
    a.op(Alu::kCmp, Width::k64, rcx, {rax, static_cast<int32_t>(offsetof(FunctionHandle, instance))});
    const Patch foreign = a.jcc(Cond::kNE);
    a.mov(Width::k64, rax, {rax, static_cast<int32_t>(offsetof(FunctionHandle, code))});
    a.mov(Width::k64, rcx, {rax, static_cast<int32_t>(offsetof(FunctionCode, native_entry))});
    const Patch go = a.jmp();
    a.patch_here(foreign);
    a.mov(Width::k64, rcx, STATE(exit_instance));
    a.patch_here(go);
    a.call_register(rcx);
  });
}

// -- tail calls: the frame becomes the callee's, and its return address stays ---------------------------------

void Compiler::Parts::return_call(uint32_t callee) {
  const wasm::FuncType& t = module.type_of_function(callee);
  const size_t first = stack.size() - t.params.size();
  if (module.functions[callee].import != wasm::kNotImported) {
    settle_arguments(first);
    return leave_by_tail(Opcode::kReturnCall, first, callee);
  }
  check_frame_of(callee);
  if (!move_arguments_at_once(first)) {
    settle_arguments(first);
    move_arguments(first, rax);
  }
  if (callee == index) {
    a.jmp(entry);
  } else if (batch != nullptr) {
    batch->emplace_back(a.jmp(), callee);
  } else {
    a.mov(Width::k64, rax, STATE(functions));
    a.op(Alu::kAdd, Width::k64, rax, static_cast<int32_t>(callee * sizeof(FunctionCode)));
    a.jmp(Mem{rax, static_cast<int32_t>(offsetof(FunctionCode, native_entry))});
  }
}

// The frame of a later function is not known when a batch comes here, but may be when this code is made again: it is
// checked either way, and filled in.
void Compiler::Parts::check_frame_of(uint32_t callee) {
  const bool is_later = callee > index;
  const uint32_t slots = compiled.function(callee).frame_slots;
  if (!is_later && slots <= code->frame_slots) return;  // it fits as this one does
  const Reg end = alloc();
  if (is_later) {
    a.lea(Width::k64, end, {kFrame, INT32_MAX});
    if (batch != nullptr) batch->emplace_back(a.here(), callee, BatchCall::Wanted::kFrameBytes);
    else a.put32(a.here() - 4, static_cast<uint32_t>(slots * sizeof(uint64_t)));
  } else {
    a.lea(Width::k64, end, slot(slots));
  }
  a.op(Alu::kCmp, Width::k64, end, STATE(stack_end));
  trap_if(Cond::kA, TrapKind::kStackOverflow);
  free_registers |= 1u << end;
}

void Compiler::Parts::return_call_indirect(const Instruction& in) {
  const wasm::FuncType& t = module.types[in.index];
  Value element = pop_element();
  const size_t first = stack.size() - t.params.size();
  settle_arguments(first);
  const auto [target, spare] = find_target(in, element);
  a.mov(Width::k64, spare, STATE(home));
  a.op(Alu::kCmp, Width::k64, spare, {target, static_cast<int32_t>(offsetof(FunctionHandle, instance))});
  const Patch own = a.jcc(Cond::kE);
  a.mov(Width::k64, slot(element.slot), target);
  leave_by_tail(Opcode::kReturnCallIndirect, first, wasm::slots_of(t.params));
  a.patch_here(own);
  a.mov(Width::k64, target, {target, static_cast<int32_t>(offsetof(FunctionHandle, code))});
  a.mov(Width::k32, spare, {target, static_cast<int32_t>(offsetof(FunctionCode, frame_slots))});
  a.lea(Width::k64, spare, {kFrame, 0, spare, 3});
  a.op(Alu::kCmp, Width::k64, spare, STATE(stack_end));
  trap_if(Cond::kA, TrapKind::kStackOverflow);
  move_arguments(first, spare);
  if (target != rax) a.mov(Width::k64, rax, target);
  a.jmp(Mem{rax, static_cast<int32_t>(offsetof(FunctionCode, native_entry))});
  free_registers |= 1u << target | 1u << spare;
}

// Into another instance, or to the host: the runtime does it all.
void Compiler::Parts::leave_by_tail(Opcode op, size_t first, uint32_t what) {
  helper(op, slot_at(first), what, 0);
  a.int3();
}

void Compiler::Parts::settle_arguments(size_t first) {
  settle_flags();
  for (size_t i = first; i < stack.size(); ++i) store_entry(stack[i]);
}

// Down from their slots to the frame's first ones. Nothing else is in a register any more.
void Compiler::Parts::move_arguments(size_t first, Reg spare) {
  const uint32_t from = slot_at(first), count = top_slot() - from;
  uint32_t i = 0;
  for (; from != 0 && i + 2 <= count; i += 2) {
    a.ensure(Assembler::kRoom);
    a.vload16(0, slot(from + i));
    a.vstore16(slot(i), 0);
  }
  if (from == 0 || i == count) return;
  a.mov(Width::k64, spare, slot(from + i));
  a.mov(Width::k64, slot(i), spare);
}

// The same from registers and constants, when there is nothing else: false when an argument is in a slot that
// another one goes to, or may be.
bool Compiler::Parts::move_arguments_at_once(size_t first) {
  settle_flags();
  ensure_spare();  // nothing may give way later, to a slot that is written already
  uint32_t to = 0;
  const auto in_slot = [&](const Value& v) {
    if (v.kind == Value::Kind::kSlot) return true;
    if (v.kind != Value::Kind::kLocal) return false;
    const Local& l = locals[v.local()];
    return (l.pin == kUnpinned || !((now.valid >> l.pin) & 1)) && l.slot != to;
  };
  for (size_t i = first; i < stack.size(); to += slots_of(stack[i++].bank))
    if (in_slot(stack[i])) return false;
  to = 0;
  for (size_t i = first; i < stack.size(); to += slots_of(stack[i++].bank)) {
    a.ensure(Assembler::kRoom);
    Value v = stack[i];
    const bool stays = v.kind == Value::Kind::kLocal && locals[v.local()].slot == to &&
                       (locals[v.local()].pin == kUnpinned || !((now.dirty >> locals[v.local()].pin) & 1));
    if (stays) continue;
    const bool lent = v.kind == Value::Kind::kRegister;
    store(v, to);
    if (!lent) release(v);
  }
  return true;
}

// -- the function --------------------------------------------------------------------------------------------------

void Compiler::Parts::prologue() {
  a.lea(Width::k64, rcx, {kFrame, static_cast<int32_t>(code->frame_slots * 8)});
  a.op(Alu::kCmp, Width::k64, rcx, STATE(stack_end));
  add_stub(Stub::Kind::kOverflow).from = a.jcc(Cond::kA);
  a.op(Alu::kCmp, Width::k64, rsp, STATE(depth_end));
  add_stub(Stub::Kind::kOverflow).from = a.jcc(Cond::kB);
  clear_locals();
}

void Compiler::Parts::clear_locals() {
  uint32_t at = code->param_slots, left = code->zero_slots;
  if (left == 0) return;
  constexpr uint32_t kUnrolled = 16;
  a.fbits(Bits::kXor, 0, 0, 0);
  if (left > kUnrolled) {
    a.lea(Width::k64, rcx, slot(at));
    a.lea(Width::k64, rdx, slot(at + (left & ~1u)));
    const uint32_t again = a.here();
    a.vstore16({rcx, 0}, 0);
    a.op(Alu::kAdd, Width::k64, rcx, 16);
    a.op(Alu::kCmp, Width::k64, rcx, rdx);
    a.patch(a.jcc(Cond::kNE), again);
    at += left & ~1u;
    left &= 1;
  }
  for (; left >= 2; left -= 2, at += 2) a.vstore16(slot(at), 0);
  if (left != 0) a.fstore(Real::kF64, slot(at), 0);
}

}  // namespace membrane::engine::native
