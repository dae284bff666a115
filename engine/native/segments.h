// The fuel segments of a function while it is compiled: their numbers and the code of their charges.
//
// Invariants:
//  1. The charge of the open segment is written once it costs something, before any code of it that does something; its
//     constant is filled in when the segment ends and its cost is known.
//  2. Segments are numbered as they end. Their costs are kept where places of the code are asked about.
//
// Threads: belongs to one compiler. Memory is kept from one function to the next.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/native/assembler.h"
#include "engine/native/registers.h"
#include "engine/native/state.h"
#include "engine/native/stubs.h"

namespace membrane::engine::native {

class Segments {
 public:
  void start(bool keeps_costs) {
    number_ = 0;
    charge_ = kNotCharged;
    keeps_costs_ = keeps_costs;
    costs_.clear();
  }
  // Of the open one.
  [[nodiscard]] uint32_t number() const { return number_; }
  [[nodiscard]] bool is_charged() const { return charge_ != kNotCharged; }
  // Where the code of its charge begins, which is written.
  [[nodiscard]] uint32_t charge_at() const { return charge_ - Charge::kSubtractBytes; }

  void write_charge(Assembler& a, Stubs& stubs) {
    const Assembler::ChargePatches written = a.charge(kFuelLeft);
    charge_ = written.constant;
    stubs.add_charge(written.branch);
  }
  void end(Assembler& a, uint32_t cost) {
    if (is_charged()) a.put32(charge_ - 4, cost);
    if (keeps_costs_) costs_.push_back(cost);
    ++number_;
    charge_ = kNotCharged;
  }
  // Of one that has ended, when costs are kept.
  [[nodiscard]] uint32_t cost_of(uint32_t number) const { return costs_[number]; }

 private:
  static constexpr Patch kNotCharged = UINT32_MAX;
  uint32_t number_ = 0;
  Patch charge_ = kNotCharged;  // of the open segment: after its constant
  bool keeps_costs_ = false;
  std::vector<uint32_t> costs_;
};

}  // namespace membrane::engine::native
