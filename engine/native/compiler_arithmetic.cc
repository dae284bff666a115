// Arithmetic on integers and floats.
#include "engine/native/function_compiler.h"

namespace membrane::engine::native {

// -- integers ----------------------------------------------------------------------------------------

Mem FunctionCompiler::memory_of(const Operand& v) const {
  if (v.kind == Operand::Kind::kSlot) return slot(v.slot);
  if (v.kind == Operand::Kind::kLocal && locals_[v.local()].pin == kUnpinned)
    return slot(locals_[v.local()].slot);
  return {};
}

FunctionCompiler::Operands FunctionCompiler::take_operands(Width w, bool commutes) {
  Operands o;
  o.second = stack_.pop();
  o.first = stack_.pop();
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
void FunctionCompiler::order(Operand& first, Operand& second) const {
  if (first.kind == Operand::Kind::kConstant) std::swap(first, second);
  if (!registers_.is_operand(first) && registers_.is_operand(second)) std::swap(first, second);
  if (const Pin* const pin = next_pin(Bank::kInteger); pin != nullptr && is_in(&second, pin->number))
    std::swap(first, second);
}

void FunctionCompiler::give_result(const Operands& o) {
  release(o.second);
  release_unless(o.first, o.to);
  stack_.push_register(o.to);
}

void FunctionCompiler::alu(Alu op, Width w) {
  const Operands o = take_operands(w, op != Alu::kSub);
  if (op == Alu::kAdd && o.to != o.from && !o.memory) {
    if (o.is_constant) a_.lea(w, o.to, {o.from, o.constant});
    else a_.lea(w, o.to, {o.from, 0, o.other, 0});
  } else {
    if (o.to != o.from) a_.mov(w, o.to, o.from);
    if (o.is_constant) a_.op(op, w, o.to, o.constant);
    else if (o.memory) a_.op(op, w, o.to, o.memory);
    else a_.op(op, w, o.to, o.other);
  }
  give_result(o);
}

void FunctionCompiler::multiply(Width w) {
  const Operands o = take_operands(w, true);
  if (o.is_constant) {
    a_.imul(w, o.to, o.from, o.constant);
  } else {
    if (o.to != o.from) a_.mov(w, o.to, o.from);
    if (o.memory) a_.imul(w, o.to, o.memory);
    else a_.imul(w, o.to, o.other);
  }
  give_result(o);
}

void FunctionCompiler::shift(Shift s, Width w) {
  Operand second = stack_.pop(), first = stack_.pop();
  const uint8_t mask = w == Width::k64 ? 63 : 31;
  if (second.kind == Operand::Kind::kConstant) {
    const auto count = static_cast<uint8_t>(second.constant & mask);
    const Reg from = register_of(first);
    const Reg to = destination(first, nullptr);
    if (to != from && (s == Shift::kRol || s == Shift::kRor)) {
      a_.rorx(w, to, from, s == Shift::kRor ? count : static_cast<uint8_t>((mask + 1 - count) & mask));
    } else {
      if (to != from) a_.mov(w, to, from);
      a_.shift(s, w, to, count);
    }
    release_unless(first, to);
    return stack_.push_register(to);
  }
  if (s == Shift::kRol || s == Shift::kRor) return rotate(s, w, first, second);
  const Reg count = register_of(second);
  const Reg from = register_of(first);
  const Pin* const pin = next_pin(Bank::kInteger);  // no flags and three operands: any register will do
  const Reg to = pin != nullptr                 ? static_cast<Reg>(pin->number)
                 : registers_.is_operand(first) ? static_cast<Reg>(first.number)
                                                : alloc();
  a_.shiftx(s, w, to, from, count);
  release(second);
  release_unless(first, to);
  stack_.push_register(to);
}

// The count of a rotation by a variable is in cl.
void FunctionCompiler::rotate(Shift s, Width w, Operand first, Operand second) {
  Reg from = register_of(first, set_of(rcx));
  if (from == rcx) {  // it was there already
    const Reg other = alloc(set_of(rcx));
    a_.mov(Width::k64, other, rcx);
    registers_.release(rcx);
    first.number = other;
    from = other;
  }
  const Reg count = register_of(second);
  if (count != rcx) {
    take(rcx);
    a_.mov(Width::k32, rcx, count);
  }
  const bool own = registers_.is_operand(first);
  const Reg to = own ? from : alloc();
  if (to != from) a_.mov(w, to, from);
  a_.shift_cl(s, w, to);
  release(second);
  registers_.release(rcx);
  stack_.push_register(to);
}

void FunctionCompiler::divide(Width w, bool is_signed, bool remainder) {
  Operand second = stack_.pop(), first = stack_.pop();
  const bool known = second.kind == Operand::Kind::kConstant && second.constant != 0 &&
                     (w == Width::k32 ? static_cast<uint32_t>(second.constant) != UINT32_MAX
                                      : second.constant != UINT64_MAX);
  constexpr RegisterSet kFixed = set_of(rax, rdx);
  Reg by = register_of(second, kFixed);
  if (by == rax || by == rdx) {
    const Reg other = alloc(kFixed);
    a_.mov(Width::k64, other, by);
    registers_.release(by);
    second.number = other;
    by = other;
  }
  const Reg from = register_of(first, set_of(rdx));
  if (from != rax) {
    take(rax);
    a_.mov(Width::k64, rax, from);
    release(first);
  }
  take(rdx);
  if (!known) {
    a_.test(w, by, by);
    trap_if(Cond::kE, TrapKind::kIntegerDivideByZero);
  }
  if (!is_signed) {
    a_.mov_imm(rdx, 0);
    a_.div(w, by);
  } else if (known) {
    a_.sign_extend_rax(w);
    a_.idiv(w, by);
  } else {
    divide_signed_by_any(w, by, remainder);
  }
  release(second);
  registers_.release(remainder ? rax : rdx);
  stack_.push_register(remainder ? rdx : rax);
}

// The processor faults where the quotient does not fit, which is possible only for -1.
void FunctionCompiler::divide_signed_by_any(Width w, Reg by, bool remainder) {
  a_.op(Alu::kCmp, w, by, -1);
  const Patch minus_one = a_.jcc(Cond::kE);
  a_.sign_extend_rax(w);
  a_.idiv(w, by);
  const Patch done = a_.jmp();
  a_.patch_here(minus_one);
  if (remainder) {
    a_.mov_imm(rdx, 0);
  } else {
    a_.neg(w, rax);
    trap_if(Cond::kO, TrapKind::kIntegerOverflow);
  }
  a_.patch_here(done);
}

void FunctionCompiler::compare(Width w, Cond c) {
  Operand second = stack_.pop(), first = stack_.pop();
  if (first.kind == Operand::Kind::kConstant && second.kind != Operand::Kind::kConstant) {
    std::swap(first, second);
    c = swapped(c);
  }
  int32_t constant = 0;
  if (fits(second, w, constant)) {
    const Reg r = register_of(first);
    if (constant == 0 && (c == Cond::kE || c == Cond::kNE || c == Cond::kL || c == Cond::kGE))
      a_.test(w, r, r);
    else a_.op(Alu::kCmp, w, r, constant);
  } else if (const Mem memory = memory_of(second)) {
    a_.op(Alu::kCmp, w, register_of(first), memory);
  } else {
    const Reg r = register_of(second);
    a_.op(Alu::kCmp, w, register_of(first), r);
  }
  release(first);
  release(second);
  stack_.push_flags(c);
}

void FunctionCompiler::is_zero(Width w) {
  if (stack_.has_flags()) {
    stack_.invert_flags();
    return;
  }
  Operand v = stack_.pop();
  const Reg r = register_of(v);
  a_.test(w, r, r);
  release(v);
  stack_.push_flags(Cond::kE);
}

// -- floats -------------------------------------------------------------------------------------------

void FunctionCompiler::float_binary(Float o, bool is_f32) {
  Operand second = stack_.pop(), first = stack_.pop();
  const bool commutes = o == Float::kAdd || o == Float::kMul;
  if (commutes && !registers_.is_operand(first) && registers_.is_operand(second)) std::swap(first, second);
  if (commutes && memory_of(first) && !memory_of(second)) std::swap(first, second);
  const Mem memory = memory_of(second);
  if (!memory) real_of(second);
  const Xmm from = real_of(first);
  const Xmm to = destination_real(first);
  if (memory) a_.fop(o, kind_of(is_f32), to, from, memory);
  else a_.fop(o, kind_of(is_f32), to, from, real_of(second));
  release_unless(second, to);
  release_unless(first, to);
  stack_.push_real(to, is_f32, true);
}

// min gives the second operand when one is NaN or both are zero: done both ways, the bits combine to what
// WebAssembly asks for, but for the NaN's payload.
void FunctionCompiler::float_extreme(bool is_max, bool is_f32) {
  Operand second = stack_.pop(), first = stack_.pop();
  const Real r = kind_of(is_f32);
  const Xmm y = real_of(second), x = real_of(first);
  const Xmm other = alloc_real(), to = alloc_real();
  const Float o = is_max ? Float::kMax : Float::kMin;
  a_.fop(o, r, other, x, y);
  a_.fop(o, r, to, y, x);
  if (is_max) {
    a_.fbits(Bits::kXor, other, other, to);
    a_.fbits(Bits::kOr, to, to, other);
    a_.fop(Float::kSub, r, to, to, other);
  } else {
    a_.fbits(Bits::kOr, to, to, other);
  }
  registers_.release(other);
  release(second);
  release(first);
  stack_.push_real(to, is_f32, true);
}

void FunctionCompiler::float_sign(Bits o, const Mem& mask, bool is_f32) {
  Operand v = stack_.pop();
  const Xmm from = real_of(v);
  settle_nan(v);
  const Xmm to = destination_real(v);
  a_.fbits(o, to, from, mask);
  release_unless(v, to);
  stack_.push_real(to, is_f32, false);
}

void FunctionCompiler::copysign(bool is_f32) {
  Operand second = stack_.pop(), first = stack_.pop();
  const Xmm sign = real_of(second);
  settle_nan(second);
  const Xmm x = real_of(first);
  settle_nan(first);
  const Xmm other = alloc_real(), to = alloc_real();
  a_.fbits(Bits::kAnd, other, sign, constant_at(offsetof(NativeState, sign_bit), is_f32));
  a_.fbits(Bits::kAnd, to, x, constant_at(offsetof(NativeState, magnitude), is_f32));
  a_.fbits(Bits::kOr, to, to, other);
  registers_.release(other);
  release(second);
  release(first);
  stack_.push_real(to, is_f32, false);
}

// Conditions that are true for NaN are never asked for: the operands are swapped instead.
void FunctionCompiler::float_compare(Opcode op, bool is_f32) {
  Operand second = stack_.pop(), first = stack_.pop();
  const auto is = [&](Opcode f32, Opcode f64) { return op == f32 || op == f64; };
  if (is(Opcode::kF32Eq, Opcode::kF64Eq) || is(Opcode::kF32Ne, Opcode::kF64Ne)) {
    const Xmm y = real_of(second), x = real_of(first);
    const Xmm mask = alloc_real();
    a_.fcompare_mask(kind_of(is_f32), mask, x, y, is(Opcode::kF32Eq, Opcode::kF64Eq) ? 0 : 4);
    const Reg r = alloc();
    a_.fmov_to(Width::k32, r, mask);
    a_.op(Alu::kAnd, Width::k32, r, 1);
    registers_.release(mask);
    release(second);
    release(first);
    return stack_.push_register(r);
  }
  const bool less = is(Opcode::kF32Lt, Opcode::kF64Lt) || is(Opcode::kF32Le, Opcode::kF64Le);
  if (less) std::swap(first, second);
  const bool or_equal = is(Opcode::kF32Le, Opcode::kF64Le) || is(Opcode::kF32Ge, Opcode::kF64Ge);
  if (const Mem memory = memory_of(second)) {
    a_.fcompare(kind_of(is_f32), real_of(first), memory);
  } else {
    const Xmm y = real_of(second);
    a_.fcompare(kind_of(is_f32), real_of(first), y);
  }
  release(second);
  release(first);
  stack_.push_flags(or_equal ? Cond::kAE : Cond::kA);
}

void FunctionCompiler::int_to_float(Width w, bool is_f32) {
  Operand v = stack_.pop();
  const Reg r = register_of(v);
  const Pin* const pin = next_pin(Bank::kReal);
  const Xmm to = pin != nullptr ? pin->number : alloc_real();
  a_.int_to_float(kind_of(is_f32), w, to, r);
  release(v);
  stack_.push_real(to, is_f32, false);
}

// Truncation to a signed integer by the processor, which marks what does not fit by the smallest number;
// a helper then tells those apart that are right.
void FunctionCompiler::truncate_checked(bool from_f32, bool is_signed) {
  Operand v = stack_.pop();
  const Xmm x = real_of(v);
  const Reg r = alloc();
  a_.float_to_int(kind_of(from_f32), Width::k64, r, x);
  const Reg check = alloc();
  if (is_signed) a_.movsxd(check, r);
  else a_.mov(Width::k32, check, r);
  a_.op(Alu::kCmp, Width::k64, check, r);
  // A comparison with itself distinguishes NaN from what is too large, off the hot path.
  const Patch fine = a_.jcc(Cond::kE);
  a_.fcompare(kind_of(from_f32), x, x);
  trap_if(Cond::kP, TrapKind::kInvalidConversion);
  trap(TrapKind::kIntegerOverflow);
  a_.patch_here(fine);
  if (is_signed) a_.mov(Width::k32, r, r);
  registers_.release(check);
  release(v);
  stack_.push_register(r);
}

void FunctionCompiler::demote() {
  float_unary(true, true, [this](Xmm to, Xmm from) {
    const Xmm zero = alloc_real();
    a_.fbits(Bits::kXor, zero, zero, zero);
    a_.convert_real(Real::kF64, to, zero, from);  // the upper part comes from the middle operand
    registers_.release(zero);
  });
}

void FunctionCompiler::real_to_bits(Width w) {
  Operand v = stack_.pop();
  if (v.kind == Operand::Kind::kConstant) return stack_.push_constant(v.constant);
  const Xmm x = real_of(v);
  settle_nan(v);
  const Reg r = alloc();
  a_.fmov_to(w, r, x);
  release(v);
  stack_.push_register(r);
}

void FunctionCompiler::bits_to_real(Width w) {
  Operand v = stack_.pop();
  if (v.kind == Operand::Kind::kConstant)
    return stack_.push_constant(v.constant, Bank::kReal, w == Width::k32);
  const Reg r = register_of(v);
  const Xmm x = alloc_real();
  a_.fmov_from(w, x, r);
  release(v);
  stack_.push_real(x, w == Width::k32, false);
}

}  // namespace membrane::engine::native
