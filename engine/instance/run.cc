#include "engine/instance/run.h"

#include <algorithm>

#include "engine/instance/machine.h"

namespace membrane::engine {

void Run::add_fuel(uint64_t fuel) {
  const uint64_t most =
      static_cast<uint64_t>(INT64_MAX) - std::min<uint64_t>(machine_.fuel_reserve, INT64_MAX);
  fuel = std::min(fuel, most);
  const uint64_t paid = std::min(fuel, fuel_owed_);
  fuel_owed_ -= paid;
  fell_short_ = false;
  machine_.fuel_reserve += fuel - paid;
  fuel_added_ += fuel;
  if (machine_.state == RunState::kOutOfFuel || machine_.state == RunState::kInterrupted)
    machine_.state = RunState::kReady;
}

uint64_t Run::fuel_left() const { return machine_.fuel_reserve + static_cast<uint64_t>(machine_.fuel); }

uint64_t Run::fuel_used() const { return fuel_added_ - fuel_left(); }

// -- host calls

namespace {

void take(MachineState& m, uint64_t fuel) {
  const uint64_t of_slice = std::min(fuel, static_cast<uint64_t>(m.fuel));
  m.fuel -= static_cast<int64_t>(of_slice);
  m.fuel_reserve -= fuel - of_slice;
}

}  // namespace

bool HostCall::charge(uint64_t fuel) {
  if (execution.fuel_left() < fuel) return false;
  take(Machine::state(execution), fuel);
  return true;
}

void HostCall::owe(uint64_t fuel) { Machine::owe(execution, fuel); }

// A run that pauses uses as much fuel as one that never does: what cannot be paid now is paid
// later.
void Machine::owe(Run& run, uint64_t fuel) {
  const uint64_t paid = std::min(fuel, run.fuel_left());
  take(run.machine_, paid);
  run.fuel_owed_ += std::min(fuel - paid, UINT64_MAX - run.fuel_owed_);
}

}  // namespace membrane::engine
