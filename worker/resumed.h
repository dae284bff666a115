// What is true of a run or turn that began elsewhere and continues in a worker: the calls that it made before, and what it used.
// The supervisor decides both, also in bytes that a worker makes.
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "sandbox/run/frozen_state.h"
#include "worker/answerer.h"

namespace membrane::worker {

CallsBefore calls_of(host::Dispatcher::History history);

// For a FrozenState or a KeptPause.
template <typename Kept>
host::World::Amounts amounts_of(const Kept& kept) {
  return {kept.host_calls, kept.bytes_in, kept.bytes_out, kept.tokens};
}
template <typename Kept>
void set_amounts(const host::World::Amounts& used, Kept& kept) {
  kept.host_calls = used.host_calls;
  kept.bytes_in = used.bytes_in;
  kept.bytes_out = used.bytes_out;
  kept.tokens = used.tokens;
}

// `before` and what was taken since there were `at_start`.
host::World::Amounts amounts_used(const host::World::Amounts& before, const host::World::Amounts& at_start,
                                  const host::World::Amounts& left);

// Errors: those of reading a snapshot and the state in it.
Result<sandbox::FrozenState> state_in_snapshot(std::span<const uint8_t> snapshot);
Result<std::vector<uint8_t>> with_truth(std::span<const uint8_t> snapshot, const host::FlowState& flows,
                                        const host::World::Amounts& used);

}  // namespace membrane::worker
