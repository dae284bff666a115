// Watches: what is noted of the places that are asked about. Traps, which are such places.
#include "engine/native/function_compiler.h"

namespace membrane::engine::native {

// Of the open segment's charge, which has just been written.
void FunctionCompiler::note_charge() {
  const uint32_t pc = segments_.charge_at() - entry_;
  const auto note = [&](Watch& w) {
    if (w.found) return;
    note_place(w, {walk_.segment_offset(), 0, segments_.number()});
    w.pc = pc;
    note_locations(w);
  };
  watches_.each_at_offset(walk_.segment_offset(), note);
  watches_.each_at(pc, note);
}

void FunctionCompiler::note_place(Watch& w, InstructionPlace place) {
  w.found = true;
  w.code_offset = place.offset;
  w.cost_to_here = place.cost_to_here;
  w.segment = place.segment;
}

void FunctionCompiler::note_locations(Watch& w) const {
  w.locations.clear();
  for (uint32_t pin = 0; pin < locals_.pin_count(); ++pin)
    if (locals_.now().is_valid(pin)) {
      Location l;
      l.kind = locals_.pin(pin).real() ? Location::Kind::kReal : Location::Kind::kRegister;
      l.maybe_nan = locals_.now().has_nan(pin);
      l.is_f32 = locals_.nan_is_f32(pin);
      l.register_number = locals_.pin(pin).number;
      l.slot = locals_.pin(pin).slot;
      note_location(w, l, locals_.pin(pin).bank, 0);
    }
  for (const Operand& v : stack_) {
    Location l;
    uint64_t high = 0;
    l.slot = v.slot;
    switch (v.kind) {
      case Operand::Kind::kSlot:
      case Operand::Kind::kFlags: continue;  // flags are never pending across a charge
      case Operand::Kind::kRegister:
        l.kind = v.real() ? Location::Kind::kReal : Location::Kind::kRegister;
        l.maybe_nan = v.maybe_nan;
        l.is_f32 = v.is_f32;
        l.register_number = v.number;
        break;
      case Operand::Kind::kConstant:
        l.kind = Location::Kind::kConstant;
        l.value = v.bank == Bank::kVector ? constants_[v.constant].low : v.constant;
        if (v.bank == Bank::kVector) high = constants_[v.constant].high;
        break;
      case Operand::Kind::kLocal:
        l.kind = Location::Kind::kSlot;  // after the pins: those are in their slots by then
        l.value = locals_[v.local()].slot;
        high = l.value + 1;
        break;
    }
    note_location(w, l, v.bank, high);
  }
}

// A vector's slots one by one.
void FunctionCompiler::note_location(Watch& w, Location l, Bank bank, uint64_t value_of_high) {
  w.locations.push_back(l);
  if (bank != Bank::kVector) return;
  ++l.slot;
  l.half = 1;
  l.value = value_of_high;
  w.locations.push_back(l);
}

void FunctionCompiler::trap_if(Cond c, TrapKind kind) {
  const Patch from = a_.jcc(c);
  stubs_.add_trap(kind, from, place());
}

void FunctionCompiler::trap(TrapKind kind) {
  a_.call(trap_exit(kind));
  note_exit();
  a_.int3();  // what follows is not taken for the place of the trap
}

void FunctionCompiler::write_stubs() {
  stubs_.write(a_, [&](InstructionPlace place) {
    watches_.each_at(a_.here() - entry_, [&](Watch& w) { note_place(w, place); });
  });
}

}  // namespace membrane::engine::native
