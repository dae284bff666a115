// Values and registers: loading, storing, giving way; NaNs that become canonical.
#include "engine/native/function_compiler.h"

namespace membrane::engine::native {

// -- registers -------------------------------------------------------------------------------

// The entry that is deepest is needed last.
void FunctionCompiler::evict(bool real, RegisterSet except) {
  for (Operand& v : stack_.unsettled())
    if (v.kind == Operand::Kind::kRegister && v.real() == real && (except & set_of(v.number)) == 0)
      return store_entry(v);
  fail();  // cannot happen: operands in hand are fewer than registers
  if (real) registers_.release_reals();
  else registers_.release_integers();
}

// Makes a particular register free for the caller, who then owns it.
void FunctionCompiler::take(Reg r) {
  if (!registers_.is_free(r)) {
    for (Operand& v : stack_.unsettled())
      if (v.kind == Operand::Kind::kRegister && !v.real() && v.number == r) {
        store_entry(v);
        break;
      }
  }
  registers_.take(r);
}

// -- values ------------------------------------------------------------------------------------

void FunctionCompiler::load_pin(uint8_t pin) {
  const Pin& p = locals_.pin(pin);
  a_.ensure(Assembler::kRoom);
  if (p.real()) load_slots(p.number, p.slot, p.bank);
  else a_.mov_from_slot(static_cast<Reg>(p.number), at_slot(p.slot));
  locals_.now().load(pin);
}

Reg FunctionCompiler::load_into_register(Operand& v, RegisterSet except) {
  switch (v.kind) {
    case Operand::Kind::kRegister: break;  // it is there
    case Operand::Kind::kLocal: return load_from(v, locals_[v.local()].slot, except);
    case Operand::Kind::kSlot: return load_from(v, v.slot, except);
    case Operand::Kind::kConstant: {
      const Reg r = alloc(except);
      a_.mov_imm_keeping_flags(r, v.constant);
      v.kind = Operand::Kind::kRegister;
      v.number = r;
      return r;
    }
    case Operand::Kind::kFlags: {
      const Reg r = alloc(except);
      a_.setcc(static_cast<Cond>(v.number), r);
      a_.movzx8(r, r);
      v.kind = Operand::Kind::kRegister;
      v.number = r;
      return r;
    }
  }
  return rax;
}

Reg FunctionCompiler::load_from(Operand& v, uint32_t from, RegisterSet except) {
  const Reg r = alloc(except);
  a_.mov_from_slot(r, at_slot(from));
  v.kind = Operand::Kind::kRegister;
  v.number = r;
  return r;
}

Xmm FunctionCompiler::real_of(Operand& v, RegisterSet except) {
  switch (v.kind) {
    case Operand::Kind::kRegister: return v.number;
    case Operand::Kind::kLocal: {
      const Local& local = locals_[v.local()];
      if (local.pin != kUnpinned) {
        const Xmm x = pin_register(local.pin);
        v.maybe_nan = locals_.now().has_nan(local.pin);
        v.is_f32 = locals_.nan_is_f32(local.pin);
        return x;
      }
      return load_real_from(v, local.slot, except);
    }
    case Operand::Kind::kSlot: return load_real_from(v, v.slot, except);
    default: break;
  }
  const Xmm x = alloc_real(except);
  if (v.bank == Bank::kVector) {
    constants_.load(a_, x, v.constant);
  } else if (v.constant == 0) {
    a_.fbits(Bits::kXor, x, x, x);
  } else {
    const Reg r = alloc();
    a_.mov_imm_keeping_flags(r, v.constant);
    a_.fmov_from(Width::k64, x, r);
    registers_.release(r);
  }
  v.kind = Operand::Kind::kRegister;
  v.number = x;
  v.maybe_nan = false;
  return x;
}

Xmm FunctionCompiler::load_real_from(Operand& v, uint32_t from, RegisterSet except) {
  const Xmm x = alloc_real(except);
  load_slots(x, from, v.bank);
  v.kind = Operand::Kind::kRegister;
  v.number = x;
  v.maybe_nan = false;
  return x;
}

// Replaces a NaN in the register by the canonical one.
void FunctionCompiler::make_canonical(Xmm x, bool is_f32, Bank bank) {
  a_.ensure(Assembler::kRoom);
  const bool is_vector = bank == Bank::kVector;
  if (is_vector) {
    a_.avx(is_f32 ? Avx::kVcmpps : Avx::kVcmppd, kScratch, x, x, kUnordered);
    a_.avx(Avx::kVptest, kScratch, 0, kScratch);
  } else {
    a_.fcompare(kind_of(is_f32), x, x);
  }
  const Patch from = a_.jcc(is_vector ? Cond::kNE : Cond::kP);
  stubs_.add_canonical(x, is_f32, is_vector, from, a_.here());
}

void FunctionCompiler::make_pin_canonical(uint32_t pin) {
  make_canonical(locals_.pin(pin).number, locals_.nan_is_f32(pin), locals_.pin(pin).bank);
  locals_.now().make_canonical(pin);
}

void FunctionCompiler::settle_nan(Operand& v) {  // v is in a register
  if (!v.real()) return;
  if (v.kind == Operand::Kind::kLocal) {
    const uint8_t pin = locals_[v.local()].pin;
    if (pin == kUnpinned || !locals_.now().has_nan(pin)) return;
    make_pin_canonical(pin);
  } else if (v.maybe_nan) {
    make_canonical(v.number, v.is_f32, v.bank);
  }
  v.maybe_nan = false;
}

// Writes the value to a slot.
void FunctionCompiler::store(Operand& v, uint32_t to) {
  if (v.kind == Operand::Kind::kConstant && v.bank == Bank::kVector) {
    constants_.load(a_, kScratch, v.constant);
    return a_.vstore16(slot(to), kScratch);
  }
  switch (v.kind) {
    case Operand::Kind::kConstant:
      if (static_cast<int64_t>(v.constant) == static_cast<int32_t>(v.constant))
        return a_.mov_imm(Width::k64, slot(to), static_cast<int32_t>(v.constant));
      break;
    case Operand::Kind::kSlot:
      if (v.slot == to) return;
      break;
    case Operand::Kind::kRegister:
      if (v.in_slot && v.slot == to) return;
      break;
    default: break;
  }
  if (v.real() && v.kind != Operand::Kind::kConstant) {
    const Xmm x = real_of(v);
    settle_nan(v);
    return store_slots(to, x, v.bank);
  }
  if (v.kind == Operand::Kind::kConstant) {  // also of a float: it stays a constant for its other holders
    const Reg r = alloc();
    a_.mov_imm_keeping_flags(r, v.constant);
    a_.mov_to_slot(at_slot(to), r);
    registers_.release(r);
    return;
  }
  a_.mov_to_slot(at_slot(to), register_of(v));
}

// The same of an entry that stays as it is, also where it keeps a register.
void FunctionCompiler::store_copy(Operand v, uint32_t to) {
  a_.ensure(Assembler::kRoom);
  const bool keeps_register = v.kind == Operand::Kind::kRegister;
  store(v, to);
  if (!keeps_register) release(v);
}

// Writes an entry of the stack to its own slot, and gives its register back.
void FunctionCompiler::store_entry(Operand& v) {
  if (v.kind == Operand::Kind::kSlot) return;
  a_.ensure(Assembler::kRoom);
  const bool was_local = v.kind == Operand::Kind::kLocal;
  store(v, v.slot);
  release(v);
  stack_.put_in_slot(v, was_local);
}

void FunctionCompiler::settle_from(size_t first) {
  for (size_t i = std::max(first, stack_.settled()); i < stack_.size(); ++i) store_entry(stack_[i]);
  if (first <= stack_.settled()) stack_.note_settled();
}

// Before a call: entries keep no registers. Names of locals and constants may stay.
void FunctionCompiler::settle_for_call(size_t first_argument) {
  for (size_t i = stack_.settled(); i < stack_.size(); ++i) {
    Operand& v = stack_[i];
    if (i >= first_argument || v.kind == Operand::Kind::kRegister || v.kind == Operand::Kind::kFlags)
      store_entry(v);
  }
  settle_pins();
}

void FunctionCompiler::store_pin(uint32_t pin) {
  a_.ensure(Assembler::kRoom);
  const Pin& p = locals_.pin(pin);
  if (p.real()) {
    if (locals_.now().has_nan(pin)) make_pin_canonical(pin);
    store_slots(p.slot, p.number, p.bank);
  } else {
    a_.mov_to_slot(at_slot(p.slot), static_cast<Reg>(p.number));
  }
  locals_.now().store(pin);
}

void FunctionCompiler::settle_pins() {
  for (PinSet left = locals_.now().dirty(); left != 0; left &= left - 1)
    store_pin(static_cast<uint32_t>(std::countr_zero(left)));
  locals_.begin_in_slots();
}

}  // namespace membrane::engine::native
