#include "engine/native/pinned_locals.h"

#include <algorithm>
#include <functional>

namespace membrane::engine::native {

MEMBRANE_INLINE bool PinnedLocals::add(wasm::ValType type, uint32_t count) {
  if (locals_.size() + count > kMost) return false;
  for (uint32_t i = 0; i < count; ++i, slots_ += wasm::slots_of(type))
    locals_.emplace_back(static_cast<uint16_t>(slots_), kUnpinned, bank_of(type),
                         type == wasm::ValType::kF32);
  return true;
}

bool PinnedLocals::start(const wasm::Module& module, const wasm::Function& function) {
  locals_.clear();
  slots_ = 0;
  pin_count_ = 0;
  now_ = {};
  for (const wasm::ValType t : module.types[function.type].params)
    if (!add(t, 1)) return false;
  for (uint32_t i = 0; i < function.local_run_count; ++i) {
    const wasm::LocalRun& run = module.local_runs[function.first_local_run + i];
    if (!add(run.type, run.count)) return false;
  }
  return true;
}

void PinnedLocals::choose(const wasm::LocalUses& uses, bool uses_vectors) {
  const uint32_t pinnable_reals = uses_vectors ? kPinnableReals - 1 : kPinnableReals;
  uint32_t integers = 0, reals = 0;
  registers_ = {};
  sort_candidates(uses);
  for (const uint64_t candidate : candidates_) {
    Local& local = locals_[uses.used()[UINT32_MAX - static_cast<uint32_t>(candidate)]];
    if (local.real() ? reals == pinnable_reals : integers == kPinnable.size()) continue;
    local.pin = static_cast<uint8_t>(pin_count_);
    const auto number = local.real() ? static_cast<uint8_t>(kFirstPinnableReal + reals++)
                                     : static_cast<uint8_t>(kPinnable[integers++]);
    (local.real() ? registers_.reals : registers_.integers) |= set_of(number);
    pins_[pin_count_++] = {local.slot, number, local.bank, local.is_f32};
  }
  note_loops(uses);
}

// By weight; of locals that are used as much, the one that is used first comes first.
void PinnedLocals::sort_candidates(const wasm::LocalUses& uses) {
  candidates_.clear();
  for (uint32_t i = 0; i < uses.used().size(); ++i)
    if (const uint32_t weight = uses.weight(uses.used()[i]);
        weight > 1)  // a single use is not worth a register
      candidates_.push_back(uint64_t{weight} << 32 | (UINT32_MAX - i));
  std::ranges::sort(candidates_, std::greater());
}

void PinnedLocals::note_loops(const wasm::LocalUses& uses) {
  loops_.clear();
  for (const wasm::LocalUses::Loop& loop : uses.loops()) loops_.push_back({.has_call = loop.has_call});
  for (const wasm::LocalUses::Use& use : uses.uses()) {
    const uint8_t pin = locals_[use.local].pin;
    if (pin == kUnpinned) continue;
    loops_[use.loop].used |= pin_bit(pin);
    if (use.assigned) loops_[use.loop].assigned |= pin_bit(pin);
  }
  for (size_t i = loops_.size(); i-- > 0;) {  // inner loops come after outer ones
    const uint32_t parent = uses.loops()[i].parent;
    if (parent == wasm::LocalUses::kNone) continue;
    LoopUse& outer = loops_[parent];
    outer.used |= loops_[i].used;
    outer.assigned |= loops_[i].assigned;
    outer.has_call |= loops_[i].has_call;
  }
}

}  // namespace membrane::engine::native
