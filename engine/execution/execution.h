// A call of a function from outside, from its start to its end, with pauses.
//
// Ownership: of the caller. What it runs must outlive it. Threads: one at a time, as for the Store of the function.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/instance/instance.h"
#include "engine/instance/run.h"

namespace membrane::engine {

struct GuestStack;

class Execution final : public Run {
 public:
  explicit Execution(ExecutionLimits limits = {});
  ~Execution() override;

  // Prepares a call. Errors: kInvalidArgument when the arguments do not match the function's type; kExhausted when
  // there is no memory for the stack.
  Status start(FunctionInstance* function, std::span<const Value> arguments);
  // start() without arguments: for a run whose frames come from a snapshot.
  Status prepare(FunctionInstance* function);
  // Runs until the run ends, traps or pauses (RunState).
  RunState resume();

  [[nodiscard]] const Trap& trap() const { return trap_; }
  // The places of its frames, innermost first; for pauses.
  [[nodiscard]] std::vector<CodePlace> backtrace();

 private:
  CatchSearch find_catch(uint64_t most_fuel) override;
  Caught enter_catch(const CatchSearch& found) override;
  void show_roots(Tracer& tracer, std::unique_ptr<RootCache>& cache) override;
  RunState call_host_entry();
  void take_results();
  void fill_trap();
  bool prepare_native();

  Trap trap_;
  std::unique_ptr<GuestStack> stack_;
};

// Returns to the system what the last calls of this thread used of a large stack, for when no calls are expected
// soon.
void trim_kept_stack();

}  // namespace membrane::engine
