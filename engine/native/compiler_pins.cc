// Which locals have a register for the whole function, and what loops do with them.
#include "engine/native/compiler_parts.h"

namespace membrane::engine::native {

// -- preparing -----------------------------------------------------------------------------

bool Compiler::Parts::prepare(uint32_t function_index, const wasm::LocalUses* uses) {
  index = function_index;
  function = &module.functions[index];
  type = &module.types[function->type];
  code = &compiled.function(index);
  body = module.view(function->code).data();
  locals.clear();
  locals_end = 0;
  const auto add = [this](ValType t, uint32_t count) {
    if (locals.size() + count > kMaxLocals) return false;
    for (uint32_t i = 0; i < count; ++i, locals_end += wasm::slots_of(t))
      locals.emplace_back(static_cast<uint16_t>(locals_end), kUnpinned, bank_of(t), t == ValType::kF32);
    return true;
  };
  for (const ValType t : type->params)
    if (!add(t, 1)) return false;
  for (uint32_t i = 0; i < function->local_run_count; ++i) {
    const wasm::LocalRun& run = module.local_runs[function->first_local_run + i];
    if (!add(run.type, run.count)) return false;
  }
  stubs.clear();
  fuel_stubs.clear();
  constants.clear();
  constant_uses.clear();
  catches.boundaries.clear();
  catches.regions.clear();
  catches.clauses.clear();
  landings.clear();
  stack.start(locals_end);
  segment_count = 0;
  segment_costs.clear();
  settled = 0;
  now = {};
  pending_locals = 0;
  flags_on_top = false;
  attention = watches.empty() ? 0 : kIsWatched;
  charge = kNone;
  if (uses == nullptr) {
    own_uses.look_at(module.view(function->code), static_cast<uint32_t>(locals.size()));
    uses = &own_uses;
  }
  choose_pins(*uses);
  return true;
}

// The locals that are used most, as many as there are registers; of these, what each loop does.
void Compiler::Parts::choose_pins(const wasm::LocalUses& uses) {
  free_registers = kOperandRegisters;
  free_reals = (1u << kFirstPinnableReal) - 1;
  pin_count = 0;
  uint32_t integers = 0, reals = 0;
  const uint32_t pinnable_reals = code->uses_vectors ? kPinnableReals - 1 : kPinnableReals;
  // Of locals that are used as much, the one that is used first.
  candidates.clear();
  for (uint32_t i = 0; i < uses.used().size(); ++i)
    if (const uint32_t weight = uses.weight(uses.used()[i]);
        weight > 1)  // a single use is not worth a register
      candidates.push_back(uint64_t{weight} << 32 | (UINT32_MAX - i));
  std::ranges::sort(candidates, std::greater());
  for (const uint64_t candidate : candidates) {
    Local& local = locals[uses.used()[UINT32_MAX - static_cast<uint32_t>(candidate)]];
    if (local.real() ? reals == pinnable_reals : integers == kPinnable.size()) continue;
    local.pin = static_cast<uint8_t>(pin_count);
    const auto number = local.real() ? static_cast<uint8_t>(kFirstPinnableReal + reals++)
                                     : static_cast<uint8_t>(kPinnable[integers++]);
    pins[pin_count++] = {local.slot, number, local.bank, local.is_f32};
  }
  for (uint32_t i = integers; i < kPinnable.size(); ++i) free_registers |= 1u << kPinnable[i];
  for (uint32_t i = reals; i < pinnable_reals; ++i) free_reals |= 1u << (kFirstPinnableReal + i);
  note_loops(uses);
}

void Compiler::Parts::note_loops(const wasm::LocalUses& uses) {
  loops.clear();
  for (const wasm::LocalUses::Loop& loop : uses.loops()) loops.push_back({.has_call = loop.has_call});
  for (const wasm::LocalUses::Use& use : uses.uses()) {
    const uint8_t pin = locals[use.local].pin;
    if (pin == kUnpinned) continue;
    loops[use.loop].used |= 1u << pin;
    if (use.assigned) loops[use.loop].assigned |= 1u << pin;
  }
  for (size_t i = loops.size(); i-- > 0;) {  // inner loops come after outer ones
    const uint32_t parent = uses.loops()[i].parent;
    if (parent == kNone) continue;
    LoopUse& outer = loops[parent];
    outer.used |= loops[i].used;
    outer.assigned |= loops[i].assigned;
    outer.has_call |= loops[i].has_call;
  }
}

}  // namespace membrane::engine::native
