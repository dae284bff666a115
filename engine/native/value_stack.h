// The compiler's picture of the operand stack: for each value, where it is until an instruction needs it.
//
// Invariants:
//  1. Values fill the frame's slots one after the other: the slot of a value is the next one after the value below
//     it, and that of the lowest is the first after the locals, whatever the kinds.
//  2. kFlags is only ever the top: the next instruction takes it, or it becomes a register.
//
// Threads: belongs to one compiler. Its memory is kept from one function to the next.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/memory/access.h"

namespace membrane::engine::native {

// What a value is: which registers hold it, and whether it fills two slots.
enum class Bank : uint8_t { kInteger, kReal, kVector };
constexpr uint32_t slots_of(Bank bank) { return bank == Bank::kVector ? 2 : 1; }

struct Value {
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
using ValueBytes [[gnu::vector_size(16)]] = uint64_t;
static_assert(sizeof(Value) == sizeof(ValueBytes) && std::endian::native == std::endian::little);

class ValueStack {
 public:
  // Empty, and the first value's slot is `first_slot`.
  void start(uint32_t first_slot) {
    if (storage_.empty()) grow();
    size_ = 0;
    values_[-1] = {};
    values_[-1].slot = static_cast<uint16_t>(first_slot - 1);
  }
  [[nodiscard]] size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] Value* begin() { return values_; }
  [[nodiscard]] Value* end() { return values_ + size_; }
  [[nodiscard]] const Value* begin() const { return values_; }
  [[nodiscard]] const Value* end() const { return values_ + size_; }
  [[nodiscard]] Value& operator[](size_t i) { return values_[i]; }
  [[nodiscard]] const Value& operator[](size_t i) const { return values_[i]; }
  [[nodiscard]] Value& back() { return values_[ptrdiff_t{size_} - 1]; }
  [[nodiscard]] const Value& back() const { return values_[ptrdiff_t{size_} - 1]; }
  // The slot of the next value.
  [[nodiscard]] uint32_t next_slot() const {
    const Value& top = back();
    return static_cast<uint16_t>(top.slot + slots_of(top.bank));
  }
  MEMBRANE_INLINE void push_back(Value v) {
    if (size_ == capacity_) [[unlikely]]
      grow();
    values_[size_++] = v;
  }
  void pop_back() { --size_; }

 private:
  [[gnu::noinline]] void grow() {
    storage_.resize(std::max<size_t>(storage_.size() * 2, 64));
    values_ = storage_.data() + 1;  // one below the lowest says where that begins
    capacity_ = static_cast<uint32_t>(storage_.size() - 1);
  }

  std::vector<Value> storage_;
  Value* values_ = nullptr;
  uint32_t size_ = 0, capacity_ = 0;
};

}  // namespace membrane::engine::native
