// The supervisor's side of a session's requests: each is read as hostile bytes, and answered by the World that holds the
// session's policy.
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
#include "host/call_ledger.h"
#include "host/decisions.h"
#include "host/world.h"
#include "sandbox/sandbox.h"
#include "sandbox/session_state.h"
#include "worker/broker_calls.h"
#include "worker/wire.h"

namespace membrane::worker {

// What a report lists of the time before its run or turn went on in a worker: the calls that stand in a snapshot, or in a
// session that was kept while a turn was paused.
struct CallsBefore {
  std::vector<host::CallRecord> calls;
  uint64_t dropped = 0;
  bool began_elsewhere = false;  // the run or the turn
  bool has_past = false;         // the session, in turns that this process knows nothing of
};

class Answerer {
 public:
  // `options` is borrowed; `read_input` of it answers questions for input. `most_memory_bytes` is the most of the host's
  // memory that a call may use, whatever the worker says.
  Answerer(const sandbox::RunOptions& options, std::unique_ptr<host::World> world,
           uint64_t most_memory_bytes);

  // The answer, as bytes. Errors: kInvalidInput for what no worker of this build asks.
  Result<std::string> answer(std::string_view question);

  // A run or a turn begins: from now on its calls are answered, and noted. Outside of one, a worker has no reason to act.
  void begin();
  // A turn that was paused continues.
  void go_on();
  void pause() { acts_ = false; }

  // How the worker's list of the run's or the turn's calls differs from what was asked and answered here, as the end of a
  // sentence; nothing when it is true.
  // Of a turn that is paused, whose session is kept.
  [[nodiscard]] std::optional<std::string> difference(std::span<const host::CallRecord> calls,
                                                      uint64_t dropped, const CallsBefore& before) const;
  [[nodiscard]] std::optional<std::string> difference(const sandbox::Report& report,
                                                      const CallsBefore& before) const;
  // Of a list that difference() has nothing against: adds what was done before, where a run that ended before it went on
  // lists nothing.
  static void complete(const CallsBefore& before, sandbox::Report& report);
  // The calls, as they are known here.
  void tell_calls(const CallsBefore& before, sandbox::Report& report) const;

  // What a run or a turn has used at least: its word, or what its queries took.
  [[nodiscard]] uint64_t fuel_used(const sandbox::Report& report);

  // The answers to calls of functions that were "later" before: of a turn that is resumed.
  void take_answers(std::vector<sandbox::FunctionAnswer> answers);
  // What a session that was kept waits for; and what a fork does, as its parent.
  void wait_for(sandbox::KeptCalls calls) { functions_ = std::move(calls); }
  void copy_functions(const Answerer& of) { functions_ = of.functions_; }
  void forget_functions() { functions_.reset(); }
  // The calls that have no answer yet.
  [[nodiscard]] std::vector<sandbox::FunctionCall> waits_for() const {
    return sandbox::waiting_of(functions_);
  }

  // When calls must have ended, from now on; `cancel` is borrowed, and may be null.
  void bound(std::chrono::steady_clock::time_point end, const std::atomic<bool>* cancel);
  // A worker's clock begins when its command has come, so its guest may fail by a call that was ended at the end of its
  // time before it finds that time over, or even end well. That is what the report says then; of a session's turn only where it
  // failed, for one that ended well has changed the session.
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
  // The worker's lines without those of functions, which must be the ones that were answered here, in their order.
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
  bool has_told_directories_ = false;
  const uint64_t most_memory_bytes_;
  uint64_t left_for_call_ = 0;
  std::chrono::steady_clock::time_point end_ = std::chrono::steady_clock::time_point::max();
  const std::atomic<bool>* cancel_ = nullptr;  // of the turn that calls
  bool had_late_call_ = false;
  std::optional<sandbox::KeptCalls> functions_;   // that were called last, and have not all answered
  std::vector<host::CallRecord> function_lines_;  // of the turn, as it is known here
};

}  // namespace membrane::worker
