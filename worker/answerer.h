// The supervisor's side of a session's requests: each is parsed as hostile bytes and answered by the World
// that holds the session's policy.
//
// Threads: one at a time.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "host/broker/decisions.h"
#include "host/gate/call_ledger.h"
#include "host/world/world.h"
#include "sandbox/run/sandbox.h"
#include "sandbox/session/session_state.h"
#include "worker/broker_calls.h"
#include "worker/wire.h"

namespace membrane::worker {

// The calls that a report lists from before its run or turn was resumed in a worker: those in a snapshot, or
// in a session that was saved while a turn was paused.
struct CallsBefore {
  std::vector<host::CallRecord> calls;
  uint64_t dropped = 0;
  bool began_elsewhere = false;  // the run or the turn began elsewhere
  bool has_past = false;         // the session had turns that this process does not know
};

class Answerer {
 public:
  // `options` is borrowed; its `read_input` answers requests for input. `most_memory_bytes` is the most host
  // memory that a call may use, whatever the worker claims.
  Answerer(const sandbox::RunOptions& options, std::unique_ptr<host::World> world,
           uint64_t most_memory_bytes);

  // Returns the answer as bytes. Errors: kInvalidInput for a request that no worker of this build sends.
  Result<std::string> answer(std::string_view question);

  // A run or a turn begins: from now on its calls are answered and recorded. Outside of one, a worker has no
  // reason to make any.
  void begin();
  // A paused turn is resumed.
  void go_on();
  void pause() { acts_ = false; }

  // How the worker's list of the run's or turn's calls differs from the requests that were answered here, as
  // the end of a sentence; nothing when it is correct.
  // The same for a paused turn whose session is saved.
  [[nodiscard]] std::optional<std::string> difference(std::span<const host::CallRecord> calls,
                                                      uint64_t dropped, const CallsBefore& before) const;
  [[nodiscard]] std::optional<std::string> difference(const sandbox::Report& report,
                                                      const CallsBefore& before) const;
  // For a list to which difference() does not object: adds the earlier calls if the run ended before it was
  // resumed and so lists none.
  static void complete(const CallsBefore& before, sandbox::Report& report);
  // For a report that the worker did not send: writes the calls and the flows as they are known here.
  void write_calls(const CallsBefore& before, sandbox::Report& report) const;

  // The least that a run or turn has used: its own claim, or what its queries took.
  [[nodiscard]] uint64_t fuel_used(const sandbox::Report& report);

  // The answers to function calls that returned "later", for a turn that is resumed.
  void take_answers(std::vector<sandbox::FunctionAnswer> answers);
  // The calls that a restored session, or a fork of a waiting one, waits for.
  void wait_for(sandbox::KeptCalls calls) { functions_ = std::move(calls); }
  void copy_functions(const Answerer& of) { functions_ = of.functions_; }
  void forget_functions() { functions_.reset(); }
  // The calls that have no answer yet.
  [[nodiscard]] std::vector<sandbox::FunctionCall> waits_for() const {
    return sandbox::waiting_of(functions_);
  }

  // Sets the deadline for calls; `cancel` is borrowed, and may be null.
  void bound(std::chrono::steady_clock::time_point end, const std::atomic<bool>* cancel);
  // A worker's clock starts when its command arrives, so its guest may fail because a call was ended at its
  // deadline, or even succeed, before the worker finds its time over. The report is then made to say so; for
  // a session's turn only if it failed, since a successful one has changed the session.
  enum class Of : uint8_t { kRun, kTurn };
  void tell_late_call(const policy::Limits& limits, Of what, sandbox::Report& report) const;

  [[nodiscard]] host::World& world() { return *world_; }

 private:
  Result<std::string> answer_call(Reader& in);
  Result<std::string> answer_query(Reader& in);
  std::vector<sandbox::FunctionAnswer> call_functions(std::span<const sandbox::FunctionCall> calls);
  void list_functions();
  [[nodiscard]] bool asks_for_sleep() const;
  [[nodiscard]] bool must_stop() const;
  // The worker's lines without those of functions, which must match the calls answered here, in order.
  [[nodiscard]] std::expected<std::vector<host::CallRecord>, std::string> without_functions(
      std::span<const host::CallRecord> lines, uint64_t dropped) const;
  void bound_queries();
  [[nodiscard]] bool may_answer(BrokerCall call) const;
  struct HowItEnds {
    bool is_paused = false, may_end_short = false;
  };
  [[nodiscard]] std::optional<std::string> difference(std::span<const host::CallRecord> calls,
                                                      uint64_t dropped, HowItEnds how,
                                                      const CallsBefore& before) const;
  [[nodiscard]] bool grants_file(std::string_view path, bool writes) const;

  const sandbox::RunOptions& options_;
  std::unique_ptr<host::World> world_;
  host::CallLedger ledger_;
  bool has_ledger_ = false;
  bool acts_ = false;
  bool has_listed_directories_ = false;
  const uint64_t most_memory_bytes_;
  uint64_t left_for_call_ = 0;
  std::chrono::steady_clock::time_point end_ = std::chrono::steady_clock::time_point::max();
  const std::atomic<bool>* cancel_ = nullptr;  // of the calling turn
  bool had_late_call_ = false;
  std::optional<sandbox::KeptCalls> functions_;   // the last calls, some of them unanswered
  std::vector<host::CallRecord> function_lines_;  // of the turn, as known here
};

}  // namespace membrane::worker
