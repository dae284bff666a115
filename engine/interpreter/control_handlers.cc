// The handlers that move values, branch and throw.
#include <algorithm>
#include <cstring>

#include "engine/interpreter/handler.h"

namespace membrane::engine::handlers {

// -- moving values -------------------------------------------------------------------------------

HANDLER(kCopy) {
  fp[ip[1].slots.a] = fp[ip[1].slots.b];
  NEXT(2);
}

HANDLER(kCopyTwo) {
  const SlotsWord w = ip[1].slots;
  fp[w.a] = fp[w.b];
  fp[w.c] = fp[w.d];
  NEXT(2);
}

HANDLER(kCopyMany) {  // to, from, slots
  const SlotsWord w = ip[1].slots;
  std::memmove(fp + w.a, fp + w.b, w.c * sizeof(uint64_t));
  NEXT(2);
}

HANDLER(kConst32) {
  fp[ip[1].imm.a] = static_cast<uint32_t>(ip[1].imm.value);
  NEXT(2);
}

HANDLER(kConst64) {
  fp[ip[1].slots.a] = ip[2].constant;
  NEXT(3);
}

HANDLER(kSelect) {  // dst, if true, if false, condition
  const SlotsWord w = ip[1].slots;
  const uint64_t yes = fp[w.b], no = fp[w.c];
  fp[w.a] = static_cast<uint32_t>(fp[w.d]) != 0 ? yes : no;
  NEXT(2);
}

HANDLER(kGlobalGet) {
  const ImmediateWord w = ip[1].imm;
  fp[w.a] = Machine::global(*Machine::state(*run).instance, static_cast<uint32_t>(w.value))->bits;
  NEXT(2);
}

HANDLER(kGlobalSet) {
  const ImmediateWord w = ip[1].imm;
  Machine::global(*Machine::state(*run).instance, static_cast<uint32_t>(w.value))->bits = fp[w.a];
  NEXT(2);
}

// -- control: the target counts from word 1 -----------------------------------------------------------

HANDLER(kEnter) { ENTER(ip + 1); }

HANDLER(kBr) { ENTER(ip + 1 + ip[1].branch.target); }

#define BRANCH_HANDLER(id, condition)            \
  HANDLER(id) {                                  \
    const BranchWord w = ip[1].branch;           \
    [[maybe_unused]] const uint64_t x = fp[w.a]; \
    if (condition) ENTER(ip + 1 + w.target);     \
    ENTER(ip + 2);                               \
  }
BRANCH_HANDLER(kBrIf, static_cast<uint32_t>(x) != 0)
BRANCH_HANDLER(kBrUnless, static_cast<uint32_t>(x) == 0)
BRANCH_HANDLER(kBrIfA, static_cast<uint32_t>(acc) != 0)
BRANCH_HANDLER(kBrUnlessA, static_cast<uint32_t>(acc) == 0)
BRANCH_HANDLER(kBrIf64, x != 0)
BRANCH_HANDLER(kBrUnless64, x == 0)

HANDLER(kBrTable) {  // index, count; then a branch word for each label, the default last
  const ImmediateWord w = ip[1].imm;
  const uint32_t index = std::min(static_cast<uint32_t>(fp[w.a]), static_cast<uint32_t>(w.value));
  const Word* const chosen = ip + 2 + index;
  ENTER(chosen + chosen->branch.target);
}

HANDLER(kUnreachable) { TRAP(kUnreachable); }

// -- exceptions: word 1 ends with the distance back to the header --------------------------------------------

namespace {

// Not in the handler, which could not end in a jump if it had a variable in memory.
struct Raised {
  enum class Outcome : uint64_t { kCaught, kCaughtByCompiled, kTrapped, kUnpaid, kInterrupted } outcome;
  const Word* landing;  // kCaught
};
[[gnu::noinline]] Raised raise_exception(Run& run) {
  MachineState& m = Machine::state(run);
  const CatchSearch found = run.find_catch(static_cast<uint64_t>(m.fuel) + m.fuel_reserve);
  if (found.interrupted) return {Raised::Outcome::kInterrupted, nullptr};
  if (found.price > static_cast<uint64_t>(m.fuel)) {
    m.fuel_needed = found.price;
    return {Raised::Outcome::kUnpaid, nullptr};
  }
  m.fuel -= static_cast<int64_t>(found.price);
  if (found.clause == nullptr) {
    m.trap_message = describe(m.throwing);
    m.trap_kind = TrapKind::kUncaughtException;
    return {Raised::Outcome::kTrapped, nullptr};
  }
  const Caught caught = run.enter_catch(found);
  if (caught == Caught::kInterpreted) return {Raised::Outcome::kCaught, m.ip};
  if (caught == Caught::kCompiled) return {Raised::Outcome::kCaughtByCompiled, nullptr};
  m.trap_kind = TrapKind::kTooManyExceptions;
  return {Raised::Outcome::kTrapped, nullptr};
}

}  // namespace

static HANDLER(raise) {
  save(PASS_REGISTERS(ip));
  const Raised raised = raise_exception(*run);
  MachineState& m = Machine::state(*run);
  fuel = m.fuel;
  if (raised.outcome == Raised::Outcome::kUnpaid) GO_TO(refill_for_bulk);
  if (raised.outcome == Raised::Outcome::kTrapped) return trapped(PASS_REGISTERS(ip));
  if (raised.outcome == Raised::Outcome::kCaughtByCompiled)
    return hand_over(PASS_REGISTERS(ip), Where::kNative);
  if (raised.outcome == Raised::Outcome::kInterrupted) {
    ip -= ip[1].slots.d;
    fuel += ip->header.cost;
    return stop(PASS_REGISTERS(ip), RunState::kInterrupted);
  }
  fp = m.fp;
  memory = Machine::memory_base(*m.instance);
  ENTER(raised.landing);
}

HANDLER(kThrow) {  // the values; tag
  MachineState& m = Machine::state(*run);
  m.throwing = {Machine::tag(*m.instance, static_cast<uint32_t>(ip[2].constant)), fp + ip[1].slots.a, 0,
                m.throwing.looked_at};
  GO_TO(raise);
}

HANDLER(kThrowRef) {  // the exception
  MachineState& m = Machine::state(*run);
  const uint64_t reference = fp[ip[1].slots.a];
  const ExceptionArena::Exception* const exception = Machine::exceptions(*m.instance).find(reference);
  if (exception == nullptr) TRAP(kNullException);
  m.throwing = {exception->tag, exception->payload(), reference, m.throwing.looked_at};
  GO_TO(raise);
}

}  // namespace membrane::engine::handlers
