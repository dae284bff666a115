#include "engine/native/runtime.h"

#include <ucontext.h>

#include <algorithm>
#include <cstring>

#include "engine/code/fuel.h"
#include "engine/code/numeric.h"
#include "engine/instance/machine.h"
#include "engine/interpreter/bulk.h"
#include "engine/interpreter/interpreter.h"
#include "engine/memory/fault.h"
#include "engine/native/assembler.h"
#include "engine/native/trampolines.h"
#include "wasm/opcode.h"

namespace membrane::engine::native {

const void* return_to_interpreter() { return Trampolines::instance().returned; }

namespace {

class RunningCode final : public GuestCode {
 public:
  explicit RunningCode(Run& run) : run_(run) {}

  // Makes the thread leave compiled code, by the registers with which it continues.
  bool take_fault([[maybe_unused]] const void* address, [[maybe_unused]] void* context) override {
#if MEMBRANE_GUARD_PAGES && defined(__x86_64__)
    greg_t* const registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
    const auto* const pc = reinterpret_cast<const uint8_t*>(registers[REG_RIP]);
    MachineState& m = Machine::state(run_);
    if (!in_arena(pc) || !Machine::reserves(m.instance, address)) return false;
    m.native->pc = pc;
    registers[REG_RIP] = reinterpret_cast<greg_t>(Trampolines::instance().exit_fault);
    return true;
#else
    return false;  // no compiled code runs here, or none that faults
#endif
  }

 private:
  [[maybe_unused]] Run& run_;
};

// -- what is worth compiling --
//
// The interpreter samples which functions use its fuel (kSampleFuel). That finds loops, but finds many short
// functions too late; but around each of them that is compiled, a run crosses between compiled code and the
// interpreter, and a crossing costs as much as a hundred instructions. A function is compiled when its crossings
// have cost about as much as compiling it will: so neither is ever much more than the least that it could be.
constexpr uint32_t kLeastCrossings = 16;
constexpr uint32_t kBytesForCrossing = 8;  // of a body, which are compiled in the time of a crossing

uint32_t worthwhile_crossings(const FunctionCode& f) {
  return kLeastCrossings + f.module->module().functions[f.index].code.size / kBytesForCrossing;
}

// Counts a crossing into the interpreted code of `f`. True when the crossings since the last true have added
// up.
bool adds_up(const FunctionCode& f) {
  if (f.module->tier() != Tier::kAuto) return false;
  const uint32_t count = f.crossings.load(std::memory_order_relaxed) + 1;
  f.crossings.store(count, std::memory_order_relaxed);
  return count % worthwhile_crossings(f) == 0;
}

bool compile(const FunctionCode& f) { return f.module->native_code().compile_function(f.index); }

// Whether a function that compiled code calls need not be interpreted.
bool has_code(const FunctionCode& f) {
  return f.native_code.load(std::memory_order_acquire) != nullptr || (adds_up(f) && compile(f));
}

// One visit to compiled code.
class Visit {
 public:
  explicit Visit(Run& run)
      : run_(run), m_(Machine::state(run)), n_(*m_.native), frames_(Machine::frames(run)) {}

  void run();

 private:
  [[nodiscard]] uint64_t* frame() const { return reinterpret_cast<uint64_t*>(n_.registers[rbp]); }
  void set_frame(uint64_t* fp) { n_.registers[rbp] = reinterpret_cast<uint64_t>(fp); }
  // Of the frame whose return address rsp points to; -1 after the return of the outermost.
  [[nodiscard]] ptrdiff_t depth() const { return n_.top - n_.rsp; }
  // Whether the frame's caller is the interpreter, whose record it then has.
  [[nodiscard]] bool has_record() const {
    return *n_.rsp == reinterpret_cast<uint64_t>(return_to_interpreter());
  }
  void bind();
  void enter_callee();
  bool go_on();  // false: compiled code does not run next
  void after_fuel();
  bool cover(uint64_t price, Charge charge);
  void take_return_address();
  void enter_interpreter(FrameRecord* record);
  void extend_slice();
  void shorten_slice();
  void call_interpreter(const FunctionCode& callee);
  void call_instance(FunctionInstance& target);
  void tail_call(FunctionInstance& target, uint64_t* arguments);
  void tail_call_host(FunctionInstance& target, uint64_t* arguments);
  void call_host(FunctionInstance& target);
  void return_to_caller(uint64_t* results);
  void returned();
  void helper();
  void trap(TrapKind kind);
  void overflow_in_caller();
  void stop(RunState state) { m_.state = state; }

