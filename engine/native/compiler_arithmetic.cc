// Arithmetic on integers and floats.
#include "engine/native/compiler_parts.h"

namespace membrane::engine::native {

// -- integers ----------------------------------------------------------------------------------------

Mem Compiler::Parts::memory_of(const Value& v) const {
  if (v.kind == Value::Kind::kSlot) return slot(v.slot);
  if (v.kind == Value::Kind::kLocal && locals[v.local()].pin == kUnpinned)
    return slot(locals[v.local()].slot);
  return {};
}

Compiler::Parts::Operands Compiler::Parts::take_operands(Width w, bool commutes) {
  Operands o;
  o.second = pop();
  o.first = pop();
  if (commutes) order(o.first, o.second);
  o.is_constant = fits(o.second, w, o.constant);
  if (!o.is_constant) o.memory = memory_of(o.second);
  const bool in_register = !o.is_constant && !o.memory;
  if (in_register) o.other = register_of(o.second);
  o.from = register_of(o.first);
  o.to = destination(o.first, in_register ? &o.second : nullptr);
  return o;
}

// A constant comes second; a register that may be overwritten comes first; and what is in the register of the
// result, too.
void Compiler::Parts::order(Value& first, Value& second) const {
  if (first.kind == Value::Kind::kConstant) std::swap(first, second);
  if (!is_operand_register(first) && is_operand_register(second)) std::swap(first, second);
  if (const Pin* const pin = next_pin(Bank::kInteger);
      pin != nullptr && in_register(&second, pin->number, *this))
    std::swap(first, second);
}

void Compiler::Parts::give_result(const Operands& o) {
  release(o.second);
  release_unless(o.first, o.to);
  push_register(o.to);
}

void Compiler::Parts::alu(Alu op, Width w) {
  const Operands o = take_operands(w, op != Alu::kSub);
  if (op == Alu::kAdd && o.to != o.from && !o.memory) {
    if (o.is_constant) a.lea(w, o.to, {o.from, o.constant});
    else a.lea(w, o.to, {o.from, 0, o.other, 0});
  } else {
    if (o.to != o.from) a.mov(w, o.to, o.from);
    if (o.is_constant) a.op(op, w, o.to, o.constant);
    else if (o.memory) a.op(op, w, o.to, o.memory);
    else a.op(op, w, o.to, o.other);
  }
  give_result(o);
}

void Compiler::Parts::multiply(Width w) {
  const Operands o = take_operands(w, true);
  if (o.is_constant) {
    a.imul(w, o.to, o.from, o.constant);
  } else {
    if (o.to != o.from) a.mov(w, o.to, o.from);
    if (o.memory) a.imul(w, o.to, o.memory);
    else a.imul(w, o.to, o.other);
  }
  give_result(o);
}

void Compiler::Parts::shift(Shift s, Width w) {
  Value second = pop(), first = pop();
  const uint8_t mask = w == Width::k64 ? 63 : 31;
  if (second.kind == Value::Kind::kConstant) {
    const auto count = static_cast<uint8_t>(second.constant & mask);
    const Reg from = register_of(first);
    const Reg to = destination(first, nullptr);
    if (to != from && (s == Shift::kRol || s == Shift::kRor)) {
      a.rorx(w, to, from, s == Shift::kRor ? count : static_cast<uint8_t>((mask + 1 - count) & mask));
    } else {
      if (to != from) a.mov(w, to, from);
      a.shift(s, w, to, count);
    }
    release_unless(first, to);
    return push_register(to);
  }
  if (s == Shift::kRol || s == Shift::kRor) return rotate(s, w, first, second);
  const Reg count = register_of(second);
  const Reg from = register_of(first);
  const Pin* const pin = next_pin(Bank::kInteger);  // no flags and three operands: any register will do
  const Reg to = pin != nullptr               ? static_cast<Reg>(pin->number)
                 : is_operand_register(first) ? static_cast<Reg>(first.number)
                                              : alloc();
  a.shiftx(s, w, to, from, count);
  release(second);
  release_unless(first, to);
  push_register(to);
}

// The count of a rotation by a variable is in cl.
void Compiler::Parts::rotate(Shift s, Width w, Value first, Value second) {
  Reg from = register_of(first, 1u << rcx);
  if (from == rcx) {  // it was there already
    const Reg other = alloc(1u << rcx);
    a.mov(Width::k64, other, rcx);
    free_registers |= 1u << rcx;
    first.number = other;
    from = other;
  }
  const Reg count = register_of(second);
  if (count != rcx) {
    take(rcx);
    a.mov(Width::k32, rcx, count);
  }
  const bool own = is_operand_register(first);
  const Reg to = own ? from : alloc();
  if (to != from) a.mov(w, to, from);
  a.shift_cl(s, w, to);
  release(second);
  free_registers |= 1u << rcx;
  push_register(to);
}

void Compiler::Parts::divide(Width w, bool is_signed, bool remainder) {
  Value second = pop(), first = pop();
  const bool known = second.kind == Value::Kind::kConstant && second.constant != 0 &&
                     (w == Width::k32 ? static_cast<uint32_t>(second.constant) != UINT32_MAX
                                      : second.constant != UINT64_MAX);
  constexpr uint32_t kFixed = 1u << rax | 1u << rdx;
  Reg by = register_of(second, kFixed);
  if (by == rax || by == rdx) {
    const Reg other = alloc(kFixed);
    a.mov(Width::k64, other, by);
    free_registers |= 1u << by;
    second.number = other;
    by = other;
  }
  const Reg from = register_of(first, kFixed & ~(1u << rax));
  if (from != rax) {
    take(rax);
    a.mov(Width::k64, rax, from);
    release(first);
  }
  take(rdx);
  if (!known) {
    a.test(w, by, by);
    trap_if(Cond::kE, TrapKind::kIntegerDivideByZero);
  }
  if (!is_signed) {
    a.mov_imm(rdx, 0);
    a.div(w, by);
  } else if (known) {
    a.sign_extend_rax(w);
    a.idiv(w, by);
  } else {
    a.op(Alu::kCmp, w, by, -1);
    const Patch minus_one = a.jcc(Cond::kE);
    a.sign_extend_rax(w);
    a.idiv(w, by);
    const Patch done = a.jmp();
    a.patch_here(minus_one);
    if (remainder) {
      a.mov_imm(rdx, 0);
    } else {
      a.neg(w, rax);
      trap_if(Cond::kO, TrapKind::kIntegerOverflow);
    }
    a.patch_here(done);
  }
  release(second);
  free_registers |= 1u << (remainder ? rax : rdx);
  push_register(remainder ? rdx : rax);
}

void Compiler::Parts::compare(Width w, Cond c) {
  Value second = pop(), first = pop();
  if (first.kind == Value::Kind::kConstant && second.kind != Value::Kind::kConstant) {
    std::swap(first, second);
    c = swapped(c);
  }
  int32_t constant = 0;
  if (fits(second, w, constant)) {
    const Reg r = register_of(first);
    if (constant == 0 && (c == Cond::kE || c == Cond::kNE || c == Cond::kL || c == Cond::kGE))
      a.test(w, r, r);
    else a.op(Alu::kCmp, w, r, constant);
  } else if (const Mem memory = memory_of(second)) {
    a.op(Alu::kCmp, w, register_of(first), memory);
  } else {
    const Reg r = register_of(second);
    a.op(Alu::kCmp, w, register_of(first), r);
  }
  release(first);
  release(second);
  push_flags(c);
}

void Compiler::Parts::is_zero(Width w) {
  if (has_flags()) {
    stack.back().number ^= 1;
    return;
  }
  Value v = pop();
  const Reg r = register_of(v);
  a.test(w, r, r);
  release(v);
  push_flags(Cond::kE);
}

// -- floats -------------------------------------------------------------------------------------------

void Compiler::Parts::float_binary(Float o, bool is_f32) {
  Value second = pop(), first = pop();
  const bool commutes = o == Float::kAdd || o == Float::kMul;
  if (commutes && !is_operand_register(first) && is_operand_register(second)) std::swap(first, second);
  if (commutes && memory_of(first) && !memory_of(second)) std::swap(first, second);
  const Mem memory = memory_of(second);
  if (!memory) real_of(second);
  const Xmm from = real_of(first);
  const Xmm to = destination_real(first);
  if (memory) a.fop(o, kind_of(is_f32), to, from, memory);
  else a.fop(o, kind_of(is_f32), to, from, real_of(second));
  release_unless(second, to);
  release_unless(first, to);
  push_real(to, is_f32, true);
}

// min gives the second operand when one is NaN or both are zero: done both ways, the bits combine to what
// WebAssembly asks for, but for the NaN's payload.
void Compiler::Parts::float_extreme(bool is_max, bool is_f32) {
  Value second = pop(), first = pop();
  const Real r = kind_of(is_f32);
  const Xmm y = real_of(second), x = real_of(first);
  const Xmm other = alloc_real(), to = alloc_real();
  const Float o = is_max ? Float::kMax : Float::kMin;
  a.fop(o, r, other, x, y);
  a.fop(o, r, to, y, x);
  if (is_max) {
    a.fbits(Bits::kXor, other, other, to);
    a.fbits(Bits::kOr, to, to, other);
    a.fop(Float::kSub, r, to, to, other);
  } else {
    a.fbits(Bits::kOr, to, to, other);
  }
  free_reals |= 1u << other;
  release(second);
  release(first);
  push_real(to, is_f32, true);
}

void Compiler::Parts::float_sign(Bits o, const Mem& mask, bool is_f32) {
  Value v = pop();
  const Xmm from = real_of(v);
  settle_nan(v);
  const Xmm to = destination_real(v);
  a.fbits(o, to, from, mask);
  release_unless(v, to);
  push_real(to, is_f32, false);
}

void Compiler::Parts::copysign(bool is_f32) {
  Value second = pop(), first = pop();
  const Xmm sign = real_of(second);
  settle_nan(second);
  const Xmm x = real_of(first);
  settle_nan(first);
  const Xmm other = alloc_real(), to = alloc_real();
  a.fbits(Bits::kAnd, other, sign, constant_at(offsetof(NativeState, sign_bit), is_f32));
  a.fbits(Bits::kAnd, to, x, constant_at(offsetof(NativeState, magnitude), is_f32));
  a.fbits(Bits::kOr, to, to, other);
  free_reals |= 1u << other;
  release(second);
  release(first);
  push_real(to, is_f32, false);
}

// Conditions that are true for NaN are never asked for: the operands are swapped instead.
void Compiler::Parts::float_compare(Opcode op, bool is_f32) {
  Value second = pop(), first = pop();
  const auto is = [&](Opcode f32, Opcode f64) { return op == f32 || op == f64; };
  if (is(Opcode::kF32Eq, Opcode::kF64Eq) || is(Opcode::kF32Ne, Opcode::kF64Ne)) {
    const Xmm y = real_of(second), x = real_of(first);
    const Xmm mask = alloc_real();
    a.fcompare_mask(kind_of(is_f32), mask, x, y, is(Opcode::kF32Eq, Opcode::kF64Eq) ? 0 : 4);
    const Reg r = alloc();
    a.fmov_to(Width::k32, r, mask);
    a.op(Alu::kAnd, Width::k32, r, 1);
    free_reals |= 1u << mask;
    release(second);
    release(first);
    return push_register(r);
  }
  const bool less = is(Opcode::kF32Lt, Opcode::kF64Lt) || is(Opcode::kF32Le, Opcode::kF64Le);
  if (less) std::swap(first, second);
  const bool or_equal = is(Opcode::kF32Le, Opcode::kF64Le) || is(Opcode::kF32Ge, Opcode::kF64Ge);
  if (const Mem memory = memory_of(second)) {
    a.fcompare(kind_of(is_f32), real_of(first), memory);
  } else {
    const Xmm y = real_of(second);
    a.fcompare(kind_of(is_f32), real_of(first), y);
  }
  release(second);
  release(first);
  push_flags(or_equal ? Cond::kAE : Cond::kA);
}

void Compiler::Parts::int_to_float(Width w, bool is_f32) {
  Value v = pop();
  const Reg r = register_of(v);
  const Pin* const pin = next_pin(Bank::kReal);
  const Xmm to = pin != nullptr ? pin->number : alloc_real();
  a.int_to_float(kind_of(is_f32), w, to, r);
  release(v);
  push_real(to, is_f32, false);
}

// Truncation to a signed integer by the processor, which marks what does not fit by the smallest number;
// a helper then tells those apart that are right.
void Compiler::Parts::truncate_checked(bool from_f32, bool is_signed) {
  Value v = pop();
  const Xmm x = real_of(v);
  const Reg r = alloc();
  a.float_to_int(kind_of(from_f32), Width::k64, r, x);
  const Reg check = alloc();
  if (is_signed) a.movsxd(check, r);
  else a.mov(Width::k32, check, r);
  a.op(Alu::kCmp, Width::k64, check, r);
  // NaN is told from what is too large by comparing it with itself, off the hot path.
  const Patch fine = a.jcc(Cond::kE);
  a.fcompare(kind_of(from_f32), x, x);
  trap_if(Cond::kP, TrapKind::kInvalidConversion);
  trap(TrapKind::kIntegerOverflow);
  a.patch_here(fine);
  if (is_signed) a.mov(Width::k32, r, r);
  free_registers |= 1u << check;
  release(v);
  push_register(r);
}

void Compiler::Parts::demote() {
  float_unary(true, true, [this](Xmm to, Xmm from) {
    const Xmm zero = alloc_real();
    a.fbits(Bits::kXor, zero, zero, zero);
    a.convert_real(Real::kF64, to, zero, from);  // the upper part comes from the middle operand
    free_reals |= 1u << zero;
  });
}

void Compiler::Parts::real_to_bits(Width w) {
  Value v = pop();
  if (v.kind == Value::Kind::kConstant) return push_constant(v.constant);
  const Xmm x = real_of(v);
  settle_nan(v);
  const Reg r = alloc();
  a.fmov_to(w, r, x);
  release(v);
  push_register(r);
}

void Compiler::Parts::bits_to_real(Width w) {
  Value v = pop();
  if (v.kind == Value::Kind::kConstant) return push_constant(v.constant, Bank::kReal, w == Width::k32);
  const Reg r = register_of(v);
  const Xmm x = alloc_real();
  a.fmov_from(w, x, r);
  release(v);
  push_real(x, w == Width::k32, false);
}

}  // namespace membrane::engine::native
