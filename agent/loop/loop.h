// The ReAct loop: the model thinks and acts (a program, or the answer), the program runs in the sandbox, the
// model observes the report; until it submits or a budget is used up.
//
//   task ─▶ model ─▶ reply ─┬─ program ─▶ executor ─▶ report ─▶ observation ─▶ model …
//                           └─ answer ─▶ TaskResult
//
// Budgets: tokens, fuel, host calls, bytes and wall time come out of one prepaid policy::Budget, which the
// executor's programs (and their ai.* calls) share. Steps and repairs are counted here. When steps, repairs
// or fuel are used up, or the model repeats itself, it is asked once more, only for the answer.
//
// An invalid program costs a repair, not a step; only consecutive repairs are counted. A question about host
// functions is a step. What the model sees is bounded: each observation in bytes, the whole conversation in
// tokens (the oldest steps are cut, and a digest says so).
//
// Threads: one thread uses a Loop; any thread, and a signal handler, may set the cancel flag. Observers are
// called on the loop's thread.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/actions/action.h"
#include "agent/actions/catalog.h"
#include "agent/model/chat.h"
#include "policy/budget.h"
#include "sandbox/report/report.h"
#include "sandbox/run/sandbox.h"

namespace membrane::agent {

// Why a task ended. The sentence is for people.
#define MEMBRANE_STOPS(X)                                                            \
  X(kAnswered, "answered", "The model gave its answer.")                             \
  X(kOutOfSteps, "out_of_steps", "The step budget was used up before an answer.")    \
  X(kOutOfRepairs, "out_of_repairs", "The model could not mend its program.")        \
  X(kStuck, "stuck", "The model did the same again and again.")                      \
  X(kOutOfFuel, "out_of_fuel", "The fuel budget was used up before an answer.")      \
  X(kOutOfTokens, "out_of_tokens", "The token budget was used up before an answer.") \
  X(kTimedOut, "timed_out", "The wall-clock budget was used up before an answer.")   \
  X(kCancelled, "cancelled", "The step was stopped.")                                \
  X(kModelFailed, "model_failed", "The model gave no answer.")

enum class Stop : uint8_t {
#define X(id, name, sentence) id,
  MEMBRANE_STOPS(X)
#undef X
};
std::string_view name_of(Stop stop);
std::string_view describe(Stop stop);

struct Totals {
  uint32_t steps = 0;    // programs that ran, and questions about host functions
  uint32_t repairs = 0;  // invalid programs
  uint64_t model_calls = 0;
  uint64_t fuel = 0;
  uint64_t host_calls_allowed = 0;
  uint64_t host_calls_denied = 0;
  uint64_t bytes_in = 0;  // from outside to the programs
  uint64_t bytes_out = 0;
  uint64_t tokens_in = 0;  // of the loop's model
  uint64_t tokens_out = 0;
  uint64_t tokens_of_programs = 0;  // of the programs' ai.* calls
  bool tokens_estimated = false;
  uint64_t wall_ms = 0;
};

struct TaskResult {
  Stop stop = Stop::kModelFailed;
  std::string answer;          // kAnswered
  std::optional<Error> error;  // for kModelFailed, and other failures of the model
  Totals totals;
};

// The table that closes a task, one line a row, for a terminal.
std::string render_totals(const TaskResult& result);

// Observes a task. Every member does nothing unless it is overridden.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void on_task(std::string_view /*task*/) {}
  virtual void on_step(uint32_t /*number, from 1*/) {}
  virtual void on_text(std::string_view /*piece of the model's reply*/) {}
  virtual void on_thought(std::string_view /*piece of its reasoning*/) {}
  virtual void on_retry(std::string_view /*why*/, uint64_t /*wait_ms*/) {
  }  // discards text since the start of the step
  virtual void on_reply(const ChatQuery&, const Completion&) {}
  virtual void on_program(const Program&) {}
  virtual void on_stdout(std::string_view /*piece*/) {}
  virtual void on_report(const Program&, const sandbox::Report&) {}
  virtual void on_observation(std::string_view /*what the model is shown*/) {}
  virtual void on_note(std::string_view /*a line for the person*/) {}
  virtual void on_end(const TaskResult&) {}
};

struct StepContext {
  uint64_t conversation = 0;  // a new number: the model no longer knows the earlier steps
  const std::atomic<bool>* cancel = nullptr;
  std::function<void(std::string_view)> on_stdout;
};
// Runs one program on the shared budget. See executor.h for the sandbox's.
using Executor = std::function<sandbox::Report(const Program&, const StepContext&)>;

struct LoopOptions {
  uint32_t max_steps = 20;
  uint32_t max_repairs = 5;  // in a row
  size_t observation_bytes = 6'000;
  uint64_t history_tokens = 24'000;                 // for the whole conversation, estimated
  uint32_t reply_tokens = 4'096;                    // of one reply
  bool tools = true;                                // offer tools to the model
  uint64_t task_wall_ms = 0;                        // per task, from its start; 0: the budget's own deadline
  std::vector<ActionLanguage> languages = {wat()};  // languages of programs; the executor must support them
};

class Loop {
 public:
  // `model` and `catalog` are borrowed and must outlive the loop.
  Loop(ChatModel& model, Executor executor, std::shared_ptr<policy::Budget> budget, const Catalog& catalog,
       std::string system_prompt, LoopOptions options = {});

  void add_observer(Observer& observer) { observers_.push_back(&observer); }
  // Called after a cancelled step: returns what the person wants to tell the model, or nothing to end the
  // task.
  void set_on_cancelled(std::function<std::optional<std::string>()> ask) { on_cancelled_ = std::move(ask); }

  // Runs one task to its end, after the conversation so far. `cancel` is borrowed; setting it ends the step
  // in progress (the loop clears it when it continues), and with it the task unless on_cancelled says
  // otherwise.
  TaskResult run(std::string_view task, std::atomic<bool>& cancel);

  // Forgets the conversation, not the budget.
  void reset() {
    history_.clear();
    ++conversation_;
  }
  [[nodiscard]] std::vector<Message> messages() const;
  [[nodiscard]] policy::Budget& budget() { return *budget_; }
  [[nodiscard]] uint64_t task_wall_ms() const { return options_.task_wall_ms; }

 private:
  enum class Part : uint8_t { kSystem, kTask, kDigest, kReply, kObservation };
  struct Entry {
    Part part;
    Message message;
  };
  struct Run;  // one task's state

  void say(Part part, Message message);
  void cut_history();
  static std::string digest_of(const Entry& entry);
  Result<ChatQuery> next_query(bool last);
  Result<Completion> ask(Run& run, bool last);
  void act(Run& run, const Reply& reply);
  void act_on(Run& run, const Action& action, const std::string& note);
  std::string execute(Run& run, const Action& action);
  void observe(const Action& action, std::string text);
  void nudge(Run& run, const Completion& completion);
  void last_turn(Run& run, Stop stop);
  bool go_on_after_cancel(Run& run);
  std::optional<Stop> used_up(const Run& run) const;
  template <typename F>
  void tell(const F& f);

  ChatModel& model_;
  Executor executor_;
  std::shared_ptr<policy::Budget> budget_;
  const Catalog& catalog_;
  std::string system_prompt_;
  LoopOptions options_;
  std::vector<Observer*> observers_;
  std::function<std::optional<std::string>()> on_cancelled_;
  std::vector<Entry> history_;
  uint64_t conversation_ = 0;
  std::vector<std::string> digest_;  // a line for each cut reply
};

}  // namespace membrane::agent