  // -- helpers' work
  static constexpr uint32_t kNoTable = UINT32_MAX;
  [[nodiscard]] bool is_wide(uint32_t table) const { return Machine::table(*m_.instance, table)->is_64; }
  // An index of a table as 32 bits that are in bounds if and only if it was.
  [[nodiscard]] uint64_t clamped(uint64_t slot, uint32_t table) const {
    return table != kNoTable && is_wide(table) ? std::min<uint64_t>(slot, UINT32_MAX) : slot;
  }
  bool pay(const HelperCall& call, uint64_t price);
  void convert(wasm::Opcode op, uint64_t& slot);
  void access_table(const HelperCall& call, uint64_t* slots);
  void grow(const HelperCall& call, uint64_t* slots);
  void throw_tag(const HelperCall& call, const uint64_t* slots);
  void throw_reference(const HelperCall& call, uint64_t reference);
  void raise(const HelperCall& call);
  void bulk(const HelperCall& call, const BulkWork& work, TrapKind out_of_bounds);

  Run& run_;
  MachineState& m_;
  NativeState& n_;
  FrameRecord* const frames_;
};

void Visit::bind() {
  Instance& instance = *m_.instance;
  n_.home = Machine::home(instance);
  n_.functions = instance.compiled().functions();
  n_.globals = Machine::globals(instance);
  n_.memories = Machine::memories(instance).data();
  n_.tables = Machine::tables(instance).data();
  n_.types = Machine::types(instance);
  n_.imports = Machine::imports(instance).data();
  n_.own_functions = Machine::own_functions(instance);
  n_.stack_end = m_.stack_end;
  n_.registers[rbx] = reinterpret_cast<uint64_t>(Machine::memory_base(instance));
}

// The interpreter has made the record of a compiled function's frame.
void Visit::enter_callee() {
  const size_t depth = static_cast<size_t>(m_.top - frames_);
  n_.rsp = n_.top - depth;
  // After a tail call from a frame that compiled code has called, its return address is there already.
  if (m_.top->return_ip != kReturnToNativeStub) *n_.rsp = reinterpret_cast<uint64_t>(return_to_interpreter());
  set_frame(m_.fp);
  n_.pc = m_.top->function->native_code.load(std::memory_order_acquire);
}

void Visit::run() {
  bind();
  if (m_.where == Where::kNativeCall) enter_callee();
  if (m_.where == Where::kNativeReturn) {
    n_.rsp = n_.top - (m_.top - frames_ + 1);  // the record of the frame that returned is gone already
    return_to_caller(m_.fp);
    set_frame(m_.fp);
  }
  m_.where = Where::kNative;
  m_.state = RunState::kReady;
  extend_slice();
  const RunningCode scope(run_);
  do {
    n_.registers[r15] = static_cast<uint64_t>(m_.fuel);
    Trampolines::instance().enter(&n_);
    m_.fuel = static_cast<int64_t>(n_.registers[r15]);
  } while (go_on());
  shorten_slice();
}

// Compiled code runs up to the next poll: notes what the interpreter has left of its sample, and adds the slices to
// come.
void Visit::extend_slice() {
  if (m_.sample_fuel != 0) m_.sample_fuel = std::max<uint64_t>(1, static_cast<uint64_t>(m_.fuel));
  const uint64_t more = std::min(m_.fuel_until_poll, m_.fuel_reserve);
  m_.fuel += static_cast<int64_t>(more);
  m_.fuel_reserve -= more;
  m_.fuel_until_poll -= more;
}

// The interpreter continues with its sample: otherwise functions that compiled code calls, each for a short while,
// would never be seen.
void Visit::shorten_slice() {
  if (m_.sample_fuel == 0) m_.sample_fuel = kSampleFuel;
  const uint64_t fuel = static_cast<uint64_t>(m_.fuel), kept = std::min(fuel, m_.sample_fuel);
  m_.fuel = static_cast<int64_t>(kept);
  m_.fuel_reserve += fuel - kept;
  m_.fuel_until_poll += fuel - kept;
}

bool Visit::go_on() {
  switch (static_cast<Exit>(n_.exit)) {
    case Exit::kFuel: after_fuel(); break;
    case Exit::kCall: call_interpreter(*reinterpret_cast<const FunctionCode*>(n_.registers[rax])); break;
    case Exit::kInstance: call_instance(*Machine::target(*m_.instance, n_.registers[rax])); break;
    case Exit::kReturned: returned(); break;
    case Exit::kHelper: helper(); break;
    case Exit::kOverflow: overflow_in_caller(); break;
    case Exit::kFault: trap(TrapKind::kMemoryOutOfBounds); break;
    default: trap(static_cast<TrapKind>(n_.exit - static_cast<uint64_t>(Exit::kTrap))); break;
  }
  return m_.state == RunState::kReady && m_.where == Where::kNative;
}

void Visit::trap(TrapKind kind) {
  m_.trap_kind = kind;
  stop(RunState::kTrapped);
}

void Visit::after_fuel() {
  const Charge charge = Charge::of_stub(n_.pc);
  m_.fuel += charge.cost();
  if (!cover(charge.cost(), charge)) return;
  m_.fuel -= charge.cost();
  n_.pc = charge.end();
}

// Makes the slice cover `price`, or pauses at the charge, whose cost was already refunded.
bool Visit::cover(uint64_t price, Charge charge) {
  const bool interrupted = refill_slice(run_, m_.fuel, price, Machine::limits(run_).poll_interval_fuel);
  if (!interrupted && m_.fuel >= static_cast<int64_t>(price)) return true;
  n_.pc = charge.at;
  stop(interrupted ? RunState::kInterrupted : RunState::kOutOfFuel);
  return false;
}

// Continues after the call whose return address rsp points to.
void Visit::take_return_address() {
  n_.pc = reinterpret_cast<const uint8_t*>(*n_.rsp);
  ++n_.rsp;
}

// rsp points to the return address of a frame that cannot be made: the run traps at the call.
void Visit::overflow_in_caller() {
  take_return_address();
  trap(TrapKind::kStackOverflow);
}

void Visit::call_interpreter(const FunctionCode& callee) {
  if (has_code(callee)) {
    n_.pc = callee.native_code.load(std::memory_order_acquire);
    return;
  }
  FrameRecord* const record = frames_ + depth();
  if (frame() + callee.frame_slots > m_.stack_end || record >= m_.frames_end) return overflow_in_caller();
  if (has_record()) record->function = &callee;  // by a tail call
  else *record = {kReturnToNativeStub, frame(), &callee, nullptr};
  enter_interpreter(record);
}

// The record of the frame at rbp is made: the interpreter runs its function.
void Visit::enter_interpreter(FrameRecord* record) {
  const FunctionCode& callee = *record->function;
  m_.top = record;
  std::fill_n(frame() + callee.param_slots, callee.zero_slots, 0);
  m_.fp = frame();
  m_.ip = callee.entry.load(std::memory_order_acquire);
  m_.where = Where::kInterpreter;
}

// A call is over: continues after it, with the first result where compiled code looks for it.
void Visit::return_to_caller(uint64_t* results) {
  take_return_address();
  n_.registers[rax] = results[0];
  n_.reals[0][0] = results[0];
  n_.reals[0][1] = results + 1 < m_.stack_end ? results[1] : 0;  // of a vector
}

void Visit::call_host(FunctionInstance& target) {
  uint64_t* const slots = frame();
  if (slots + std::max(target.param_slots, target.result_slots) > m_.stack_end) return overflow_in_caller();
  HostCall call{run_, m_.instance, {slots, target.param_slots}, {slots, target.result_slots}, {}};
  const HostAction action = (*target.host)(call);
  switch (action) {
    case HostAction::kTrap:
      m_.trap_message = std::move(call.trap_message);
      take_return_address();
      return trap(TrapKind::kHost);
    case HostAction::kOutOfFuel:  // the call is made again: registers and return address are as they were
      n_.pc = static_cast<const uint8_t*>(n_.exit_instance);
      return stop(RunState::kOutOfFuel);
    case HostAction::kExit: return stop(RunState::kExited);
    case HostAction::kContinue: return return_to_caller(slots);
    case HostAction::kInterrupt: return_to_caller(slots); return stop(RunState::kInterrupted);
  }
}

void Visit::call_instance(FunctionInstance& target) {
  if (target.code == nullptr) return call_host(target);
  if (target.instance == Machine::home(*m_.instance)) return call_interpreter(*target.code);
  FrameRecord* const crossing = frames_ + depth();
  const FunctionCode& callee = *target.code;
  static_cast<void>(has_code(callee));
  if (crossing + 1 >= m_.frames_end || frame() + callee.frame_slots > m_.stack_end)
    return overflow_in_caller();
  *crossing = {kReturnToNativeStub, frame(), nullptr, m_.instance};
  crossing[1] = {kCrossReturnStub, frame(), &callee, nullptr};
  m_.instance = target.instance;
  enter_interpreter(crossing + 1);
}

// The frame becomes that of a function that compiled code cannot jump to. pc is after the call that left.
void Visit::tail_call(FunctionInstance& target, uint64_t* arguments) {
  if (target.code == nullptr) return tail_call_host(target, arguments);
  const FunctionCode& callee = *target.code;
  static_cast<void>(has_code(callee));
  FrameRecord* record = frames_ + depth();
  if (frame() + callee.frame_slots > m_.stack_end) return trap(TrapKind::kStackOverflow);
  if (!has_record()) *record = {kReturnToNativeStub, frame(), nullptr, nullptr};
  const bool crosses = target.instance != Machine::home(*m_.instance);
  if (crosses && record->return_ip != kCrossReturnStub) {  // as make_crossing() does
    if (record + 1 >= m_.frames_end) return trap(TrapKind::kStackOverflow);
    record[1] = {kCrossReturnStub, record->fp, nullptr, nullptr};
    record->function = nullptr;
    record->instance = m_.instance;
    ++record;
  }
  record->function = &callee;
  if (crosses) m_.instance = target.instance;
  std::memmove(frame(), arguments, callee.param_slots * sizeof(uint64_t));
  enter_interpreter(record);
}

// The host's results become those of the frame.
void Visit::tail_call_host(FunctionInstance& target, uint64_t* arguments) {
  if (arguments + std::max(target.param_slots, target.result_slots) > m_.stack_end)
    return trap(TrapKind::kStackOverflow);
  HostCall call{run_, m_.instance, {arguments, target.param_slots}, {arguments, target.result_slots}, {}};
  m_.tail_host = &target;
  m_.tail_arguments = arguments;
  const HostAction action = (*target.host)(call);
  if (action != HostAction::kOutOfFuel) m_.tail_host = nullptr;
  switch (action) {
    case HostAction::kTrap: m_.trap_message = std::move(call.trap_message); return trap(TrapKind::kHost);
    case HostAction::kOutOfFuel:  // the call is made again
      n_.pc -= kExitCallBytes;
      return stop(RunState::kOutOfFuel);
    case HostAction::kExit: return stop(RunState::kExited);
    case HostAction::kContinue:
    case HostAction::kInterrupt: break;
  }
  std::memmove(frame(), arguments, target.result_slots * sizeof(uint64_t));
  const bool to_interpreter = has_record();
  return_to_caller(frame());
  if (action == HostAction::kContinue) return;
  if (to_interpreter) returned();
  stop(RunState::kInterrupted);
}

// The frame that returned was called by the interpreter, whose record it has.
void Visit::returned() {
  const FrameRecord* const record = frames_ + depth() + 1;
  m_.ip = record->return_ip;
  m_.fp = record->fp;
  m_.top = frames_ + depth();
  m_.where = Where::kInterpreter;
  if (m_.ip->header.cost == 0) return;  // no function's code, and there may be no frame
  const FunctionCode* const function = m_.top->function;
  if (!adds_up(*function)) return;
  // The first time, the function is compiled for its next calls. A frame that still returns to the interpreter
  // as often is in a loop, and itself continues in compiled code.
  if (function->native_code.load(std::memory_order_acquire) != nullptr) m_.where = Where::kTierUp;
  else static_cast<void>(compile(*function));
}

// -- helpers --------------------------------------------------------------------------------------------------------

// Takes the price of a bulk operation, or pauses at the charge before it.
bool Visit::pay(const HelperCall& call, uint64_t price) {
  const Charge charge{n_.pc - call.distance};
  if (m_.fuel < static_cast<int64_t>(price) && !cover(price, charge)) {
    m_.fuel += charge.cost();
    return false;
  }
  m_.fuel -= static_cast<int64_t>(price);
  return true;
}

void Visit::helper() {
  using enum wasm::Opcode;
  HelperCall call;
  std::memcpy(&call, n_.pc, sizeof call);
  uint64_t* const slots = frame() + call.slot;
  const auto op = static_cast<wasm::Opcode>(call.helper);
  const uint8_t* const pc = n_.pc;
  const uint64_t indices = uint64_t{call.index} | uint64_t{call.index2} << 32;
  const auto in_memory = [&](const BulkWork& work) { bulk(call, work, TrapKind::kMemoryOutOfBounds); };
  const auto in_table = [&](const BulkWork& work) { bulk(call, work, TrapKind::kTableOutOfBounds); };
  switch (op) {
    case kMemorySize: slots[0] = Machine::memory(*m_.instance, call.index).pages(); break;
    case kMemoryGrow:
    case kTableGrow: grow(call, slots); break;
    case kMemoryFill: in_memory(memory_fill(*m_.instance, slots[0], slots[1], slots[2], indices)); break;
    case kMemoryCopy: in_memory(memory_copy(*m_.instance, slots[0], slots[1], slots[2], indices)); break;
    case kMemoryInit: in_memory(memory_init(*m_.instance, slots[0], slots[1], slots[2], indices)); break;
    case kTableFill:
      in_table(table_fill(*m_.instance, clamped(slots[0], call.index), clamped(slots[1], kNoTable),
                          clamped(slots[2], call.index), indices));
      break;
    case kTableCopy:
      in_table(table_copy(*m_.instance, clamped(slots[0], call.index), clamped(slots[1], call.index2),
                          clamped(slots[2], is_wide(call.index) ? call.index2 : call.index), indices));
      break;
    case kTableInit:
      in_table(table_init(*m_.instance, clamped(slots[0], call.index2), clamped(slots[1], kNoTable),
                          clamped(slots[2], kNoTable), indices));
      break;
    case kDataDrop: Machine::drop_data(*m_.instance, call.index); break;
    case kElemDrop: Machine::elements(*m_.instance, call.index) = {}; break;
    case kTableGet:
    case kTableSet:
    case kTableSize: access_table(call, slots); break;
    case kThrow: throw_tag(call, slots); break;
    case kThrowRef: throw_reference(call, slots[0]); break;
    case kReturnCall: tail_call(*Machine::function(*m_.instance, call.index), slots); break;
    case kReturnCallIndirect: tail_call(*Machine::target(*m_.instance, slots[call.index]), slots); break;
    case kCallIndirect: {
      const FunctionInstance* const target = Machine::target(*m_.instance, slots[0]);
      if (!is_subtype(target->type, Machine::type(*m_.instance, call.index)))
        trap(TrapKind::kIndirectCallTypeMismatch);
      break;
    }
    default: convert(op, slots[0]); break;
  }
  if (m_.state == RunState::kReady && n_.pc == pc) n_.pc += sizeof call;
}

void Visit::throw_tag(const HelperCall& call, const uint64_t* slots) {
  m_.throwing = {Machine::tag(*m_.instance, call.index), slots, 0, m_.throwing.looked_at};
  raise(call);
}

void Visit::throw_reference(const HelperCall& call, uint64_t reference) {
  const ExceptionArena::Exception* const exception = Machine::exceptions(*m_.instance).find(reference);
  if (exception == nullptr) return trap(TrapKind::kNullException);
  m_.throwing = {exception->tag, exception->payload(), reference, m_.throwing.looked_at};
  raise(call);
}

void Visit::raise(const HelperCall& call) {
  const CatchSearch found = run_.find_catch(static_cast<uint64_t>(m_.fuel) + m_.fuel_reserve);
  if (found.interrupted) {
    const Charge charge{n_.pc - call.distance};
    m_.fuel += charge.cost();
    n_.pc = charge.at;
    return stop(RunState::kInterrupted);
  }
  if (!pay(call, found.price)) return;
  if (found.clause == nullptr) {
    m_.trap_message = describe(m_.throwing);
    return trap(TrapKind::kUncaughtException);
  }
  if (run_.enter_catch(found) == Caught::kNoRoom) return trap(TrapKind::kTooManyExceptions);
  bind();
}

void Visit::grow(const HelperCall& call, uint64_t* slots) {
  Instance& instance = *m_.instance;
  if (static_cast<wasm::Opcode>(call.helper) == wasm::Opcode::kMemoryGrow) {
    Memory& memory = Machine::memory(instance, call.index);
    const uint64_t pages = number(slots[0], memory.is_64());
    if (memory.can_grow(pages) && !pay(call, memory_grow_cost(pages))) return;
    slots[0] = number(static_cast<uint64_t>(memory.grow(pages)), memory.is_64());
    return;
  }
  Table& table = *Machine::table(instance, call.index);
  const auto count = static_cast<uint32_t>(clamped(slots[1], call.index));
  if (table.can_grow(count) && !pay(call, bulk_table_cost(count))) return;
  slots[0] = number(static_cast<uint64_t>(table.grow(count, slots[0])), table.is_64);
}

void Visit::bulk(const HelperCall& call, const BulkWork& work, TrapKind out_of_bounds) {
  if (!work.in_bounds) return trap(out_of_bounds);
  if (pay(call, work.price)) work.perform();
}

void Visit::access_table(const HelperCall& call, uint64_t* slots) {
  using enum wasm::Opcode;
  TableElements& elements = Machine::table(*m_.instance, call.index)->elements;
  const auto op = static_cast<wasm::Opcode>(call.helper);
  if (op == kTableSize) {
    slots[0] = elements.size();
    return;
  }
  const auto index = static_cast<uint32_t>(clamped(slots[0], call.index));
  if (index >= elements.size()) return trap(TrapKind::kTableOutOfBounds);
  if (op == kTableGet) slots[0] = elements[index];
  else elements.writable()[index] = slots[1];
}

float f32_of(uint64_t slot) { return std::bit_cast<float>(static_cast<uint32_t>(slot)); }
double f64_of(uint64_t slot) { return std::bit_cast<double>(slot); }

void Visit::convert(wasm::Opcode op, uint64_t& slot) {
  using enum wasm::Opcode;
  using numeric::trunc_sat;
  const auto checked = [&]<typename I>(I, auto x) {
    if (x != x) return trap(TrapKind::kInvalidConversion);
    if (!numeric::truncation_fits<I>(x)) return trap(TrapKind::kIntegerOverflow);
    slot = static_cast<uint64_t>(static_cast<I>(x));
  };
  const float f32 = f32_of(slot);
  const double f64 = f64_of(slot);
  switch (op) {
    case kF32ConvertI64U: slot = std::bit_cast<uint32_t>(static_cast<float>(slot)); break;
    case kF64ConvertI64U: slot = std::bit_cast<uint64_t>(static_cast<double>(slot)); break;
    case kI32TruncSatF32S: slot = static_cast<uint32_t>(trunc_sat<int32_t>(f32)); break;
    case kI32TruncSatF32U: slot = trunc_sat<uint32_t>(f32); break;
    case kI32TruncSatF64S: slot = static_cast<uint32_t>(trunc_sat<int32_t>(f64)); break;
    case kI32TruncSatF64U: slot = trunc_sat<uint32_t>(f64); break;
    case kI64TruncSatF32S: slot = static_cast<uint64_t>(trunc_sat<int64_t>(f32)); break;
    case kI64TruncSatF32U: slot = trunc_sat<uint64_t>(f32); break;
    case kI64TruncSatF64S: slot = static_cast<uint64_t>(trunc_sat<int64_t>(f64)); break;
    case kI64TruncSatF64U: slot = trunc_sat<uint64_t>(f64); break;
    case kI64TruncF32S: checked(int64_t{}, f32); break;
    case kI64TruncF32U: checked(uint64_t{}, f32); break;
    case kI64TruncF64S: checked(int64_t{}, f64); break;
    case kI64TruncF64U: checked(uint64_t{}, f64); break;
    default: trap(TrapKind::kUnreachable); break;
  }
}

}  // namespace

void run(Run& run) { Visit(run).run(); }

void resume_at(Run& run, const FunctionCode& function, uint32_t pc, uint64_t* frame, size_t depth) {
  MachineState& m = Machine::state(run);
  NativeState& n = *m.native;
  n.rsp = n.top - depth;
  n.registers[rbp] = reinterpret_cast<uint64_t>(frame);
  n.pc = function.native_code.load(std::memory_order_acquire) + pc;
  m.where = Where::kNative;
}

}  // namespace membrane::engine::native
