// What a run or a session has of the world outside: a Broker for its requests, and what there is to know of them.
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
  // What is left of what host calls take.
  struct Amounts {
    uint64_t host_calls = 0, bytes_in = 0, bytes_out = 0, tokens = 0;

    friend bool operator==(const Amounts&, const Amounts&) = default;
  };

  virtual ~World() = default;

  // Decides, acts and keeps the journal. Lives as long as the World.
  virtual Broker& broker() = 0;

  // When host calls have to end; before each run or turn. `cancel` is borrowed, and may be null.
  virtual void bound(std::chrono::steady_clock::time_point end, const std::atomic<bool>* cancel) = 0;
  // How much of the host's memory a call may use; before the first call.
  virtual void bound_memory(std::function<uint64_t()> left_for_call) = 0;

  // A turn begins, with all that the limits give for its host calls.
  virtual void refill(const policy::Limits& limits) = 0;
  // A turn that was paused is continued.
  virtual void go_on() = 0;
  [[nodiscard]] virtual Amounts left() = 0;
  // What was used before, of a run that was frozen.
  virtual void take_after(const Amounts& used) = 0;
  // A host call that is none of the broker's: false when there is none left.
  [[nodiscard]] virtual bool take_host_call() = 0;
  virtual void give_back_host_call() = 0;

  // As BrokerGate::bound_queries(), and what queries have used since. `is_over`: the run or the turn is, so that what fell
  // short will not be made again.
  virtual void bound_queries(uint64_t fuel) = 0;
  [[nodiscard]] virtual uint64_t query_fuel_used(bool is_over) = 0;

  // How far the reproducible sources have come.
  [[nodiscard]] virtual Position position() = 0;
  virtual void go_to(const Position& position) = 0;

  // As LocalBroker has it.
  [[nodiscard]] virtual bool has_store_in_memory() = 0;

  // Notes all requests from now on in `ledger`, which is borrowed. False where that is another process's to do.
  [[nodiscard]] virtual bool note_in(CallLedger& ledger) = 0;

  // Of the trifecta rule (flows.h). The program is given input; what was read before, by a session that was kept, forked or
  // frozen; all that was read by now; what the report says, nothing where the policy has no rule.
  virtual void note_input() = 0;
  virtual void add_flows(const FlowState& state) = 0;
  [[nodiscard]] virtual FlowState flow_state() = 0;
  [[nodiscard]] virtual std::optional<FlowReport> flow_report() = 0;

  // As BrokerGate has them.
  virtual HostResult<std::vector<std::string>> directories(const std::vector<std::string>& granted) = 0;
  virtual void end_replay() = 0;
  [[nodiscard]] virtual std::optional<std::string> divergence() = 0;
  [[nodiscard]] virtual uint64_t tokens_used() = 0;
};

// What a World is made of. All but the budget are borrowed, and outlive it.
struct WorldParts {
  const policy::Policy* policy = nullptr;
  std::shared_ptr<policy::Budget> budget;
  bool is_shared = false;  // the budget: then it is not refilled
  Model* model = nullptr;
  Person* person = nullptr;
  const JournalSource* replay = nullptr;
  JournalSink* record = nullptr;
  Secrets secrets = nullptr;
  std::shared_ptr<Flows> flows = nullptr;  // shared with others; null: of its own
  Approve approve = nullptr;
  EgressWatch* watch = nullptr;
  const Sources* sources = nullptr;
};

// In this process.
std::unique_ptr<World> make_world(WorldParts parts);

}  // namespace membrane::host
