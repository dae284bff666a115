// Memory, locals, globals, select, and calls of helpers.
#include "engine/native/function_compiler.h"

namespace membrane::engine::native {

namespace {

// What the instruction has; other fields of an Instruction are left from one before it.
uint32_t index_of(const Instruction& in) {
  return wasm::info(in.op).immediate == wasm::Immediate::kNone ? 0 : in.index;
}
uint32_t index2_of(const Instruction& in) {
  switch (wasm::info(in.op).immediate) {
    case wasm::Immediate::kMemoryCopy:
    case wasm::Immediate::kMemoryInit:
    case wasm::Immediate::kTableCopy:
    case wasm::Immediate::kTableInit: return in.index2;
    default: return 0;
  }
}

}  // namespace

// -- memory ---------------------------------------------------------------------------------------------

// The operand of an access. `v` holds the registers until the caller releases it.
Mem FunctionCompiler::address_of(Operand& v, const Instruction& in) {
  return is_far(in.index) ? far_address_of(v, in) : address_of(v, in.mem_offset);
}

// The same in any memory: finds it in the instance, and compares the bounds.
Mem FunctionCompiler::far_address_of(Operand& v, const Instruction& in) {
  const bool is_64 = module_.memories[in.index].type.limits.is_64;
  const Reg from = register_of(v);
  const Reg sum = registers_.is_operand(v) ? from : alloc();
  const Reg memory = alloc(), end = alloc();
  if (in.mem_offset <= INT32_MAX && (!is_64 || in.mem_offset == 0)) {
    a_.lea(Width::k64, sum, {from, static_cast<int32_t>(in.mem_offset)});
  } else {
    a_.mov_imm(end, in.mem_offset);
    if (sum != from) a_.mov(Width::k64, sum, from);
    a_.op(Alu::kAdd, Width::k64, sum, end);
    if (is_64) trap_if(Cond::kB, TrapKind::kMemoryOutOfBounds);
  }
  a_.mov(Width::k64, memory, STATE(memories));
  a_.mov(Width::k64, memory, {memory, static_cast<int32_t>(in.index * 8)});
  a_.mov(Width::k32, end, {memory, static_cast<int32_t>(Memory::pages_at())});
  a_.shift(Shift::kShl, Width::k64, end, std::countr_zero(wasm::kPageBytes));
  a_.op(Alu::kSub, Width::k64, end, 1 << wasm::info(in.op).align);
  trap_if(Cond::kB, TrapKind::kMemoryOutOfBounds);
  a_.op(Alu::kCmp, Width::k64, sum, end);
  trap_if(Cond::kA, TrapKind::kMemoryOutOfBounds);
  a_.op(Alu::kAdd, Width::k64, sum, {memory, static_cast<int32_t>(Memory::base_at())});
  registers_.release(memory);
  registers_.release(end);
  v.kind = Operand::Kind::kRegister;
  v.bank = Bank::kInteger;
  v.number = sum;
  return {sum, 0};
}

Mem FunctionCompiler::address_of(Operand& v, uint64_t displacement) {
  if (v.kind == Operand::Kind::kConstant && v.constant + displacement <= INT32_MAX)
    return {kMemory, static_cast<int32_t>(v.constant + displacement)};
  const Reg r = register_of(v);
  if (displacement <= INT32_MAX) return {kMemory, static_cast<int32_t>(displacement), r, 0};
  const Reg sum = alloc();
  a_.mov_imm(sum, displacement);
  a_.op(Alu::kAdd, Width::k64, sum, r);
  release(v);
  v.kind = Operand::Kind::kRegister;
  v.bank = Bank::kInteger;
  v.number = sum;
  return {kMemory, 0, sum, 0};
}

void FunctionCompiler::load(const Instruction& in, bool real, bool is_f32) {
  Operand v = stack_.pop();
  const Mem m = address_of(v, in);
  if (real) {
    const Pin* const pin = next_pin(Bank::kReal);
    const Xmm to = pin != nullptr ? pin->number : alloc_real();
    a_.fload(kind_of(is_f32), to, m);
    release(v);
    return stack_.push_real(to, is_f32, false);
  }
  const Pin* const pin = next_pin(Bank::kInteger);
  const Reg to = pin != nullptr             ? static_cast<Reg>(pin->number)
                 : registers_.is_operand(v) ? static_cast<Reg>(v.number)
                                            : alloc();
  switch (in.op) {
    case Opcode::kI32Load:
    case Opcode::kI64Load32U: a_.mov(Width::k32, to, m); break;
    case Opcode::kI64Load: a_.mov(Width::k64, to, m); break;
    case Opcode::kI32Load8U:
    case Opcode::kI64Load8U: a_.movzx8(to, m); break;
    case Opcode::kI32Load16U:
    case Opcode::kI64Load16U: a_.movzx16(to, m); break;
    case Opcode::kI32Load8S: a_.movsx8(Width::k32, to, m); break;
    case Opcode::kI32Load16S: a_.movsx16(Width::k32, to, m); break;
    case Opcode::kI64Load8S: a_.movsx8(Width::k64, to, m); break;
    case Opcode::kI64Load16S: a_.movsx16(Width::k64, to, m); break;
    case Opcode::kI64Load32S: a_.movsxd(to, m); break;
    default: fail();
  }
  release_unless(v, to);
  stack_.push_register(to);
}

void FunctionCompiler::store_memory(const Instruction& in, bool real, bool is_f32) {
  Operand value = stack_.pop(), v = stack_.pop();
  if (real && value.kind != Operand::Kind::kConstant) {
    const Xmm x = real_of(value);
    settle_nan(value);
    const Mem m = address_of(v, in);
    a_.fstore(kind_of(is_f32), m, x);
    release(value);
    return release(v);
  }
  const bool wide = in.op == Opcode::kI64Store || in.op == Opcode::kF64Store;
  int32_t constant = 0;
  if (fits(value, wide ? Width::k64 : Width::k32, constant)) {
    const Mem m = address_of(v, in);
    switch (in.op) {
      case Opcode::kI32Store8:
      case Opcode::kI64Store8: a_.store_imm8(m, static_cast<uint8_t>(constant)); break;
      case Opcode::kI32Store16:
      case Opcode::kI64Store16: a_.store_imm16(m, static_cast<uint16_t>(constant)); break;
      default: a_.mov_imm(wide ? Width::k64 : Width::k32, m, constant);
    }
    return release(v);
  }
  value.bank = Bank::kInteger;  // a constant
  const Reg r = register_of(value);
  const Mem m = address_of(v, in);
  switch (in.op) {
    case Opcode::kI32Store8:
    case Opcode::kI64Store8: a_.store8(m, r); break;
    case Opcode::kI32Store16:
    case Opcode::kI64Store16: a_.store16(m, r); break;
    default: a_.mov(wide ? Width::k64 : Width::k32, m, r);
  }
  release(value);
  release(v);
}

// -- variables -------------------------------------------------------------------------------------------

// Entries that name the local take its value before it changes.
void FunctionCompiler::settle_local(uint32_t local) {
  if (stack_.pending_locals() == 0) return;
  for (size_t i = stack_.settled(); i < stack_.size(); ++i) {
    Operand& v = stack_[i];
    if (v.kind != Operand::Kind::kLocal || v.local() != local) continue;
    a_.ensure(Assembler::kRoom);
    const Local& l = locals_[local];
    Operand copy;
    copy.kind = Operand::Kind::kRegister;
    copy.slot = v.slot;
    copy.bank = l.bank;
    copy.is_f32 = l.is_f32;
    stack_.forget_name(v);  // as long as a register is sought for it
    if (l.real()) {
      const Xmm x = alloc_real();
      if (l.pin == kUnpinned) {
        load_slots(x, l.slot, l.bank);
      } else {
        a_.fmov(x, pin_register(l.pin));
        copy.maybe_nan = locals_.now().has_nan(l.pin);
        copy.is_f32 = locals_.nan_is_f32(l.pin);
      }
      copy.number = x;
    } else {
      const Reg r = alloc();
      if (l.pin == kUnpinned) a_.mov_from_slot(r, at_slot(l.slot));
      else a_.mov(Width::k64, r, static_cast<Reg>(pin_register(l.pin)));
      copy.number = r;
    }
    stack_[i] = copy;
  }
}

MEMBRANE_INLINE void FunctionCompiler::move_integer(Reg to, Operand& v) {
  if (const auto memory = memory_of(v)) {
    a_.mov(Width::k64, to, memory);
  } else if (v.kind == Operand::Kind::kConstant) {
    a_.mov_imm(to, v.constant);
  } else if (v.kind == Operand::Kind::kFlags) {
    a_.setcc(static_cast<Cond>(v.number), to);
    a_.movzx8(to, to);
  } else {
    const Reg r = register_of(v);
    if (r != to) a_.mov(Width::k64, to, r);
  }
}

// Whether what is there may be a NaN that is not canonical.
MEMBRANE_INLINE bool FunctionCompiler::move_real(const Pin& to, Operand& v) {
  if (v.kind == Operand::Kind::kSlot) {
    load_slots(to.number, v.slot, v.bank);
  } else if (v.kind == Operand::Kind::kLocal && locals_[v.local()].pin == kUnpinned) {
    load_slots(to.number, locals_[v.local()].slot, v.bank);
  } else if (v.kind == Operand::Kind::kConstant && v.bank == Bank::kVector) {
    constants_.load(a_, to.number, v.constant);
  } else {
    const Xmm x = real_of(v);
    if (x != to.number) a_.fmov(to.number, x);
    return v.maybe_nan;
  }
  return false;
}

void FunctionCompiler::local_set(uint32_t index_of_local, bool keep) {
  const Local& local = locals_[index_of_local];
  Operand v = stack_.pop();
  if (v.kind == Operand::Kind::kFlags && stack_.pending_locals() != 0) register_of(v);
  settle_local(index_of_local);
  if (v.kind == Operand::Kind::kLocal && v.local() == index_of_local) {
    if (keep) stack_.push(v);
    return;
  }
  if (local.pin == kUnpinned) {
    if (!keep || v.kind == Operand::Kind::kConstant) {
      store(v, local.slot);
      if (keep) return stack_.push(v);
      return release(v);
    }
    if (v.kind == Operand::Kind::kSlot)
      local.real() ? static_cast<void>(real_of(v)) : static_cast<void>(register_of(v));
    store(v, local.slot);
    return stack_.push(v);
  }
  const Pin& pin = locals_.pin(local.pin);
  bool nan = false;
  if (pin.real()) nan = move_real(pin, v);
  else move_integer(static_cast<Reg>(pin.number), v);
  release_unless(v, pin.number);
  locals_.now().assign(local.pin, nan, v.is_f32);
  if (keep) stack_.push_local(index_of_local, local.bank, local.is_f32);
}

Reg FunctionCompiler::global_cell(uint32_t global) {
  const Reg r = alloc();
  a_.mov(Width::k64, r, STATE(globals));
  a_.mov(Width::k64, r, {r, static_cast<int32_t>(global * 8)});
  return r;
}

void FunctionCompiler::global_get(uint32_t global) {
  const ValType t = module_.globals[global].type.type;
  const Reg cell = global_cell(global);
  if (bank_of(t) != Bank::kInteger) {
    const Xmm x = alloc_real();
    if (t == ValType::kV128) a_.vload16(x, {cell, kGlobalBits});
    else a_.fload(Real::kF64, x, {cell, kGlobalBits});
    registers_.release(cell);
    return stack_.push_real(x, t == ValType::kF32, false, bank_of(t));
  }
  const Pin* const pin = next_pin(Bank::kInteger);
  const Reg to = pin != nullptr ? static_cast<Reg>(pin->number) : cell;
  a_.mov(Width::k64, to, {cell, kGlobalBits});
  if (to != cell) registers_.release(cell);
  stack_.push_register(to);
}

void FunctionCompiler::global_set(uint32_t global) {
  Operand v = stack_.pop();
  if (v.bank == Bank::kVector || (v.real() && v.kind != Operand::Kind::kConstant)) {
    const Xmm x = real_of(v);
    settle_nan(v);
    const Reg cell = global_cell(global);
    if (v.bank == Bank::kVector) a_.vstore16({cell, kGlobalBits}, x);
    else a_.fstore(Real::kF64, {cell, kGlobalBits}, x);
    registers_.release(cell);
    return release(v);
  }
  v.bank = Bank::kInteger;
  const Reg r = register_of(v);
  const Reg cell = global_cell(global);
  a_.mov(Width::k64, {cell, kGlobalBits}, r);
  registers_.release(cell);
  release(v);
}

void FunctionCompiler::select() {
  const bool real = stack_[stack_.size() - 2].real();
  if (real) settle_flags();  // making room for floats may change the flags
  Operand condition = stack_.pop(), no = stack_.pop(), yes = stack_.pop();
  if (real) return select_real(condition, no, yes);
  const bool flags = condition.kind == Operand::Kind::kFlags;
  const Reg y = register_of(yes), n = register_of(no);
  const Reg to = registers_.is_operand(yes) ? y : alloc();
  if (to != y) a_.mov(Width::k64, to, y);
  const Cond c = flags ? static_cast<Cond>(condition.number) : test_nonzero(condition);
  a_.cmov(inverse(c), Width::k64, to, n);
  release(no);
  release_unless(yes, to);
  stack_.push_register(to);
}

void FunctionCompiler::select_real(Operand& condition, Operand& no, Operand& yes) {
  const Xmm y = real_of(yes), n = real_of(no);
  const bool is_f32 = yes.is_f32;
  const bool nan = yes.maybe_nan && no.maybe_nan && yes.is_f32 == no.is_f32;
  if (!nan) {  // what was computed is made canonical; what was loaded keeps its bits
    settle_nan(yes);
    settle_nan(no);
  }
  const Xmm to = registers_.is_operand(yes) ? y : alloc_real();
  if (to != y) a_.fmov(to, y);
  const Patch keep = a_.jcc(test_nonzero(condition));
  a_.fmov(to, n);
  a_.patch_here(keep);
  release(no);
  release_unless(yes, to);
  stack_.push_real(to, is_f32, nan, yes.bank);
}

Cond FunctionCompiler::test_nonzero(Operand& v) {
  const Reg r = register_of(v);
  a_.test(Width::k32, r, r);
  release(v);
  return Cond::kNE;
}

// -- helpers: what is seldom or long ---------------------------------------------------------------------

void FunctionCompiler::helper(Opcode op, uint32_t first_slot, uint32_t index1, uint32_t index2) {
  const uint32_t start = segments_.is_charged() ? segments_.charge_at() : a_.here();
  a_.call(STATE(exit_helper));
  note_exit();
  HelperCall call{static_cast<uint16_t>(op), static_cast<uint16_t>(first_slot), index1, index2,
                  a_.here() - start};
  std::array<uint8_t, sizeof call> bytes{};
  std::memcpy(bytes.data(), &call, sizeof call);
  a_.bytes(bytes.data(), bytes.size());
}

// Operands go to their slots; the result comes in the first one's.
void FunctionCompiler::simple_helper(const Instruction& in, size_t operands, std::optional<ValType> result) {
  for (size_t i = stack_.size() - operands; i < stack_.size(); ++i) store_entry(stack_[i]);
  cut_stack(stack_.size() - operands);
  helper(in.op, stack_.next_slot(), index_of(in), index2_of(in));
  if (result) stack_.push_slot(*result);
}

size_t FunctionCompiler::bulk_operands(Opcode op) {
  switch (op) {
    case Opcode::kMemoryGrow: return 1;
    case Opcode::kTableGrow: return 2;
    case Opcode::kMemoryFill:
    case Opcode::kMemoryCopy:
    case Opcode::kMemoryInit:
    case Opcode::kTableFill:
    case Opcode::kTableCopy:
    case Opcode::kTableInit: return 3;
    default: return 0;  // beyond this compiler
  }
}

void FunctionCompiler::bulk(const Instruction& in, std::optional<ValType> result) {
  cut_stack(stack_.size() - bulk_operands(in.op));
  helper(in.op, stack_.next_slot(), index_of(in), index2_of(in));
  if (result) stack_.push_slot(*result);
}

void FunctionCompiler::ref_func(uint32_t function_index) {
  const Reg r = alloc();
  if (module_.functions[function_index].import != wasm::kNotImported) {
    a_.mov(Width::k64, r, STATE(imports));
    a_.mov(Width::k64, r, {r, static_cast<int32_t>(function_index * 8)});
  } else {
    const uint32_t own = function_index - module_.imported_function_count();
    a_.mov(Width::k64, r, STATE(own_functions));
    a_.op(Alu::kAdd, Width::k64, r, static_cast<int32_t>(own * sizeof(FunctionInstance)));
  }
  stack_.push_register(r);
}

}  // namespace membrane::engine::native
