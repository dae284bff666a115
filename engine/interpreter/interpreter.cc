#include "engine/interpreter/interpreter.h"

#include <algorithm>
#include <utility>

#include "engine/interpreter/handler.h"
#include "engine/interpreter/interpreted_code.h"

namespace membrane::engine {

bool refill_slice(Run& run, int64_t& fuel, uint64_t needed, uint64_t slice) {
  MachineState& m = Machine::state(run);
  const ExecutionLimits& limits = Machine::limits(run);
  const bool polls = m.fuel_until_poll == 0;
  if (polls) m.fuel_until_poll = limits.poll_interval_fuel;
  const int64_t lacking = static_cast<int64_t>(needed) - fuel;
  const uint64_t wanted = std::max<uint64_t>(std::min(slice, m.fuel_until_poll), lacking > 0 ? lacking : 0);
  const uint64_t taken = std::min(m.fuel_reserve, wanted);
  m.fuel_reserve -= taken;
  fuel += static_cast<int64_t>(taken);
  m.fuel_until_poll -= std::min(wanted, m.fuel_until_poll);
  return polls && limits.poll && limits.poll();
}

namespace handlers {

namespace {

// The interpreter's slices are short where functions may be compiled: the function that is running when one ends
// usually uses much fuel, and is worth compiling. This finds hot functions at no cost in the code, and the same
// ones in every run.
bool samples_functions(Run& run) {
  const FunctionCode* const function = Machine::state(run).top->function;
  return function->module->tier() != Tier::kInterpreter;
}
uint64_t slice_of(Run& run) {
  const uint64_t slice = Machine::limits(run).poll_interval_fuel;
  return samples_functions(run) ? std::min(kSampleFuel, slice) : slice;
}

}  // namespace

// ip is after a header whose cost the slice did not cover.
HANDLER(refill) {
  const uint32_t cost = ip[-1].header.cost;
  fuel += cost;
  const bool ends_sample =
      std::exchange(Machine::state(*run).sample_fuel, kSampleFuel) != 0 && samples_functions(*run);
  const bool interrupted = refill_slice(*run, fuel, cost, slice_of(*run));
  if (interrupted) return stop(PASS_REGISTERS(ip - 1), RunState::kInterrupted);
  if (fuel < static_cast<int64_t>(cost)) return stop(PASS_REGISTERS(ip - 1), RunState::kOutOfFuel);
  if (ends_sample && cost != 0) return hand_over(PASS_REGISTERS(ip - 1), Where::kTierUp);
  fuel -= cost;
  DISPATCH(ip);
}

// ip is a bulk operation that lacks `fuel_needed`; word 1 says how far back its header is.
HANDLER(refill_for_bulk) {
  const Word* const header = ip - ip[1].slots.d;
  const uint64_t needed = Machine::state(*run).fuel_needed;
  // Where functions are sampled it gets no more than it needs, and the sample ends at the next header.
  const uint64_t slice = samples_functions(*run) ? 0 : slice_of(*run);
  const bool interrupted = refill_slice(*run, fuel, needed, slice);
  if (!interrupted && fuel >= static_cast<int64_t>(needed)) DISPATCH(ip);
  fuel += header->header.cost;
  return stop(PASS_REGISTERS(header), interrupted ? RunState::kInterrupted : RunState::kOutOfFuel);
}

HANDLER(kExit) { stop(PASS_REGISTERS(ip), RunState::kFinished); }

HANDLER(kEnterNative) { hand_over(PASS_REGISTERS(ip), Where::kNativeCall); }

// The frame that returned left its results at fp.
HANDLER(kReturnToNative) { hand_over(PASS_REGISTERS(ip), Where::kNativeReturn); }

// Where a run begins, or continues after a pause at a header.
static HANDLER(begin) { ENTER(ip); }

}  // namespace handlers

namespace {

Word header_of_stub() {
  Word w{};
  w.header = {0, 0};
  return w;
}
Word handler_word(Handler handler) {
  Word w{};
  w.handler = handler;
  return w;
}

#if !MEMBRANE_TAIL_CALLS
void loop(Run* run) {
  MachineState& m = Machine::state(*run);
  while (m.state == RunState::kReady && m.where == Where::kInterpreter)
    m.ip->handler(m.ip, m.fp, m.fuel, m.memory, run, m.acc, m.acc64, m.acc32);
}
#endif

}  // namespace

bool is_tail_call(Handler handler) {
  return handler == handlers::kReturnCallImport || handler == handlers::kReturnCallRef ||
         handler == handlers::kReturnCallIndirect || handler == handlers::tail_call_instance;
}

const Handler kHandlers[] = {
#define E(operation) handlers::operation,
#include "engine/code/operations_each.def"
};

const Word kTranslateStub[2] = {header_of_stub(), handler_word(handlers::kTranslate)};
const Word kNativeStub[2] = {header_of_stub(), handler_word(handlers::kEnterNative)};
const Word kExitStub[2] = {header_of_stub(), handler_word(handlers::kExit)};
const Word kReturnToNativeStub[2] = {header_of_stub(), handler_word(handlers::kReturnToNative)};
const Word kCrossReturnStub[2] = {header_of_stub(), handler_word(handlers::kCrossReturn)};
// The word after the handler says where the arguments begin: at the start of the frame.
const Word kTailHostStub[2] = {handler_word(handlers::tail_call_instance), Word{}};

void interpret(Run& run) {
  MachineState& m = Machine::state(run);
  m.memory = Machine::memory_base(*m.instance);
  m.state = RunState::kReady;
  const InterpretedCode scope(run);
  if (sigsetjmp(Machine::fault_jump(run), 0) != 0) {
    m.trap_kind = TrapKind::kMemoryOutOfBounds;
    m.state = RunState::kTrapped;
    return;
  }
  const bool at_call = std::exchange(m.at_call, false), has_callee = std::exchange(m.has_callee, false);
  const Handler handler = !at_call                      ? handlers::begin
                          : !has_callee                 ? m.ip->handler
                          : is_tail_call(m.ip->handler) ? handlers::tail_call_instance
                                                        : handlers::call_instance;
  handler(m.ip, m.fp, m.fuel, m.memory, &run, 0, 0, 0);
#if !MEMBRANE_TAIL_CALLS
  loop(&run);
#endif
}

}  // namespace membrane::engine
