// A run's or session's access to the outside world: a Broker for its requests, and their state.
//
//   run, session ─▶ World ┬─ OwnWorld: a BrokerGate over a LocalBroker, in this process
//                         └─ worker/remote_world.h: a socket to the process that has one
//
// Threads: one at a time.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "host/broker.h"
#include "host/broker_gate.h"
#include "host/local_broker.h"
#include "policy/budget.h"
#include "policy/policy.h"

namespace membrane::host {

class World {
 public:
  using Position = LocalBroker::Position;
  // The remaining amounts for host calls.
  struct Amounts {
    uint64_t host_calls = 0, bytes_in = 0, bytes_out = 0, tokens = 0;

    friend bool operator==(const Amounts&, const Amounts&) = default;
  };

  virtual ~World() = default;

  // Decides, acts and writes the journal. Lives as long as the World.
  virtual Broker& broker() = 0;

  // Sets when host calls must end; call it before each run or turn. `cancel` is borrowed, and may be null.
  virtual void bound(std::chrono::steady_clock::time_point end, const std::atomic<bool>* cancel) = 0;
  // Sets how much host memory a call may use; call it before the first call.
  virtual void bound_memory(std::function<uint64_t()> left_for_call) = 0;

  // Starts a turn, with all that the limits allow for its host calls.
  virtual void refill(const policy::Limits& limits) = 0;
  // Continues a paused turn.
  virtual void go_on() = 0;
  [[nodiscard]] virtual Amounts left() = 0;
  // Takes what a frozen run had used before.
  virtual void take_after(const Amounts& used) = 0;
  // Takes a host call that does not go through the broker: false when there is none left.
  [[nodiscard]] virtual bool take_host_call() = 0;
  virtual void give_back_host_call() = 0;

  // As BrokerGate::bound_queries(), and what queries have used since. `is_over`: the run or the turn has ended, so
  // that a query that fell short will not be repeated.
  virtual void bound_queries(uint64_t fuel) = 0;
  [[nodiscard]] virtual uint64_t query_fuel_used(bool is_over) = 0;

  // The positions of the reproducible sources.
  [[nodiscard]] virtual Position position() = 0;
  virtual void go_to(const Position& position) = 0;

  // See LocalBroker.
  [[nodiscard]] virtual bool has_store_in_memory() = 0;

  // Records all requests from now on in `ledger`, which is borrowed. False if another process has to do that.
  [[nodiscard]] virtual bool note_in(CallLedger& ledger) = 0;

  // For the trifecta rule (flows.h): the program gets input; sets what was read before by a saved, forked or frozen
  // session; everything read so far; the report's part, nothing if the policy has no rule.
  virtual void note_input() = 0;
  virtual void add_flows(const FlowState& state) = 0;
  [[nodiscard]] virtual FlowState flow_state() = 0;
  [[nodiscard]] virtual std::optional<FlowReport> flow_report() = 0;

  // See BrokerGate.
  virtual HostResult<std::vector<std::string>> directories(const std::vector<std::string>& granted) = 0;
  virtual void end_replay() = 0;
  [[nodiscard]] virtual std::optional<std::string> divergence() = 0;
  [[nodiscard]] virtual uint64_t tokens_used() = 0;
};

// The parts of a World. All but the budget are borrowed, and outlive it.
struct WorldParts {
  const policy::Policy* policy = nullptr;
  std::shared_ptr<policy::Budget> budget;
  bool is_shared = false;  // the budget: then it is not refilled
  Model* model = nullptr;
  Person* person = nullptr;
  const JournalSource* replay = nullptr;
  JournalSink* record = nullptr;
  Secrets secrets = nullptr;
  std::shared_ptr<Flows> flows = nullptr;  // shared with others; null: its own
  Approve approve = nullptr;
  EgressWatch* watch = nullptr;
  const Sources* sources = nullptr;
};

// In this process.
std::unique_ptr<World> make_world(WorldParts parts);

}  // namespace membrane::host
