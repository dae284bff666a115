// Code off the hot path of a function: where its charges are not covered, where it traps, and where a NaN becomes the
// canonical one.
//
// The hot path has a branch for each, and the stub is noted here. All are written after the function's end: first those
// of the charges, then the others, each kind in the order of its branches.
//
// Invariants: each branch that was given is patched once, by write(). A stub that does not come back ends with its
// call, whose return address is its own: after a trap's comes another stub, or a byte of the end.
//
// Threads: belongs to one compiler. Memory is kept from one function to the next.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/code/trap.h"
#include "engine/native/assembler.h"
#include "engine/native/registers.h"

namespace membrane::engine::native {

// The place of an instruction: its offset in the body, the cost of its segment up to it, and the segment's number.
struct InstructionPlace {
  uint32_t offset = 0, cost_to_here = 0, segment = 0;
};

class Stubs {
 public:
  void start() {
    charges_.clear();
    stubs_.clear();
  }
  // Of a charge that is not covered: leaves for fuel.
  void add_charge(Patch from) { charges_.push_back(from); }
  // Of a frame that does not fit.
  void add_overflow(Patch from) { stubs_.emplace_back(Kind::kOverflow, from); }
  void add_trap(TrapKind trap, Patch from, InstructionPlace place) {
    Stub& stub = stubs_.emplace_back(Kind::kTrap, from);
    stub.trap = trap;
    stub.place = place;
  }
  // Of a NaN in a register, or of those in its lanes of a vector: control comes back to `back`.
  void add_canonical(Xmm x, bool is_f32, bool is_vector, Patch from, uint32_t back) {
    Stub& stub = stubs_.emplace_back(is_vector ? Kind::kCanonicalLanes : Kind::kCanonical, from);
    stub.is_f32 = is_f32;
    stub.number = x;
    stub.back = back;
  }

  // Writes them all. Calls note_trap(place) where the return address of a trap's exit is.
  template <typename F>
  void write(Assembler& a, const F& note_trap) const {
    write_charges(a);
    for (const Stub& stub : stubs_) {
      write_stub(a, stub);
      if (stub.kind == Kind::kTrap) note_trap(stub.place);
    }
  }

 private:
  enum class Kind : uint8_t { kTrap, kOverflow, kCanonical, kCanonicalLanes };
  // Built in its place: one that is copied as a whole would wait for its parts.
  struct Stub {
    Stub(Kind k, Patch branch) : kind(k), from(branch) {}
    Kind kind;
    TrapKind trap{};
    bool is_f32 = false;
    Xmm number = 0;
    Patch from;
    uint32_t back = 0;
    InstructionPlace place{};
  };
  void write_charges(Assembler& a) const;
  static void write_stub(Assembler& a, const Stub& stub);

  std::vector<Patch> charges_;
  std::vector<Stub> stubs_;
};

// An operand: the exit of a trap.
constexpr Mem trap_exit(TrapKind kind) {
  return {kState, static_cast<int32_t>(offsetof(NativeState, exit_trap) + 8 * static_cast<size_t>(kind))};
}

}  // namespace membrane::engine::native
