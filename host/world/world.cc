#include "host/world/world.h"

#include <algorithm>
#include <utility>

namespace membrane::host {
namespace {

using enum policy::Resource;

class OwnWorld final : public World {
 public:
  explicit OwnWorld(WorldParts parts)
      : parts_(std::move(parts)),
        budget_(*parts_.budget),
        local_(*parts_.policy, budget_, parts_.model, parts_.person, nullptr, std::move(parts_.secrets),
               parts_.watch, parts_.sources),
        gate_(parts_.replay != nullptr ? BrokerGate::to_journal(*parts_.replay, parts_.record)
                                       : BrokerGate::to_world(local_, &budget_, parts_.record)) {
    if (!parts_.flows) parts_.flows = std::make_shared<Flows>();
    if (!parts_.policy->trifecta) return;
    guard_.emplace(*parts_.policy, parts_.flows, std::move(parts_.approve));
    gate_.guard_by(&*guard_);
  }

  Broker& broker() override { return gate_; }

  void bound(std::chrono::steady_clock::time_point end, const std::atomic<bool>* cancel) override {
    local_.bound(end, cancel);
    if (guard_) guard_->bound(std::min(end, budget_.deadline()), cancel);
  }
  void bound_memory(std::function<uint64_t()> left_for_call) override {
    local_.bound_memory(std::move(left_for_call));
  }

  void refill(const policy::Limits& limits) override {
    gate_.begin_turn();
    if (guard_) guard_->begin_turn();
    if (parts_.is_shared) return;
    budget_.set(kHostCalls, limits.host_calls);
    budget_.set(kBytesIn, limits.bytes_in);
    budget_.set(kBytesOut, limits.bytes_out);
    budget_.set(kTokens, limits.tokens);
  }
  void go_on() override { gate_.go_on(); }
  // A query that fell short is paid here already; a copy that continues elsewhere pays for it there.
  Amounts left() override {
    uint64_t host_calls = budget_.left(kHostCalls);
    if (gate_.is_waited_for() && host_calls != policy::Budget::kUnlimited) ++host_calls;
    return {host_calls, budget_.left(kBytesIn), budget_.left(kBytesOut), budget_.left(kTokens)};
  }
  void take_after(const Amounts& used) override {
    if (parts_.is_shared) return;  // it was charged when the run used it, or its owner knows
    budget_.take_after(kHostCalls, used.host_calls);
    budget_.take_after(kBytesIn, used.bytes_in);
    budget_.take_after(kBytesOut, used.bytes_out);
    budget_.take_after(kTokens, used.tokens);
  }
  void bound_queries(uint64_t fuel) override { gate_.bound_queries(fuel); }
  uint64_t query_fuel_used(bool is_over) override {
    if (is_over) gate_.begin_turn();
    return gate_.query_fuel_used();
  }
  bool take_host_call() override { return budget_.take(kHostCalls, 1); }
  void give_back_host_call() override { budget_.give_back(kHostCalls, 1); }

  Position position() override { return local_.position(); }
  void go_to(const Position& position) override { local_.go_to(position); }

  bool has_store_in_memory() override { return local_.has_store_in_memory(); }

  bool note_in(CallLedger& ledger) override {
    gate_.note_in(&ledger);
    return true;
  }

  void note_input() override {
    if (guard_) guard_->note_input();
  }
  void add_flows(const FlowState& state) override { parts_.flows->add(state); }
  FlowState flow_state() override {
    FlowState state = parts_.flows->state();
    if (guard_ && gate_.is_waited_for()) --state.calls;  // as in left()
    return state;
  }
  std::optional<FlowReport> flow_report() override {
    return guard_ ? std::optional(guard_->report()) : std::nullopt;
  }

  HostResult<std::vector<std::string>> directories(const std::vector<std::string>& granted) override {
    return gate_.directories(granted);
  }
  void end_replay() override { gate_.end_replay(); }
  std::optional<std::string> divergence() override { return gate_.divergence(); }
  uint64_t tokens_used() override { return gate_.tokens_used(); }

 private:
  WorldParts parts_;
  policy::Budget& budget_;
  LocalBroker local_;
  BrokerGate gate_;
  std::optional<FlowGuard> guard_;
};

}  // namespace

std::unique_ptr<World> make_world(WorldParts parts) { return std::make_unique<OwnWorld>(std::move(parts)); }

}  // namespace membrane::host
