// The compiler's picture of the operand stack: for each value, where it is until an instruction needs it.
//
// Invariants:
//  1. Values fill the frame's slots one after the other: the slot of a value is the next one after the value below
//     it, and that of the lowest is the first after the locals, whatever the kinds.
//  2. kFlags is only ever the top: the next instruction takes it, or it becomes a register.
//  3. A value of kind kLocal means the local as it is now: it is settled before the local changes. pending_locals()
//     counts these values.
//  4. So many values from the bottom as settled() says are in their slots, or constants.
//
// Threads: belongs to one compiler. Its memory is kept from one function to the next.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/memory/access.h"
#include "engine/native/assembler.h"
#include "wasm/types.h"

namespace membrane::engine::native {

// What a value is: which registers hold it, and whether it fills two slots.
enum class Bank : uint8_t { kInteger, kReal, kVector };
constexpr uint32_t slots_of(Bank bank) { return bank == Bank::kVector ? 2 : 1; }
inline Bank bank_of(wasm::ValType t) {
  if (t == wasm::ValType::kV128) return Bank::kVector;
  return t == wasm::ValType::kF32 || t == wasm::ValType::kF64 ? Bank::kReal : Bank::kInteger;
}

struct Operand {
  enum class Kind : uint8_t { kSlot, kRegister, kConstant, kLocal, kFlags } kind = Kind::kSlot;
  Bank bank = Bank::kInteger;
  bool maybe_nan = false;  // a register whose NaN is not yet the canonical one
  bool is_f32 = false;     // kReal: which of the two; kVector: the lanes of such a NaN
  bool in_slot = false;    // kRegister: its slot holds it as well
  uint8_t number = 0;      // kRegister: which; kFlags: the Cond
  uint16_t slot = 0;       // its own place in the frame, whatever its kind
  uint64_t constant = 0;   // kConstant: its bits, of a vector its number; kLocal: the local's index

  [[nodiscard]] uint32_t local() const { return static_cast<uint32_t>(constant); }
  [[nodiscard]] bool real() const { return bank != Bank::kInteger; }  // lives in an SSE register
};
// Written and read as a whole: a wide read after narrow writes would have to wait for them.
using OperandBytes [[gnu::vector_size(16)]] = uint64_t;
static_assert(sizeof(Operand) == sizeof(OperandBytes) && std::endian::native == std::endian::little);

class OperandStack {
  // A value of which the slot and the number are not yet known.
  static constexpr uint64_t head_of(Operand v) { return std::bit_cast<std::array<uint64_t, 2>>(v)[0]; }
  static uint64_t type_bits(Bank bank, bool is_f32) {
    constexpr uint64_t kF32 = head_of({.is_f32 = true});
    return uint64_t{static_cast<uint8_t>(bank)} << 8 * offsetof(Operand, bank) | (is_f32 ? kF32 : 0);
  }

 public:
  // Empty, and the first value's slot is `first_slot`.
  void start(uint32_t first_slot) {
    if (storage_.empty()) grow();
    size_ = 0;
    settled_ = 0;
    pending_locals_ = 0;
    has_flags_ = false;
    values_[-1] = {};
    values_[-1].slot = static_cast<uint16_t>(first_slot - 1);
  }
  [[nodiscard]] size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] Operand* begin() { return values_; }
  [[nodiscard]] Operand* end() { return values_ + size_; }
  [[nodiscard]] const Operand* begin() const { return values_; }
  [[nodiscard]] const Operand* end() const { return values_ + size_; }
  [[nodiscard]] Operand& operator[](size_t i) { return values_[i]; }
  [[nodiscard]] const Operand& operator[](size_t i) const { return values_[i]; }
  [[nodiscard]] Operand& back() { return values_[ptrdiff_t{size_} - 1]; }
  [[nodiscard]] const Operand& back() const { return values_[ptrdiff_t{size_} - 1]; }
  // The slot of the next value.
  [[nodiscard]] uint32_t next_slot() const {
    const Operand& top = back();
    return static_cast<uint16_t>(top.slot + slots_of(top.bank));
  }

