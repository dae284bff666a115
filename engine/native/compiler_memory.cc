// Memory, locals, globals, select, and calls of helpers.
#include "engine/native/compiler_parts.h"

namespace membrane::engine::native {

namespace {

// What the instruction has; what else stands in an Instruction is left from one before it.
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
Mem Compiler::Parts::address_of(Value& v, const Instruction& in) {
  return is_far(in.index) ? far_address_of(v, in) : address_of(v, in.mem_offset);
}

// The same in any memory: finds it in the instance, and compares the bounds.
Mem Compiler::Parts::far_address_of(Value& v, const Instruction& in) {
  const bool is_64 = module.memories[in.index].type.limits.is_64;
  const Reg from = register_of(v);
  const Reg sum = is_operand_register(v) ? from : alloc();
  const Reg memory = alloc(), end = alloc();
  if (in.mem_offset <= INT32_MAX && (!is_64 || in.mem_offset == 0)) {
    a.lea(Width::k64, sum, {from, static_cast<int32_t>(in.mem_offset)});
  } else {
    a.mov_imm(end, in.mem_offset);
    if (sum != from) a.mov(Width::k64, sum, from);
    a.op(Alu::kAdd, Width::k64, sum, end);
    if (is_64) trap_if(Cond::kB, TrapKind::kMemoryOutOfBounds);
  }
  a.mov(Width::k64, memory, STATE(memories));
  a.mov(Width::k64, memory, {memory, static_cast<int32_t>(in.index * 8)});
  a.mov(Width::k32, end, {memory, static_cast<int32_t>(Memory::pages_at())});
  a.shift(Shift::kShl, Width::k64, end, std::countr_zero(wasm::kPageBytes));
  a.op(Alu::kSub, Width::k64, end, 1 << wasm::info(in.op).align);
  trap_if(Cond::kB, TrapKind::kMemoryOutOfBounds);
  a.op(Alu::kCmp, Width::k64, sum, end);
  trap_if(Cond::kA, TrapKind::kMemoryOutOfBounds);
  a.op(Alu::kAdd, Width::k64, sum, {memory, static_cast<int32_t>(Memory::base_at())});
  free_registers |= 1u << memory | 1u << end;
  v.kind = Value::Kind::kRegister;
  v.bank = Bank::kInteger;
  v.number = sum;
  return {sum, 0};
}

Mem Compiler::Parts::address_of(Value& v, uint64_t displacement) {
  if (v.kind == Value::Kind::kConstant && v.constant + displacement <= INT32_MAX)
    return {kMemory, static_cast<int32_t>(v.constant + displacement)};
  const Reg r = register_of(v);
  if (displacement <= INT32_MAX) return {kMemory, static_cast<int32_t>(displacement), r, 0};
  const Reg sum = alloc();
  a.mov_imm(sum, displacement);
  a.op(Alu::kAdd, Width::k64, sum, r);
  release(v);
  v.kind = Value::Kind::kRegister;
  v.bank = Bank::kInteger;
  v.number = sum;
  return {kMemory, 0, sum, 0};
}

void Compiler::Parts::load(const Instruction& in, bool real, bool is_f32) {
  Value v = pop();
  const Mem m = address_of(v, in);
  if (real) {
    const Pin* const pin = next_pin(Bank::kReal);
    const Xmm to = pin != nullptr ? pin->number : alloc_real();
    a.fload(kind_of(is_f32), to, m);
    release(v);
    return push_real(to, is_f32, false);
  }
  const Pin* const pin = next_pin(Bank::kInteger);
  const Reg to = pin != nullptr           ? static_cast<Reg>(pin->number)
                 : is_operand_register(v) ? static_cast<Reg>(v.number)
                                          : alloc();
  switch (in.op) {
    case Opcode::kI32Load:
    case Opcode::kI64Load32U: a.mov(Width::k32, to, m); break;
    case Opcode::kI64Load: a.mov(Width::k64, to, m); break;
    case Opcode::kI32Load8U:
    case Opcode::kI64Load8U: a.movzx8(to, m); break;
    case Opcode::kI32Load16U:
    case Opcode::kI64Load16U: a.movzx16(to, m); break;
    case Opcode::kI32Load8S: a.movsx8(Width::k32, to, m); break;
    case Opcode::kI32Load16S: a.movsx16(Width::k32, to, m); break;
    case Opcode::kI64Load8S: a.movsx8(Width::k64, to, m); break;
    case Opcode::kI64Load16S: a.movsx16(Width::k64, to, m); break;
    case Opcode::kI64Load32S: a.movsxd(to, m); break;
    default: fail();
  }
  release_unless(v, to);
  push_register(to);
}

void Compiler::Parts::store_memory(const Instruction& in, bool real, bool is_f32) {
  Value value = pop(), v = pop();
  if (real && value.kind != Value::Kind::kConstant) {
    const Xmm x = real_of(value);
    settle_nan(value);
    const Mem m = address_of(v, in);
    a.fstore(kind_of(is_f32), m, x);
    release(value);
    return release(v);
  }
  const bool wide = in.op == Opcode::kI64Store || in.op == Opcode::kF64Store;
  int32_t constant = 0;
  if (fits(value, wide ? Width::k64 : Width::k32, constant)) {
    const Mem m = address_of(v, in);
    switch (in.op) {
      case Opcode::kI32Store8:
      case Opcode::kI64Store8: a.store_imm8(m, static_cast<uint8_t>(constant)); break;
      case Opcode::kI32Store16:
      case Opcode::kI64Store16: a.store_imm16(m, static_cast<uint16_t>(constant)); break;
      default: a.mov_imm(wide ? Width::k64 : Width::k32, m, constant);
    }
    return release(v);
  }
  value.bank = Bank::kInteger;  // a constant
  const Reg r = register_of(value);
  const Mem m = address_of(v, in);
  switch (in.op) {
    case Opcode::kI32Store8:
    case Opcode::kI64Store8: a.store8(m, r); break;
    case Opcode::kI32Store16:
    case Opcode::kI64Store16: a.store16(m, r); break;
    default: a.mov(wide ? Width::k64 : Width::k32, m, r);
  }
  release(value);
  release(v);
}

// -- variables -------------------------------------------------------------------------------------------

// Entries that name the local take its value before it changes.
void Compiler::Parts::settle_local(uint32_t local) {
  if (pending_locals == 0) return;
  for (size_t i = settled; i < stack.size(); ++i) {
    Value& v = stack[i];
    if (v.kind != Value::Kind::kLocal || v.local() != local) continue;
    a.ensure(Assembler::kRoom);
    const Local& l = locals[local];
    --pending_locals;
    Value copy;
    copy.kind = Value::Kind::kRegister;
    copy.slot = v.slot;
    copy.bank = l.bank;
    copy.is_f32 = l.is_f32;
    v.kind = Value::Kind::kSlot;  // as long as a register is sought for it
    if (l.real()) {
      const Xmm x = alloc_real();
      if (l.pin == kUnpinned) {
        load_slots(x, l.slot, l.bank);
      } else {
        a.fmov(x, pinned(l.pin));
        copy.maybe_nan = (now.nan >> l.pin) & 1;
        copy.is_f32 = nan_is_f32(l.pin);
      }
      copy.number = x;
    } else {
      const Reg r = alloc();
      if (l.pin == kUnpinned) a.mov_from_slot(r, at_slot(l.slot));
      else a.mov(Width::k64, r, static_cast<Reg>(pinned(l.pin)));
      copy.number = r;
    }
    stack[i] = copy;
  }
}

void Compiler::Parts::local_set(uint32_t index_of_local, bool keep) {
  const Local& local = locals[index_of_local];
  Value v = pop();
  if (v.kind == Value::Kind::kFlags && pending_locals != 0) register_of(v);
  settle_local(index_of_local);
  if (v.kind == Value::Kind::kLocal && v.local() == index_of_local) {
    if (keep) push(v);
    return;
  }
  if (local.pin == kUnpinned) {
    if (!keep || v.kind == Value::Kind::kConstant) {
      store(v, local.slot);
      if (keep) return push(v);
      return release(v);
    }
    if (v.kind == Value::Kind::kSlot)
      local.real() ? static_cast<void>(real_of(v)) : static_cast<void>(register_of(v));
    store(v, local.slot);
    return push(v);
  }
  const Pin& pin = pins[local.pin];
  const uint32_t bit = 1u << local.pin;
  bool nan = false;
  if (local.real()) {
    if (v.kind == Value::Kind::kSlot) {
      load_slots(pin.number, v.slot, v.bank);
    } else if (v.kind == Value::Kind::kLocal && locals[v.local()].pin == kUnpinned) {
      load_slots(pin.number, locals[v.local()].slot, v.bank);
    } else if (v.kind == Value::Kind::kConstant && v.bank == Bank::kVector) {
      load_constant(pin.number, v.constant);
    } else {
      const Xmm x = real_of(v);
      nan = v.maybe_nan;
      if (x != pin.number) a.fmov(pin.number, x);
    }
  } else {
    const auto to = static_cast<Reg>(pin.number);
    if (const auto memory = memory_of(v)) {
      a.mov(Width::k64, to, memory);
    } else if (v.kind == Value::Kind::kConstant) {
      a.mov_imm(to, v.constant);
    } else if (v.kind == Value::Kind::kFlags) {
      a.setcc(static_cast<Cond>(v.number), to);
      a.movzx8(to, to);
    } else {
      const Reg r = register_of(v);
      if (r != to) a.mov(Width::k64, to, r);
    }
  }
  release_unless(v, pin.number);
  now.valid |= bit;
  now.dirty |= bit;
  now.nan = nan ? now.nan | bit : now.nan & ~bit;
  now.f32 = v.is_f32 ? now.f32 | bit : now.f32 & ~bit;
  if (keep) push_local(index_of_local, local);
}

Reg Compiler::Parts::global_cell(uint32_t global) {
  const Reg r = alloc();
  a.mov(Width::k64, r, STATE(globals));
  a.mov(Width::k64, r, {r, static_cast<int32_t>(global * 8)});
  return r;
}

void Compiler::Parts::global_get(uint32_t global) {
  const ValType t = module.globals[global].type.type;
  const Reg cell = global_cell(global);
  if (bank_of(t) != Bank::kInteger) {
    const Xmm x = alloc_real();
    if (t == ValType::kV128) a.vload16(x, {cell, kGlobalBits});
    else a.fload(Real::kF64, x, {cell, kGlobalBits});
    free_registers |= 1u << cell;
    return push_real(x, t == ValType::kF32, false, bank_of(t));
  }
  const Pin* const pin = next_pin(Bank::kInteger);
  const Reg to = pin != nullptr ? static_cast<Reg>(pin->number) : cell;
  a.mov(Width::k64, to, {cell, kGlobalBits});
  if (to != cell) free_registers |= 1u << cell;
  push_register(to);
}

void Compiler::Parts::global_set(uint32_t global) {
  Value v = pop();
  if (v.bank == Bank::kVector || (v.real() && v.kind != Value::Kind::kConstant)) {
    const Xmm x = real_of(v);
    settle_nan(v);
    const Reg cell = global_cell(global);
    if (v.bank == Bank::kVector) a.vstore16({cell, kGlobalBits}, x);
    else a.fstore(Real::kF64, {cell, kGlobalBits}, x);
    free_registers |= 1u << cell;
    return release(v);
  }
  v.bank = Bank::kInteger;
  const Reg r = register_of(v);
  const Reg cell = global_cell(global);
  a.mov(Width::k64, {cell, kGlobalBits}, r);
  free_registers |= 1u << cell;
  release(v);
}

void Compiler::Parts::select() {
  const bool real = stack[stack.size() - 2].real();
  if (real) settle_flags();  // making room for floats may change the flags
  Value condition = pop(), no = pop(), yes = pop();
  if (real) return select_real(condition, no, yes);
  const bool flags = condition.kind == Value::Kind::kFlags;
  const Reg y = register_of(yes), n = register_of(no);
  const Reg to = is_operand_register(yes) ? y : alloc();
  if (to != y) a.mov(Width::k64, to, y);
  const Cond c = flags ? static_cast<Cond>(condition.number) : test_nonzero(condition);
  a.cmov(inverse(c), Width::k64, to, n);
  release(no);
  release_unless(yes, to);
  push_register(to);
}

void Compiler::Parts::select_real(Value& condition, Value& no, Value& yes) {
  const Xmm y = real_of(yes), n = real_of(no);
  const bool is_f32 = yes.is_f32;
  const bool nan = yes.maybe_nan && no.maybe_nan && yes.is_f32 == no.is_f32;
  if (!nan) {  // what was computed is made canonical; what was loaded keeps its bits
    settle_nan(yes);
    settle_nan(no);
  }
  const Xmm to = is_operand_register(yes) ? y : alloc_real();
  if (to != y) a.fmov(to, y);
  const Patch keep = a.jcc(test_nonzero(condition));
  a.fmov(to, n);
  a.patch_here(keep);
  release(no);
  release_unless(yes, to);
  push_real(to, is_f32, nan, yes.bank);
}

Cond Compiler::Parts::test_nonzero(Value& v) {
  const Reg r = register_of(v);
  a.test(Width::k32, r, r);
  release(v);
  return Cond::kNE;
}

// -- helpers: what is seldom or long ---------------------------------------------------------------------

void Compiler::Parts::helper(Opcode op, uint32_t first_slot, uint32_t index1, uint32_t index2) {
  const uint32_t start = charge == kNone ? a.here() : charge - Charge::kSubtractBytes;
  a.call(STATE(exit_helper));
  note_exit();
  HelperCall call{static_cast<uint16_t>(op), static_cast<uint16_t>(first_slot), index1, index2,
                  a.here() - start};
  std::array<uint8_t, sizeof call> bytes{};
  std::memcpy(bytes.data(), &call, sizeof call);
  a.bytes(bytes.data(), bytes.size());
}

// Operands go to their slots; the result comes in the first one's.
void Compiler::Parts::simple_helper(const Instruction& in, size_t operands, std::optional<ValType> result) {
  for (size_t i = stack.size() - operands; i < stack.size(); ++i) store_entry(stack[i]);
  cut_stack(stack.size() - operands);
  helper(in.op, top_slot(), index_of(in), index2_of(in));
  if (result) push_slot(*result);
}

size_t Compiler::Parts::bulk_operands(Opcode op) {
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

void Compiler::Parts::bulk(const Instruction& in, std::optional<ValType> result) {
  cut_stack(stack.size() - bulk_operands(in.op));
  helper(in.op, top_slot(), index_of(in), index2_of(in));
  if (result) push_slot(*result);
}

void Compiler::Parts::ref_func(uint32_t function_index) {
  const Reg r = alloc();
  if (module.functions[function_index].import != wasm::kNotImported) {
    a.mov(Width::k64, r, STATE(imports));
    a.mov(Width::k64, r, {r, static_cast<int32_t>(function_index * 8)});
  } else {
    const uint32_t own = function_index - module.imported_function_count();
    a.mov(Width::k64, r, STATE(own_functions));
    a.op(Alu::kAdd, Width::k64, r, static_cast<int32_t>(own * sizeof(FunctionInstance)));
  }
  push_register(r);
}

}  // namespace membrane::engine::native
