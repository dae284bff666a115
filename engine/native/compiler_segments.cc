// Charges of fuel segments, code off the hot path, and watches.
#include "engine/native/compiler_parts.h"

namespace membrane::engine::native {

// -- segments ------------------------------------------------------------------------------------

void Compiler::Parts::note_place(Watch& w, uint32_t code_offset, uint32_t cost_to_here) const {
  w.found = true;
  w.code_offset = code_offset;
  w.cost_to_here = cost_to_here;
  w.segment = segment_count;
}

void Compiler::Parts::note_locations(Watch& w) const {
  w.locations.clear();
  for (uint32_t pin = 0; pin < pin_count; ++pin)
    if ((now.valid >> pin) & 1) {
      Location l;
      l.kind = pins[pin].real() ? Location::Kind::kReal : Location::Kind::kRegister;
      l.maybe_nan = (now.nan >> pin) & 1;
      l.is_f32 = nan_is_f32(pin);
      l.register_number = pins[pin].number;
      l.slot = pins[pin].slot;
      note_location(w, l, pins[pin].bank, 0);
    }
  for (const Value& v : stack) {
    Location l;
    uint64_t high = 0;
    l.slot = v.slot;
    switch (v.kind) {
      case Value::Kind::kSlot:
      case Value::Kind::kFlags: continue;  // flags are never pending across a charge
      case Value::Kind::kRegister:
        l.kind = v.real() ? Location::Kind::kReal : Location::Kind::kRegister;
        l.maybe_nan = v.maybe_nan;
        l.is_f32 = v.is_f32;
        l.register_number = v.number;
        break;
      case Value::Kind::kConstant:
        l.kind = Location::Kind::kConstant;
        l.value = v.bank == Bank::kVector ? constants[v.constant].low : v.constant;
        if (v.bank == Bank::kVector) high = constants[v.constant].high;
        break;
      case Value::Kind::kLocal:
        l.kind = Location::Kind::kSlot;  // behind the pins: those are in their slots by then
        l.value = locals[v.local()].slot;
        high = l.value + 1;
        break;
    }
    note_location(w, l, v.bank, high);
  }
}

// A vector's slots one by one.
void Compiler::Parts::note_location(Watch& w, Location l, Bank bank, uint64_t value_of_high) {
  w.locations.push_back(l);
  if (bank != Bank::kVector) return;
  ++l.slot;
  l.half = 1;
  l.value = value_of_high;
  w.locations.push_back(l);
}

void Compiler::Parts::trap_if(Cond c, TrapKind kind) {
  Stub& stub = add_stub(Stub::Kind::kTrap);
  stub.trap = kind;
  stub.from = a.jcc(c);
}

void Compiler::Parts::trap(TrapKind kind) {
  a.call(trap_exit(kind));
  note_exit();
  a.int3();  // what follows is not taken for the place of the trap
}

void Compiler::Parts::write_stubs() {
  for (const Patch behind : fuel_stubs) {
    a.ensure(Assembler::kRoom);
    a.patch_here(behind);
    a.call(STATE(exit_fuel));
    a.u32(behind - a.here());  // see Charge
  }
  for (const Stub& s : stubs) {
    a.ensure(Assembler::kRoom);
    a.patch_here(s.from);
    switch (s.kind) {
      case Stub::Kind::kOverflow: a.call(STATE(exit_overflow)); break;
      case Stub::Kind::kCanonical:
        a.fload(kind_of(s.is_f32), s.number,
                {kState, static_cast<int32_t>(offsetof(NativeState, canonical_nan) +
                                              sizeof(Constant) * static_cast<size_t>(kind_of(s.is_f32)))});
        a.jmp(s.back);
        break;
      case Stub::Kind::kCanonicalLanes:
        a.avx_blend(
            s.is_f32 ? Avx::kVblendvps : Avx::kVblendvpd, s.number, s.number,
            vector_constant(s.is_f32 ? VectorConstant::kCanonicalNans32 : VectorConstant::kCanonicalNans64),
            kScratch);
        a.jmp(s.back);
        break;
      case Stub::Kind::kTrap:
        a.call(trap_exit(s.trap));
        by_pc.each_at(a.here() - entry, [&](Watch& w) {
          note_place(w, s.offset, s.cost_to_here);
          w.segment = s.segment;
        });
        break;
    }
  }
}

}  // namespace membrane::engine::native
