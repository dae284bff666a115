#include "engine/native/trampolines.h"

#include <cstddef>
#include <iterator>
#include <new>
#include <vector>

#include "engine/native/assembler.h"

namespace membrane::engine::native {
namespace {

#define STATE(member) (Mem{r14, static_cast<int32_t>(offsetof(NativeState, member))})

Mem saved(Reg r) { return {r14, static_cast<int32_t>(offsetof(NativeState, registers) + size_t{8} * r)}; }
Mem saved_real(Xmm x) { return {r14, static_cast<int32_t>(offsetof(NativeState, reals) + size_t{16} * x)}; }
constexpr Reg kCalleeSaved[] = {rbp, rbx, r12, r13, r14, r15};

// Saves all registers, and returns to the caller of enter().
uint32_t write_save(Assembler& a) {
  a.ensure(1024);
  const uint32_t at = a.here();
  for (uint8_t r = 0; r < 16; ++r)
    if (r != rsp && r != r14) a.mov(Width::k64, saved(static_cast<Reg>(r)), static_cast<Reg>(r));
  for (Xmm x = 0; x < 16; ++x) a.vstore16(saved_real(x), x);
  a.mov(Width::k64, STATE(rsp), rsp);
  a.mov(Width::k64, rsp, STATE(host_rsp));
  for (size_t i = std::size(kCalleeSaved); i-- > 0;) a.pop(kCalleeSaved[i]);
  a.ret();
  return at;
}
uint32_t write_enter(Assembler& a) {
  a.ensure(1024);
  const uint32_t at = a.here();
  for (const Reg r : kCalleeSaved) a.push(r);
  a.mov(Width::k64, r14, rdi);
  a.mov(Width::k64, STATE(host_rsp), rsp);
  a.mov(Width::k64, rsp, STATE(rsp));
  for (Xmm x = 0; x < 16; ++x) a.vload16(x, saved_real(x));
  for (uint8_t r = 0; r < 16; ++r)
    if (r != rsp && r != r14) a.mov(Width::k64, static_cast<Reg>(r), saved(static_cast<Reg>(r)));
  a.jmp(STATE(pc));
  return at;
}

}  // namespace

Trampolines::Trampolines() {
  std::vector<uint8_t> code;
  Assembler a(code);
  const uint32_t save = write_save(a);
  const uint32_t enter_at = write_enter(a);
  const auto leave = [&](Exit exit, bool has_pc, uint32_t more = 0) {
    a.ensure(Assembler::kRoom);
    const uint32_t at = a.here();
    if (has_pc) a.pop(STATE(pc));
    a.mov_imm(Width::k64, STATE(exit), static_cast<int32_t>(static_cast<uint32_t>(exit) + more));
    a.jmp(save);
    return at;
  };
  const uint32_t fuel = leave(Exit::kFuel, true), call = leave(Exit::kCall, false);
  const uint32_t other = leave(Exit::kInstance, false), helper = leave(Exit::kHelper, true);
  const uint32_t overflow = leave(Exit::kOverflow, true), fault = leave(Exit::kFault, false);
  const uint32_t back = leave(Exit::kReturned, false);
  uint32_t traps[kTrapKinds];
  for (uint32_t i = 0; i < kTrapKinds; ++i) traps[i] = leave(Exit::kTrap, true, i);

  block.~CodeBlock();
  new (&block) CodeBlock(publish({a.data(), a.here()}));
  const uint8_t* const base = block.code();
  if (base == nullptr) return;
  enter = reinterpret_cast<void (*)(NativeState*)>(reinterpret_cast<uintptr_t>(base + enter_at));
  exit_fuel = base + fuel;
  exit_call = base + call;
  exit_instance = base + other;
  exit_helper = base + helper;
  exit_overflow = base + overflow;
  exit_fault = base + fault;
  returned = base + back;
  for (uint32_t i = 0; i < kTrapKinds; ++i) exit_trap[i] = base + traps[i];
}

}  // namespace membrane::engine::native
