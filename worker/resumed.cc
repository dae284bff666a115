#include "worker/resumed.h"

#include <algorithm>

#include "engine/freeze/snapshot.h"

namespace membrane::worker {

CallsBefore calls_of(host::Dispatcher::History history) {
  return {.calls = std::move(history.records), .dropped = history.records_dropped, .began_elsewhere = true};
}

host::World::Amounts amounts_used(const host::World::Amounts& before, const host::World::Amounts& at_start,
                                  const host::World::Amounts& left) {
  const auto used = [](uint64_t before_it, uint64_t start, uint64_t now) {
    return before_it + (start - std::min(start, now));
  };
  return {used(before.host_calls, at_start.host_calls, left.host_calls),
          used(before.bytes_in, at_start.bytes_in, left.bytes_in),
          used(before.bytes_out, at_start.bytes_out, left.bytes_out),
          used(before.tokens, at_start.tokens, left.tokens)};
}

Result<sandbox::FrozenState> state_in_snapshot(std::span<const uint8_t> snapshot) {
  MEMBRANE_ASSIGN(const auto part, engine::embedder_part(snapshot));
  return sandbox::read_state(part);
}

Result<std::vector<uint8_t>> with_truth(std::span<const uint8_t> snapshot, const host::FlowState& flows,
                                        const host::World::Amounts& used) {
  MEMBRANE_ASSIGN(sandbox::FrozenState state, state_in_snapshot(snapshot));
  if (state.flows == flows && amounts_of(state) == used) return std::vector(snapshot.begin(), snapshot.end());
  state.flows = flows;
  set_amounts(used, state);
  return engine::with_embedder_part(snapshot, sandbox::write_state(std::move(state)));
}

}  // namespace membrane::worker
