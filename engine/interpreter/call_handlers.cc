// The handlers of calls, returns and tail calls: of the instance's own functions, of those of other instances, of the host and of
// compiled code.
#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/heap/runtime_types.h"
#include "engine/interpreter/handler.h"
#include "engine/interpreter/interpreter.h"

namespace membrane::engine::handlers {

#define LEAVE_FRAME()                             \
  do {                                            \
    FrameRecord*& top = Machine::state(*run).top; \
    const Word* const return_ip = top->return_ip; \
    fp = top->fp;                                 \
    --top;                                        \
    ENTER(return_ip);                             \
  } while (false)

HANDLER(kReturn) { LEAVE_FRAME(); }

HANDLER(kReturnOne) {
  fp[0] = fp[ip[1].slots.a];
  LEAVE_FRAME();
}

HANDLER(kReturnOneA) {
  fp[0] = acc;
  LEAVE_FRAME();
}

HANDLER(kReturnVector) {
  put_vector(fp, vector_at(fp + ip[1].slots.a));
  LEAVE_FRAME();
}

HANDLER(kReturnMany) {  // first, slots
  std::memmove(fp, fp + ip[1].slots.a, ip[1].slots.b * sizeof(uint64_t));
  LEAVE_FRAME();
}

// Makes the frame of `callee`, whose arguments begin at `arguments`, and goes there.
#define ENTER_FUNCTION(callee, arguments, return_to)                                                    \
  do {                                                                                                  \
    MachineState& machine = Machine::state(*run);                                                       \
    const FunctionCode* const function = (callee);                                                      \
    uint64_t* const frame = (arguments);                                                                \
    FrameRecord* const record = machine.top + 1;                                                        \
    if (frame + function->frame_slots > machine.stack_end || record >= machine.frames_end) [[unlikely]] \
      TRAP(kStackOverflow);                                                                             \
    record->return_ip = (return_to);                                                                    \
    record->fp = fp;                                                                                    \
    record->function = function;                                                                        \
    machine.top = record;                                                                               \
    for (uint32_t i = 0; i < function->zero_slots; ++i) frame[function->param_slots + i] = 0;           \
    fp = frame;                                                                                         \
    ENTER(function->entry.load(std::memory_order_acquire));                                             \
  } while (false)

HANDLER(kCall) {  // arguments; the callee's FunctionCode
  ENTER_FUNCTION(ip[2].function, fp + ip[1].slots.a, ip + 3);
}

namespace {

// Calls the host. The results replace the arguments.
HostAction call_host(Run& run, FunctionInstance& target, uint64_t* slots) {
  MachineState& m = Machine::state(run);
  HostCall call{run, m.instance, {slots, target.param_slots}, {slots, target.result_slots}, {}};
  const HostAction action = (*target.host)(call);
  if (action == HostAction::kTrap) {
    m.trap_kind = TrapKind::kHost;
    m.trap_message = std::move(call.trap_message);
  }
  return action;
}

}  // namespace

// Calls through a FunctionInstance: the host's, the own instance's or another's. Word 1 names where the
// arguments begin; the call has three words.
HANDLER(call_instance) {
  FunctionInstance& target = *Machine::state(*run).callee;
  uint64_t* const arguments = fp + ip[1].slots.a;
  MachineState& m = Machine::state(*run);
  if (target.code == nullptr) {
    const uint64_t slots = std::max(target.param_slots, target.result_slots);
    if (arguments + slots > m.stack_end) TRAP(kStackOverflow);
    save(PASS_REGISTERS(ip));
    const HostAction action = call_host(*run, target, arguments);
    fuel = m.fuel;  // the host may have charged
    if (action == HostAction::kTrap) return trapped(PASS_REGISTERS(ip));
    if (action == HostAction::kOutOfFuel) {
      m.at_call = m.has_callee = true;
      return stop(PASS_REGISTERS(ip), RunState::kOutOfFuel);
    }
    if (action == HostAction::kInterrupt) return stop(PASS_REGISTERS(ip + 3), RunState::kInterrupted);
    if (action == HostAction::kExit) return stop(PASS_REGISTERS(ip), RunState::kExited);
    ENTER(ip + 3);
  }
  if (target.instance == Machine::home(*m.instance)) ENTER_FUNCTION(target.code, arguments, ip + 3);
  if (m.top + 2 >= m.frames_end) TRAP(kStackOverflow);
  FrameRecord* const crossing = ++m.top;
  *crossing = {ip + 3, fp, nullptr, m.instance};
  if (arguments + target.code->frame_slots > m.stack_end) {
    --m.top;
    TRAP(kStackOverflow);
  }
  m.instance = target.instance;
  memory = Machine::memory_base(*target.instance);
  ENTER_FUNCTION(target.code, arguments, kCrossReturnStub);
}

HANDLER(kCrossReturn) {
  MachineState& m = Machine::state(*run);
  const FrameRecord& crossing = *m.top;
  m.instance = crossing.instance;
  memory = Machine::memory_base(*m.instance);
  LEAVE_FRAME();
}

HANDLER(kCallImport) {  // arguments; function index
  MachineState& m = Machine::state(*run);
  m.callee = Machine::function(*m.instance, static_cast<uint32_t>(ip[2].constant));
  GO_TO(call_instance);
}

namespace {

// The function that a call through a table reaches; null when the call traps, and trap_kind says why.
// `type_and_table` is word 2 of the call.
MEMBRANE_INLINE FunctionInstance* find_target(Run* run, uint64_t slot, uint64_t type_and_table) {
  MachineState& m = Machine::state(*run);
  const TableElements& elements = table_of(run, type_and_table >> 32).elements;
  const uint32_t index = static_cast<uint32_t>(slot);
  if (index >= elements.size()) [[unlikely]] {
    m.trap_kind = TrapKind::kUndefinedElement;
    return nullptr;
  }
  FunctionInstance* const target = Machine::target(*m.instance, elements[index]);
  if (target == nullptr) [[unlikely]] {
    m.trap_kind = TrapKind::kUninitializedElement;
    return nullptr;
  }
  const wasm::FuncType* const wanted = Machine::type(*m.instance, static_cast<uint32_t>(type_and_table));
  if (target->type != wanted && !is_subtype(target->type, wanted)) [[unlikely]] {
    m.trap_kind = TrapKind::kIndirectCallTypeMismatch;
    return nullptr;
  }
  return target;
}

}  // namespace

HANDLER(kCallIndirect) {  // arguments, index; type and table
  MachineState& m = Machine::state(*run);
  FunctionInstance* const target = find_target(run, fp[ip[1].slots.b], ip[2].constant);
  if (target == nullptr) [[unlikely]]
    return trapped(PASS_REGISTERS(ip));
  if (target->instance == Machine::home(*m.instance) && target->code != nullptr)
    ENTER_FUNCTION(target->code, fp + ip[1].slots.a, ip + 3);
  m.callee = target;
  GO_TO(call_instance);
}

HANDLER(kCallRef) {  // arguments, function
  MachineState& m = Machine::state(*run);
  FunctionInstance* const target = Machine::target(*m.instance, fp[ip[1].slots.b]);
  if (target == nullptr) [[unlikely]]
    TRAP(kNullFunction);
  if (target->instance == Machine::home(*m.instance) && target->code != nullptr)
    ENTER_FUNCTION(target->code, fp + ip[1].slots.a, ip + 3);
  m.callee = target;
  GO_TO(call_instance);
}

// -- tail calls: the frame becomes the callee's. Its record keeps the caller's return address. --------------

#define REPLACE_FUNCTION(callee, arguments)                                                \
  do {                                                                                     \
    MachineState& machine = Machine::state(*run);                                          \
    const FunctionCode* const function = (callee);                                         \
    if (fp + function->frame_slots > machine.stack_end) [[unlikely]]                       \
      TRAP(kStackOverflow);                                                                \
    std::memmove(fp, (arguments), function->param_slots * sizeof(uint64_t));               \
    machine.top->function = function;                                                      \
    for (uint32_t i = 0; i < function->zero_slots; ++i) fp[function->param_slots + i] = 0; \
    ENTER(function->entry.load(std::memory_order_acquire));                                \
  } while (false)

HANDLER(kReturnCall) {  // arguments; the callee's FunctionCode
  REPLACE_FUNCTION(ip[2].function, fp + ip[1].slots.a);
}

namespace {

// A frame whose code belongs to another instance than its caller's has a crossing below it. It stays for
// the next callee in that frame, so that instances that tail-call each other need only one.
bool make_crossing(MachineState& m) {
  if (m.top->return_ip == kCrossReturnStub) return true;
  if (m.top + 1 >= m.frames_end) return false;
  FrameRecord* const crossing = m.top++;
  *m.top = {kCrossReturnStub, crossing->fp, crossing->function, nullptr};
  *crossing = {crossing->return_ip, crossing->fp, nullptr, m.instance};
  return true;
}

}  // namespace

// The host's results become those of the frame.
static HANDLER(tail_call_host) {
  MachineState& m = Machine::state(*run);
  FunctionInstance& target = *m.callee;
  uint64_t* const arguments = fp + ip[1].slots.a;
  if (arguments + std::max(target.param_slots, target.result_slots) > m.stack_end) TRAP(kStackOverflow);
  save(PASS_REGISTERS(ip));
  const HostAction action = call_host(*run, target, arguments);
  fuel = m.fuel;  // the host may have charged
  if (action == HostAction::kTrap) return trapped(PASS_REGISTERS(ip));
  if (action == HostAction::kOutOfFuel) {
    m.at_call = m.has_callee = true;
    return stop(PASS_REGISTERS(ip), RunState::kOutOfFuel);
  }
  if (action == HostAction::kExit) return stop(PASS_REGISTERS(ip), RunState::kExited);
  std::memmove(fp, arguments, target.result_slots * sizeof(uint64_t));
  if (action == HostAction::kInterrupt) {
    const Word* const return_ip = m.top->return_ip;
    fp = m.top->fp;
    --m.top;
    return stop(PASS_REGISTERS(return_ip), RunState::kInterrupted);
  }
  LEAVE_FRAME();
}

HANDLER(tail_call_instance) {
  MachineState& m = Machine::state(*run);
  const FunctionInstance& target = *m.callee;
  if (target.code == nullptr) GO_TO(tail_call_host);
  uint64_t* const arguments = fp + ip[1].slots.a;
  if (target.instance == Machine::home(*m.instance)) REPLACE_FUNCTION(target.code, arguments);
  if (fp + target.code->frame_slots > m.stack_end || !make_crossing(m)) TRAP(kStackOverflow);
  m.instance = target.instance;
  memory = Machine::memory_base(*target.instance);
  REPLACE_FUNCTION(target.code, arguments);
}

HANDLER(kReturnCallImport) {  // arguments; function index
  MachineState& m = Machine::state(*run);
  m.callee = Machine::function(*m.instance, static_cast<uint32_t>(ip[2].constant));
  GO_TO(tail_call_instance);
}

HANDLER(kReturnCallIndirect) {  // arguments, index; type and table
  FunctionInstance* const target = find_target(run, fp[ip[1].slots.b], ip[2].constant);
  if (target == nullptr) [[unlikely]]
    return trapped(PASS_REGISTERS(ip));
  Machine::state(*run).callee = target;
  GO_TO(tail_call_instance);
}

HANDLER(kReturnCallRef) {  // arguments, function
  MachineState& m = Machine::state(*run);
  FunctionInstance* const target = Machine::target(*m.instance, fp[ip[1].slots.b]);
  if (target == nullptr) [[unlikely]]
    TRAP(kNullFunction);
  m.callee = target;
  GO_TO(tail_call_instance);
}

namespace {

bool translate_and_poll(Run& run) {
  const FunctionCode& function = *Machine::state(run).top->function;
  function.module->translate_function(function.index);
  const ExecutionLimits& limits = Machine::limits(run);
  return limits.poll && limits.poll();
}

}  // namespace

HANDLER(kTranslate) {
  const bool interrupted = translate_and_poll(*run);
  const Word* const entry = Machine::state(*run).top->function->entry.load(std::memory_order_acquire);
  if (interrupted) return stop(PASS_REGISTERS(entry), RunState::kInterrupted);
  ENTER(entry);
}

}  // namespace membrane::engine::handlers
