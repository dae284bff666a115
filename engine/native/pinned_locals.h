// The locals of a function: which of them have a register for the whole of it ("pinned"), and where these are now.
//
// A pinned local is a number, its pin; sets of them are bits. The compiler writes the code that moves one between its
// register and its slot, and says so here. Before ways join, each makes of its pins what the label expects: those are
// the pins of the first way that came, or for a loop what it uses (match_pins() in compiler_control.cc).
//
// Invariants of Pins:
//  1. A pinned local is in its register (valid), there and not in its slot (dirty), or in its slot only. What is dirty
//     is valid.
//  2. A NaN that is not canonical (nan) is in the register only: what has one is dirty. Whether it is of 32 bits (f32)
//     means something for vectors that have one.
//  3. A label's pins have no such NaN. On another way it may be one that was loaded, whose bits stay.
//
// Threads: belongs to one compiler. Memory is kept from one function to the next.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/native/operand_stack.h"
#include "engine/native/registers.h"
#include "wasm/local_uses.h"
#include "wasm/module.h"

namespace membrane::engine::native {

inline constexpr uint32_t kMaxPins = kPinnable.size() + kPinnableReals;
inline constexpr uint8_t kUnpinned = 0xFF;

// A bit for each pin.
using PinSet = uint32_t;
constexpr PinSet pin_bit(uint32_t pin) { return PinSet{1} << pin; }

struct Local {
  uint16_t slot;
  uint8_t pin;  // kUnpinned for none
  Bank bank;
  bool is_f32;
  [[nodiscard]] bool real() const { return bank != Bank::kInteger; }
};

// A local that has a register.
struct Pin {
  uint16_t slot;
  uint8_t number;  // of the register
  Bank bank;
  bool is_f32;
  [[nodiscard]] bool real() const { return bank != Bank::kInteger; }
};

// What a loop and those inside it do.
struct LoopUse {
  bool has_call = false;
  PinSet used = 0, assigned = 0;
};

// Where the pinned locals are at one place of the code.
class Pins {
 public:
  [[nodiscard]] PinSet valid() const { return valid_; }
  [[nodiscard]] PinSet dirty() const { return dirty_; }
  [[nodiscard]] PinSet nans() const { return nan_; }
  [[nodiscard]] bool is_valid(uint32_t pin) const { return ((valid_ >> pin) & 1) != 0; }
  [[nodiscard]] bool is_dirty(uint32_t pin) const { return ((dirty_ >> pin) & 1) != 0; }
  [[nodiscard]] bool has_nan(uint32_t pin) const { return ((nan_ >> pin) & 1) != 0; }
  [[nodiscard]] bool is_f32(uint32_t pin) const { return ((f32_ >> pin) & 1) != 0; }

  // -- what happens to one
  void load(uint32_t pin) {
    valid_ |= pin_bit(pin);
    store(pin);
  }
  void store(uint32_t pin) {
    dirty_ &= ~pin_bit(pin);
    make_canonical(pin);
  }
  void make_canonical(uint32_t pin) { nan_ &= ~pin_bit(pin); }
  void assign(uint32_t pin, bool maybe_nan, bool is_f32) {
    const PinSet bit = pin_bit(pin);
    valid_ |= bit;
    dirty_ |= bit;
    nan_ = maybe_nan ? nan_ | bit : nan_ & ~bit;
    f32_ = is_f32 ? f32_ | bit : f32_ & ~bit;
  }

  // -- merge points
  // Whether a way with these pins needs no code to have those of the label.
  [[nodiscard]] bool satisfies(const Pins& label) const {
    return (label.valid_ & ~valid_) == 0 && (dirty_ & ~label.valid_) == 0 && nan_ == 0;
  }
  // Of those of a label: another way arrives, which satisfies them.
  void join(const Pins& way) { dirty_ |= way.dirty_ & valid_; }
  // The same of a way whose code is not written yet.
  void expect_canonical() { nan_ = 0; }
  // At the head of a loop: in registers is what the loop uses, and unless it calls, what is there anyway.
  [[nodiscard]] Pins at_head(const LoopUse& loop) const {
    Pins head;
    head.valid_ = loop.used | (loop.has_call ? 0 : valid_);
    return head;
  }
  // Of those of a head, which the way into the loop satisfies: what is dirty there or on a way around.
  void enter(const Pins& way, const LoopUse& loop) { dirty_ = way.dirty_ | loop.assigned; }

 private:
  PinSet valid_ = 0, dirty_ = 0, nan_ = 0, f32_ = 0;
};

class PinnedLocals {
 public:
  // Bounds that keep compilation linear on hostile code. What is beyond is the interpreter's.
  static constexpr size_t kMost = 4'000;

  // The function's locals, none of them pinned. False when there are too many.
  bool start(const wasm::Module& module, const wasm::Function& function);
  // Pins those that are used most, as many as there are registers. Once, after start().
  void choose(const wasm::LocalUses& uses, bool uses_vectors);

  [[nodiscard]] uint32_t size() const { return static_cast<uint32_t>(locals_.size()); }
  [[nodiscard]] uint32_t slots() const { return slots_; }  // that they fill, from the frame's first on
  [[nodiscard]] const Local& operator[](size_t local) const { return locals_[local]; }
  [[nodiscard]] uint32_t pin_count() const { return pin_count_; }
  [[nodiscard]] const Pin& pin(uint32_t pin) const { return pins_[pin]; }
  // Whose registers are no others' in this function.
  [[nodiscard]] Registers::Sets registers() const { return registers_; }
  [[nodiscard]] const LoopUse& loop(uint32_t number) const { return loops_[number]; }

  // Where they are at the place that is being compiled.
  [[nodiscard]] const Pins& now() const { return now_; }
  [[nodiscard]] Pins& now() { return now_; }
  // At a place where others begin: those of a label, of before a way, or none in its register.
  void begin_at(const Pins& pins) { now_ = pins; }
  void begin_in_slots() { now_ = {}; }
  // Of a NaN that is not canonical in its register: whether it is of 32 bits.
  [[nodiscard]] bool nan_is_f32(uint32_t pin) const {
    return pins_[pin].bank == Bank::kVector ? now_.is_f32(pin) : pins_[pin].is_f32;
  }

 private:
  bool add(wasm::ValType type, uint32_t count);
  void sort_candidates(const wasm::LocalUses& uses);
  void note_loops(const wasm::LocalUses& uses);

  std::vector<Local> locals_;
  uint32_t slots_ = 0;
  std::array<Pin, kMaxPins> pins_{};
  uint32_t pin_count_ = 0;
  Registers::Sets registers_{};
  std::vector<LoopUse> loops_;
  std::vector<uint64_t> candidates_;  // locals that may be pinned: weight, and how late they are used
  Pins now_;
};

}  // namespace membrane::engine::native
