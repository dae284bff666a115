// One call of a function from outside, as the tiers that run it see it: the registers, the frames and the fuel.
//
// An embedder uses Execution (execution/execution.h), which is a Run. A tier asks the Run for what needs the whole
// engine (a search through the frames of both tiers); the rooms above implement it.
//
// Threads: one at a time, as for the Store.
#pragma once

#include <csetjmp>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/code/code.h"
#include "engine/code/trap.h"
#include "engine/heap/heap.h"
#include "engine/instance/exceptions.h"
#include "engine/instance/function.h"
#include "engine/instance/value.h"

namespace membrane::engine {

namespace native {
struct NativeState;
}

enum class RunState : uint8_t {
  kReady,        // resume() continues
  kFinished,     // results() holds the values
  kTrapped,      // trap() says why
  kOutOfFuel,    // a pause: add_fuel() and resume()
  kInterrupted,  // a pause: the poll function asked for it; resume() continues
  kExited,       // a host function ended the program
};

struct ExecutionLimits {
  uint64_t stack_bytes = 1ull << 20;  // of values
  uint32_t call_depth = 10'000;
  // Called each time this much fuel was used, and after each translated function; true interrupts.
  // Checks wall clock and cancellation without a cost in the code.
  uint64_t poll_interval_fuel = 4'000'000;
  std::function<bool()> poll;
  // A thread keeps its last stack for its next call if it is small; with this set also a large one, for an embedder that
  // makes many calls.
  bool keeps_stack = false;
};
// A call in progress. The guest's values are on its value stack; this is the rest of the frame.
// Not initialised, so that a deep stack that is not used costs nothing.
struct FrameRecord {
  const Word* return_ip;         // the header after the call
  uint64_t* fp;                  // of the caller
  const FunctionCode* function;  // that runs in this frame; null for a crossing
  Instance* instance;            // crossings into another instance: of the caller
};

// The tier that resumes the innermost frame.
enum class Where : uint8_t {
  kInterpreter,
  kNativeCall,    // compiled code, which the interpreter has just called
  kNativeReturn,  // compiled code, to which the interpreter returns
  kNative,        // compiled code, with the registers of its NativeState
  kTierUp,        // the interpreter, unless its function can be compiled and resumed there
};

// What handlers of the interpreter work on; while no guest code runs, also its registers.
struct MachineState {
  const Word* ip = nullptr;
  uint64_t* fp = nullptr;
  int64_t fuel = 0;           // of the present slice
  uint8_t* memory = nullptr;  // base of the running instance's memory
  uint64_t acc = 0;           // accumulators; used only where handlers return to a loop
  double acc64 = 0;
  float acc32 = 0;
  FrameRecord* top = nullptr;
  FrameRecord* frames_end = nullptr;
  uint64_t* stack_end = nullptr;
  Instance* instance = nullptr;        // whose code runs
  uint64_t fuel_reserve = 0;           // added, and not yet in a slice
  uint64_t fuel_until_poll = 0;        // of the slices to come
  uint64_t sample_fuel = 0;            // left to the interpreter before the next sample, when it was last
                                       // given fuel; 0 before it was given any (kSampleFuel)
  uint64_t fuel_needed = 0;            // by a bulk operation that could not be paid
  FunctionInstance* callee = nullptr;  // of a call that leaves the instance's own code
  Throwing throwing;
  native::NativeState* native = nullptr;  // of the stack; null until compiled code is called
  Where where = Where::kInterpreter;
  bool at_call = false;     // paused before a host call, not at a segment's header
  bool has_callee = false;  // at_call, thawed: of `callee`
  // The host function that compiled code tail-calls, until the call is made; else null.
  const FunctionInstance* tail_host = nullptr;
  const uint64_t* tail_arguments = nullptr;
  RunState state = RunState::kFinished;
  TrapKind trap_kind = TrapKind::kUnreachable;
  std::string trap_message;
};

// Not movable: the tiers point into it.
class Run : public HeapRun {
 public:
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  void add_fuel(uint64_t fuel);
  [[nodiscard]] RunState state() const { return machine_.state; }
  [[nodiscard]] const std::vector<Value>& results() const { return results_; }
  // The fuel that was added, less what is left: exact to the instruction.
  [[nodiscard]] uint64_t fuel_used() const;
  [[nodiscard]] uint64_t fuel_left() const;
  // What a host call was owed and could not be paid yet; not in fuel_used().
  [[nodiscard]] uint64_t fuel_owed() const { return fuel_owed_; }
  // It is out of fuel in a host call whose work cost more than there is. A caller that ends the run here takes all
  // that is left as the price; with more fuel the call is made again.
  [[nodiscard]] bool fell_short() const { return fell_short_; }

  // Searches for the clause that catches MachineState::throwing; the run is at the instruction that throws. Gives up
  // when the price is above `most_fuel`. Asks the owner's poll now and then, as it can take long.
  virtual CatchSearch find_catch(uint64_t most_fuel) = 0;
  // Leaves all frames above the one that catches, and puts there what was caught. Then the interpreter resumes at the
  // segment that MachineState::ip names, or compiled code does, as MachineState::where says.
  virtual Caught enter_catch(const CatchSearch& found) = 0;

 protected:
  explicit Run(ExecutionLimits limits) : limits_(std::move(limits)) {}

  MachineState machine_;
  FrameRecord* frames_ = nullptr;  // the outermost; null before the first call
  uint64_t* slots_ = nullptr;      // the first of the value stack
  ExecutionLimits limits_;
  FunctionInstance* entry_ = nullptr;
  std::vector<Value> results_;

 private:
  friend struct Machine;

  uint64_t fuel_added_ = 0;
  uint64_t fuel_owed_ = 0;
  bool fell_short_ = false;
  sigjmp_buf fault_jump_;
};

}  // namespace membrane::engine
