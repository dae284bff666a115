#include "engine/execution/unwind.h"

#include <cstring>

#include "engine/code/fuel.h"
#include "engine/execution/backtrace.h"
#include "engine/instance/machine.h"
#include "engine/interpreter/interpreter.h"
#include "engine/native/runtime.h"

namespace membrane::engine {
namespace {

constexpr uint64_t kPollPrice = 1u << 20;  // how much is searched from one poll to the next

// Looks through one function's clauses, from the innermost try_table outwards.
const CatchTable::Clause* find_clause(const CatchTable& table, uint32_t word, const Instance& instance,
                                      const TagInstance* tag, uint64_t& clauses_seen) {
  for (uint32_t r = table.region_at(word); r != CatchTable::kNone; r = table.regions[r].outer) {
    const CatchTable::Region& region = table.regions[r];
    for (uint32_t i = 0; i < region.clause_count; ++i) {
      const CatchTable::Clause& c = table.clauses[region.first_clause + i];
      ++clauses_seen;
      if (c.clause.catches_all() || Machine::tag(instance, c.clause.tag) == tag) return &c;
    }
  }
  return nullptr;
}

}  // namespace

CatchSearch find_catch(Run& run, uint64_t most_fuel) {
  Throwing& throwing = Machine::state(run).throwing;
  const ExecutionLimits& limits = Machine::limits(run);
  CatchSearch found;
  // Each search for the same throw goes further than the last before it polls again.
  uint64_t frames = 0, clauses = 0, next_poll = throwing.looked_at + kPollPrice;
  const auto price = [&] { return throw_cost(frames, clauses, throwing.tag->slots); };
  FrameWalk walk(run);
  for (FrameStop stop{}; price() <= most_fuel && walk.next(stop); ++frames) {
    found.is_compiled = stop.native_at != nullptr;
    if (found.is_compiled) {
      const auto at = native::find_code(stop.native_at);
      const CatchTable* const table = stop.function->module->native_code().catches(*at);
      if (table != nullptr)
        found.clause = find_clause(*table, at->pc - 1, *stop.instance, throwing.tag, clauses);
    } else if (const CatchTable* const table = stop.function->catches; table != nullptr) {
      // A frame that called resumes after the call; the innermost is at the instruction that throws.
      const auto at = static_cast<uint32_t>(stop.at - stop.function->code.load(std::memory_order_acquire));
      found.clause = find_clause(*table, frames == 0 ? at : at - 1, *stop.instance, throwing.tag, clauses);
    }
    if (found.clause != nullptr) {
      found.function = stop.function;
      found.fp = stop.fp;
      found.depth = stop.depth;
      found.instance = stop.instance;
      break;
    }
    if (frames + clauses < next_poll) continue;
    next_poll += kPollPrice;
    found.interrupted = limits.poll && limits.poll();
    if (found.interrupted) break;
  }
  throwing.looked_at = found.interrupted ? frames + clauses : 0;
  found.price = price();
  return found;
}

// After a header of no cost: the function returns what was caught.
static Word return_word() {
  Word w{};
  w.handler = kHandlers[static_cast<size_t>(Operation::kReturn)];
  return w;
}

Caught enter_catch(Run& run, const CatchSearch& found) {
  static const Word kReturns[3] = {Word{}, return_word(), Word{}};
  MachineState& m = Machine::state(run);
  Throwing& throwing = m.throwing;
  const CatchTable::Clause& c = *found.clause;
  if (c.clause.has_ref() && throwing.reference == 0 &&
      !Machine::keep_exception(*m.instance, *throwing.tag, throwing.payload, throwing.reference))
    return Caught::kNoRoom;
  m.instance = found.instance;
  uint64_t* to = found.fp + c.slot;
  if (!c.clause.catches_all()) {
    if (throwing.tag->slots != 0) std::memmove(to, throwing.payload, throwing.tag->slots * sizeof(uint64_t));
    to += throwing.tag->slots;
  }
  if (c.clause.has_ref()) *to = throwing.reference;
  if (found.is_compiled) {
    native::resume_at(run, *found.function, c.landing, found.fp, found.depth);
    return Caught::kCompiled;
  }
  m.top = Machine::frames(run) + found.depth;
  m.fp = found.fp;
  m.ip = c.landing == CatchTable::kNone ? kReturns
                                        : found.function->code.load(std::memory_order_acquire) + c.landing;
  m.where = Where::kInterpreter;
  return Caught::kInterpreted;
}

}  // namespace membrane::engine
