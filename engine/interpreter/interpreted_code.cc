#include "engine/interpreter/interpreted_code.h"

#include <ucontext.h>

#include "engine/instance/machine.h"

// All handlers are in one section (handler.h), whose bounds the linker provides: a fault of the
// host's own code in guest memory is a bug, and does not become a guest's trap.
extern "C" {
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the linker's names
extern const char __start_membrane_interpreter[];
extern const char __stop_membrane_interpreter[];
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
}

namespace membrane::engine {

#if MEMBRANE_GUARD_PAGES
namespace {

// Where access.h has them.
struct Registers {
  uint64_t pc, ip, fp, fuel;
};
Registers registers_in(const void* context) {
  const mcontext_t& machine = static_cast<const ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  const auto at = [&](int number) { return static_cast<uint64_t>(machine.gregs[number]); };
  return {at(REG_RIP), at(REG_RDI), at(REG_RSI), at(REG_RDX)};
#else
  return {machine.pc, machine.regs[0], machine.regs[1], machine.regs[2]};
#endif
}

}  // namespace

bool InterpretedCode::take_fault(const void* address, void* context) {
  const Registers registers = registers_in(context);
  const auto* const at = reinterpret_cast<const char*>(registers.pc);
  MachineState& machine = Machine::state(run_);
  if (at < __start_membrane_interpreter || at >= __stop_membrane_interpreter ||
      !Machine::reserves(machine.instance, address))
    return false;
  machine.ip = reinterpret_cast<const Word*>(registers.ip);
  machine.fp = reinterpret_cast<uint64_t*>(registers.fp);
  machine.fuel = static_cast<int64_t>(registers.fuel);
  siglongjmp(Machine::fault_jump(run_), 1);
}
#else
bool InterpretedCode::take_fault(const void*, void*) { return false; }
#endif

}  // namespace membrane::engine
