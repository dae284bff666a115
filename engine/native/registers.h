// Which registers compiled code has for what, and which of those for operands are free.
//
// Registers of integers and of reals (SSE registers, of floats and vectors) are two kinds, which the type of an argument
// tells apart: Reg and Xmm.
//
// Invariants of Registers:
//  1. An operand register is free, or has one owner: a value of the stack, or the method that took it or popped its
//     value, which releases it. A value of the stack keeps its register only until the next alloc() or take(), for which
//     FunctionCompiler::evict() may write it to its slot; a popped one until it is released, or until the result
//     takes it (destination()).
//  2. None but operand registers are ever free. Which these are is the same for the whole function: none of them
//     belongs to a pinned local.
//
// Threads: belongs to one compiler.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "engine/native/assembler.h"
#include "engine/native/operand_stack.h"
#include "engine/native/state.h"

namespace membrane::engine::native {

inline constexpr Reg kFrame = rbp, kMemory = rbx, kFuelLeft = r15, kState = r14;
// Locals are pinned to these in order of their weight; what is left over serves operands.
inline constexpr std::array<Reg, 7> kPinnable = {rdi, r8, r9, r10, r11, r12, r13};
inline constexpr uint32_t kFirstPinnableReal = 6, kPinnableReals = 10;
// Of functions that use vectors: never holds a value from one instruction to the next.
inline constexpr Xmm kScratch = kFirstPinnableReal + kPinnableReals - 1;

#define STATE(member) (Mem{kState, static_cast<int32_t>(offsetof(NativeState, member))})

constexpr Real kind_of(bool is_f32) { return is_f32 ? Real::kF32 : Real::kF64; }
// A constant of the NativeState that is there for each Real.
constexpr Mem constant_at(size_t base, bool is_f32) {
  return {kState, static_cast<int32_t>(base + sizeof(Constant) * static_cast<size_t>(kind_of(is_f32)))};
}
// A slot of the frame as an operand; its displacement, for instructions that address nothing but slots.
constexpr uint32_t at_slot(uint32_t slot) { return slot * 8; }
constexpr Mem slot(uint32_t slot) { return {kFrame, static_cast<int32_t>(at_slot(slot))}; }

// A bit for each register of a kind.
using RegisterSet = uint32_t;
template <typename... R>
constexpr RegisterSet set_of(R... registers) {
  return (RegisterSet{0} | ... | (RegisterSet{1} << registers));
}

class Registers {
 public:
  struct Sets {
    RegisterSet integers, reals;
  };

  // At the beginning of a function, of which locals have the registers `pinned`: all others that there are for operands
  // are free.
  void start(Sets pinned, bool uses_vectors) {
    constexpr RegisterSet kAlways = set_of(rax, rcx, rdx, rsi);
    constexpr RegisterSet kIntegers = [] {
      RegisterSet all = kAlways;
      for (const Reg r : kPinnable) all |= set_of(r);
      return all;
    }();
    constexpr RegisterSet kReals = (RegisterSet{1} << (kFirstPinnableReal + kPinnableReals)) - 1;
    free_integers_ = integers_ = kIntegers & ~pinned.integers;
    free_reals_ = reals_ = kReals & ~pinned.reals & ~(uses_vectors ? set_of(kScratch) : 0);
  }

  // Whether one is free that is none of `except`; takes the lowest such, which there must be.
  [[nodiscard]] bool has_integer(RegisterSet except = 0) const { return (free_integers_ & ~except) != 0; }
  [[nodiscard]] bool has_real(RegisterSet except = 0) const { return (free_reals_ & ~except) != 0; }
  Reg take_integer(RegisterSet except = 0) {
    const auto r = static_cast<Reg>(std::countr_zero(free_integers_ & ~except));
    take(r);
    return r;
  }
  Xmm take_real(RegisterSet except = 0) {
    const auto x = static_cast<Xmm>(std::countr_zero(free_reals_ & ~except));
    take(x);
    return x;
  }

  [[nodiscard]] bool is_free(Reg r) const { return (free_integers_ & set_of(r)) != 0; }
  void take(Reg r) { free_integers_ &= ~set_of(r); }
  void take(Xmm x) { free_reals_ &= ~set_of(x); }
  // What is no operand register stays what it is: that of a pinned local.
  void release(Reg r) { free_integers_ |= set_of(r) & integers_; }
  void release(Xmm x) { free_reals_ |= set_of(x) & reals_; }
  // The register that the value is in, if it is in one.
  void release(const Operand& v) {
    if (v.kind != Operand::Kind::kRegister) return;
    if (v.real()) release(Xmm{v.number});
    else release(static_cast<Reg>(v.number));
  }
  void release_integers() { free_integers_ = integers_; }
  void release_reals() { free_reals_ = reals_; }

  // Whether the value is in an operand register, which may be overwritten with a result once the value is popped.
  [[nodiscard]] bool is_operand(const Operand& v) const {
    return v.kind == Operand::Kind::kRegister && ((v.real() ? reals_ : integers_) & set_of(v.number)) != 0;
  }

  // What is free, to be restored after a way of which the code that follows knows nothing.
  [[nodiscard]] Sets free() const { return {free_integers_, free_reals_}; }
  void restore(Sets before) {
    free_integers_ = before.integers;
    free_reals_ = before.reals;
  }

 private:
  RegisterSet free_integers_ = 0, free_reals_ = 0;
  RegisterSet integers_ = 0, reals_ = 0;  // of this function, for operands
};

}  // namespace membrane::engine::native
