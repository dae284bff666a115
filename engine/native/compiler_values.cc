// Values and registers: loading, storing, giving way; NaNs that become canonical.
#include "engine/native/compiler_parts.h"

namespace membrane::engine::native {

// -- registers -------------------------------------------------------------------------------

// The entry that is deepest is needed last.
void Compiler::Parts::evict(bool real, uint32_t except) {
  for (Value& v : unsettled())
    if (v.kind == Value::Kind::kRegister && v.real() == real && !((except >> v.number) & 1))
      return store_entry(v);
  fail();  // cannot happen: operands in hand are fewer than registers
  (real ? free_reals : free_registers) |= real ? operand_reals : operand_registers;
}

// Makes a particular register free for the caller, who then owns it.
void Compiler::Parts::take(Reg r) {
  if (!((free_registers >> r) & 1)) {
    for (Value& v : unsettled())
      if (v.kind == Value::Kind::kRegister && !v.real() && v.number == r) {
        store_entry(v);
        break;
      }
  }
  free_registers &= ~(1u << r);
}

// -- values ------------------------------------------------------------------------------------

void Compiler::Parts::load_pin(uint8_t pin) {
  const Pin& p = pins[pin];
  a.ensure(Assembler::kRoom);
  if (p.real()) load_slots(p.number, p.slot, p.bank);
  else a.mov_from_slot(static_cast<Reg>(p.number), at_slot(p.slot));
  now.valid |= 1u << pin;
  now.dirty &= ~(1u << pin);
  now.nan &= ~(1u << pin);
}

Reg Compiler::Parts::load_into_register(Value& v, uint32_t except) {
  switch (v.kind) {
    case Value::Kind::kRegister: break;  // it is there
    case Value::Kind::kLocal: return load_from(v, locals[v.local()].slot, except);
    case Value::Kind::kSlot: return load_from(v, v.slot, except);
    case Value::Kind::kConstant: {
      const Reg r = alloc(except);
      a.mov_imm_keeping_flags(r, v.constant);
      v.kind = Value::Kind::kRegister;
      v.number = r;
      return r;
    }
    case Value::Kind::kFlags: {
      const Reg r = alloc(except);
      a.setcc(static_cast<Cond>(v.number), r);
      a.movzx8(r, r);
      v.kind = Value::Kind::kRegister;
      v.number = r;
      return r;
    }
  }
  return rax;
}

Reg Compiler::Parts::load_from(Value& v, uint32_t from, uint32_t except) {
  const Reg r = alloc(except);
  a.mov_from_slot(r, at_slot(from));
  v.kind = Value::Kind::kRegister;
  v.number = r;
  return r;
}

Xmm Compiler::Parts::real_of(Value& v, uint32_t except) {
  switch (v.kind) {
    case Value::Kind::kRegister: return v.number;
    case Value::Kind::kLocal: {
      const Local& local = locals[v.local()];
      if (local.pin != kUnpinned) {
        const Xmm x = pinned(local.pin);
        v.maybe_nan = (now.nan >> local.pin) & 1;
        v.is_f32 = nan_is_f32(local.pin);
        return x;
      }
      return load_real_from(v, local.slot, except);
    }
    case Value::Kind::kSlot: return load_real_from(v, v.slot, except);
    default: break;
  }
  const Xmm x = alloc_real(except);
  if (v.bank == Bank::kVector) {
    load_constant(x, v.constant);
  } else if (v.constant == 0) {
    a.fbits(Bits::kXor, x, x, x);
  } else {
    const Reg r = alloc();
    a.mov_imm_keeping_flags(r, v.constant);
    a.fmov_from(Width::k64, x, r);
    free_registers |= 1u << r;
  }
  v.kind = Value::Kind::kRegister;
  v.number = x;
  v.maybe_nan = false;
  return x;
}

Xmm Compiler::Parts::load_real_from(Value& v, uint32_t from, uint32_t except) {
  const Xmm x = alloc_real(except);
  load_slots(x, from, v.bank);
  v.kind = Value::Kind::kRegister;
  v.number = x;
  v.maybe_nan = false;
  return x;
}

// Replaces a NaN in the register by the canonical one.
void Compiler::Parts::make_canonical(Xmm x, bool is_f32, Bank bank) {
  a.ensure(Assembler::kRoom);
  const bool is_vector = bank == Bank::kVector;
  if (is_vector) {
    a.avx(is_f32 ? Avx::kVcmpps : Avx::kVcmppd, kScratch, x, x, kUnordered);
    a.avx(Avx::kVptest, kScratch, 0, kScratch);
  } else {
    a.fcompare(kind_of(is_f32), x, x);
  }
  Stub& stub = add_stub(is_vector ? Stub::Kind::kCanonicalLanes : Stub::Kind::kCanonical);
  stub.from = a.jcc(is_vector ? Cond::kNE : Cond::kP);
  stub.back = a.here();
  stub.number = x;
  stub.is_f32 = is_f32;
}

void Compiler::Parts::make_pin_canonical(uint32_t pin) {
  make_canonical(pins[pin].number, nan_is_f32(pin), pins[pin].bank);
  now.nan &= ~(1u << pin);
}

void Compiler::Parts::settle_nan(Value& v) {  // v is in a register
  if (!v.real()) return;
  if (v.kind == Value::Kind::kLocal) {
    const uint8_t pin = locals[v.local()].pin;
    if (pin == kUnpinned || !((now.nan >> pin) & 1)) return;
    make_pin_canonical(pin);
  } else if (v.maybe_nan) {
    make_canonical(v.number, v.is_f32, v.bank);
  }
  v.maybe_nan = false;
}

// Writes the value to a slot.
void Compiler::Parts::store(Value& v, uint32_t to) {
  if (v.kind == Value::Kind::kConstant && v.bank == Bank::kVector) {
    load_constant(kScratch, v.constant);
    return a.vstore16(slot(to), kScratch);
  }
  switch (v.kind) {
    case Value::Kind::kConstant:
      if (static_cast<int64_t>(v.constant) == static_cast<int32_t>(v.constant))
        return a.mov_imm(Width::k64, slot(to), static_cast<int32_t>(v.constant));
      break;
    case Value::Kind::kSlot:
      if (v.slot == to) return;
      break;
    case Value::Kind::kRegister:
      if (v.in_slot && v.slot == to) return;
      break;
    default: break;
  }
  if (v.real() && v.kind != Value::Kind::kConstant) {
    const Xmm x = real_of(v);
    settle_nan(v);
    return store_slots(to, x, v.bank);
  }
  if (v.kind == Value::Kind::kConstant) {  // also of a float: it stays a constant for whoever has it
    const Reg r = alloc();
    a.mov_imm_keeping_flags(r, v.constant);
    a.mov_to_slot(at_slot(to), r);
    free_registers |= 1u << r;
    return;
  }
  a.mov_to_slot(at_slot(to), register_of(v));
}

// Writes an entry of the stack to its own slot, and gives its register back.
void Compiler::Parts::store_entry(Value& v) {
  if (v.kind == Value::Kind::kSlot) return;
  a.ensure(Assembler::kRoom);
  const bool was_local = v.kind == Value::Kind::kLocal;
  store(v, v.slot);
  release(v);
  if (was_local) --pending_locals;
  v.kind = Value::Kind::kSlot;
  v.in_slot = v.maybe_nan = false;
}

void Compiler::Parts::settle_from(size_t first) {
  for (size_t i = std::max(first, settled); i < stack.size(); ++i) store_entry(stack[i]);
  if (first <= settled) settled = stack.size();
}

// Before a call: entries keep no registers. Names of locals and constants may stay.
void Compiler::Parts::settle_for_call(size_t first_argument) {
  for (size_t i = settled; i < stack.size(); ++i) {
    Value& v = stack[i];
    if (i >= first_argument || v.kind == Value::Kind::kRegister || v.kind == Value::Kind::kFlags)
      store_entry(v);
  }
  settle_pins();
}

void Compiler::Parts::store_pin(uint32_t pin) {
  a.ensure(Assembler::kRoom);
  const Pin& p = pins[pin];
  if (p.real()) {
    if ((now.nan >> pin) & 1) make_pin_canonical(pin);
    store_slots(p.slot, p.number, p.bank);
  } else {
    a.mov_to_slot(at_slot(p.slot), static_cast<Reg>(p.number));
  }
  now.dirty &= ~(1u << pin);
  now.nan &= ~(1u << pin);
}

void Compiler::Parts::settle_pins() {
  for (uint32_t left = now.dirty; left != 0; left &= left - 1)
    store_pin(static_cast<uint32_t>(std::countr_zero(left)));
  now = {};
}

}  // namespace membrane::engine::native