  // -- pushing: the value gets the next slot for its own, whatever else it is
  void push(Operand v) {
    v.slot = 0;
    if (v.kind == Operand::Kind::kLocal) ++pending_locals_;
    push(head_of(v), 0, v.constant);
  }
  void push_register(Reg r) {
    constexpr uint64_t kHead = head_of({.kind = Operand::Kind::kRegister});
    push(kHead, r, 0);
  }
  void push_real(Xmm x, bool is_f32, bool maybe_nan, Bank bank = Bank::kReal) {
    constexpr uint64_t kHead = head_of({.kind = Operand::Kind::kRegister});
    constexpr uint64_t kMaybeNan = head_of({.maybe_nan = true});
    push(kHead | type_bits(bank, is_f32) | (maybe_nan ? kMaybeNan : 0), x, 0);
  }
  // That of a comparison, which is not settled before the next instruction.
  void push_flags(Cond c) {
    constexpr uint64_t kHead = head_of({.kind = Operand::Kind::kFlags});
    push(kHead, static_cast<uint8_t>(c), 0);
    has_flags_ = true;
  }
  void push_constant(uint64_t constant, Bank bank = Bank::kInteger, bool is_f32 = false) {
    constexpr uint64_t kHead = head_of({.kind = Operand::Kind::kConstant});
    push(kHead | type_bits(bank, is_f32), 0, constant);
  }
  void push_local(uint32_t local, Bank bank, bool is_f32) {
    constexpr uint64_t kHead = head_of({.kind = Operand::Kind::kLocal});
    ++pending_locals_;
    push(kHead | type_bits(bank, is_f32), 0, local);
  }
  void push_slot(wasm::ValType t) {
    push(head_of({}) | type_bits(bank_of(t), t == wasm::ValType::kF32), 0, 0);
  }
  void push_slots(std::span<const wasm::ValType> types) {
    for (const wasm::ValType t : types) push_slot(t);
  }

  Operand pop() {
    const Operand v = back();
    --size_;
    settled_ = std::min(settled_, size_);
    has_flags_ = false;  // only the top is kFlags
    if (v.kind == Operand::Kind::kLocal) --pending_locals_;
    return v;
  }
  // Whether the top is kFlags.
  [[nodiscard]] bool has_flags() const { return has_flags_; }
  void invert_flags() { back().number ^= 1; }

  // -- where values are
  [[nodiscard]] size_t settled() const { return settled_; }
  [[nodiscard]] std::span<Operand> unsettled() { return {values_ + settled_, values_ + size_}; }
  [[nodiscard]] size_t unsettled_count() const { return size_ - settled_; }
  [[nodiscard]] uint32_t pending_locals() const { return pending_locals_; }
  // Whether a value names the local.
  [[nodiscard]] bool names(uint32_t local) const {
    if (pending_locals_ != 0)
      for (size_t i = settled_; i < size_; ++i)
        if (values_[i].kind == Operand::Kind::kLocal && values_[i].local() == local) return true;
    return false;
  }
  // A value of the stack has been written to its slot. `was_local`: it was of kind kLocal before.
  void put_in_slot(Operand& v, bool was_local) {
    if (was_local) --pending_locals_;
    v.kind = Operand::Kind::kSlot;
    v.in_slot = v.maybe_nan = false;
  }
  // All have.
  void note_settled() { settled_ = size_; }
  // A value of kind kLocal is about to be replaced: until then nothing is to be done for it.
  void forget_name(Operand& v) {
    --pending_locals_;
    v.kind = Operand::Kind::kSlot;
  }

 private:
  MEMBRANE_INLINE void push(uint64_t head, uint64_t number, uint64_t constant) {
    constexpr unsigned kNumberAt = 8 * offsetof(Operand, number), kSlotAt = 8 * offsetof(Operand, slot);
    const OperandBytes bytes = {head | number << kNumberAt | uint64_t{next_slot()} << kSlotAt, constant};
    if (size_ == capacity_) [[unlikely]]
      grow();
    values_[size_++] = std::bit_cast<Operand>(bytes);
  }
  [[gnu::noinline]] void grow() {
    storage_.resize(std::max<size_t>(storage_.size() * 2, 64));
    values_ = storage_.data() + 1;  // one below the lowest says where that begins
    capacity_ = static_cast<uint32_t>(storage_.size() - 1);
  }

  std::vector<Operand> storage_;
  Operand* values_ = nullptr;
  uint32_t size_ = 0, capacity_ = 0;
  uint32_t settled_ = 0, pending_locals_ = 0;
  bool has_flags_ = false;
};

}  // namespace membrane::engine::native
