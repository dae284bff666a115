#include "engine/instance/host_share.h"

#include "engine/instance/machine.h"

namespace membrane::engine {
namespace {

uint64_t pages_of(uint64_t bytes) { return (bytes + wasm::kPageBytes - 1) / wasm::kPageBytes; }

}  // namespace

uint64_t memory_left_bytes(Instance& instance) {
  return Machine::memory_budget(instance)->left_pages * wasm::kPageBytes;
}

bool take_from_memory_limit(Instance& instance, uint64_t bytes) {
  uint64_t& left = Machine::memory_budget(instance)->left_pages;
  if (pages_of(bytes) > left) return false;
  left -= pages_of(bytes);
  return true;
}

void give_to_memory_limit(Instance& instance, uint64_t bytes) {
  Machine::memory_budget(instance)->left_pages += pages_of(bytes);
}

void give_back_fuel(HostCall& call, uint64_t fuel) { Machine::state(call.execution).fuel_reserve += fuel; }

void fall_short(HostCall& call, uint64_t fuel) {
  give_back_fuel(call, fuel);
  Machine::set_fell_short(call.execution);
}

}  // namespace membrane::engine
