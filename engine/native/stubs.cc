#include "engine/native/stubs.h"

#include "engine/native/vector_code.h"

namespace membrane::engine::native {

void Stubs::write_charges(Assembler& a) const {
  for (const Patch branch : charges_) {
    a.ensure(Assembler::kRoom);
    a.patch_here(branch);
    a.call(STATE(exit_fuel));
    a.word(branch - a.here());  // see Charge
  }
}

void Stubs::write_stub(Assembler& a, const Stub& stub) {
  a.ensure(Assembler::kRoom);
  a.patch_here(stub.from);
  switch (stub.kind) {
    case Kind::kTrap: a.call(trap_exit(stub.trap)); break;
    case Kind::kOverflow: a.call(STATE(exit_overflow)); break;
    case Kind::kCanonical:
      a.fload(kind_of(stub.is_f32), stub.number,
              constant_at(offsetof(NativeState, canonical_nan), stub.is_f32));
      a.jmp(stub.back);
      break;
    case Kind::kCanonicalLanes:
      a.avx_blend(
          stub.is_f32 ? Avx::kVblendvps : Avx::kVblendvpd, stub.number, stub.number,
          vector_constant(stub.is_f32 ? VectorConstant::kCanonicalNans32 : VectorConstant::kCanonicalNans64),
          kScratch);
      a.jmp(stub.back);
      break;
  }
}

}  // namespace membrane::engine::native
