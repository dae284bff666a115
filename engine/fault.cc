#include "engine/fault.h"

#include <csignal>
#include <mutex>

#include "base/sanitized_testing.h"
#include "engine/machine.h"
#include "engine/native/runtime.h"

// All handlers stand in one section (interpreter.cc), whose bounds the linker provides: a fault of
// the host's own code in guest memory is a bug, and is not taken for a guest's trap.
extern "C" {
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the linker's names
extern const char __start_membrane_interpreter[];
extern const char __stop_membrane_interpreter[];
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
}

namespace membrane::engine {

namespace {

thread_local Execution* running = nullptr;
struct sigaction previous[2];  // of SIGSEGV and SIGBUS

void forward(int number, siginfo_t* info, void* context) {
  const struct sigaction& before = previous[number == SIGBUS];
  if (before.sa_flags & SA_SIGINFO) {
    before.sa_sigaction(number, info, context);
  } else if (before.sa_handler == SIG_DFL || before.sa_handler == SIG_IGN) {
    signal(number, SIG_DFL);  // the access is repeated and kills the process, as it would have
  } else {
    before.sa_handler(number);
  }
}

#if MEMBRANE_GUARD_PAGES
bool in_guest_memory(const Instance* instance, const void* address) {
  if (instance == nullptr || Machine::memory(*instance) == nullptr) return false;
  const uint8_t* const base = Machine::memory(*instance)->base();
  const auto* const at = static_cast<const uint8_t*>(address);
  return at >= base && at < base + Memory::kRegionBytes + Memory::kGuardBytes;
}

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

void handle(int number, siginfo_t* info, void* context) {
  Execution* const ex = running;
  const Registers registers = registers_in(context);
  const auto* const at = reinterpret_cast<const char*>(registers.pc);
  if (ex != nullptr && native::in_arena(at) && in_guest_memory(Machine::state(*ex).instance, info->si_addr))
    return native::leave_at_fault(*Machine::state(*ex).native, context);
  if (ex == nullptr || at < __start_membrane_interpreter || at >= __stop_membrane_interpreter ||
      !in_guest_memory(Machine::state(*ex).instance, info->si_addr))
    return forward(number, info, context);
  MachineState& machine = Machine::state(*ex);
  machine.ip = reinterpret_cast<const Word*>(registers.ip);
  machine.fp = reinterpret_cast<uint64_t*>(registers.fp);
  machine.fuel = static_cast<int64_t>(registers.fuel);
  siglongjmp(Machine::fault_jump(*ex), 1);
}
#else
void handle(int number, siginfo_t* info, void* context) { forward(number, info, context); }
#endif

// A sanitizer that is left from a stack of signals looks for the usual one in /proc, which a worker does not have.
constexpr int kOnItsOwnStack = kIsSanitized ? 0 : SA_ONSTACK;

}  // namespace

void install_fault_handler() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action{};
    action.sa_sigaction = handle;
    action.sa_flags = SA_SIGINFO | SA_NODEFER | kOnItsOwnStack;
    sigemptyset(&action.sa_mask);
    sigaction(SIGSEGV, &action, &previous[0]);
    sigaction(SIGBUS, &action, &previous[1]);
  });
}

RunningScope::RunningScope(Execution& ex) {
  Machine::outer(ex) = running;
  running = &ex;
}

RunningScope::~RunningScope() { running = Machine::outer(*running); }

}  // namespace membrane::engine
