// What a run and a session have in common around their program: the budget, the world, the output, and when to stop.
//
//   RunContext context(options);
//   context.begin(limits.output_bytes);    // at the start of a run, and of each part of a turn
//   … context.must_stop() …                // while code runs
//
// Threads: one at a time; any thread may set the cancel flag.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "host/world/world.h"
#include "policy/budget.h"
#include "sandbox/run/guest_instance.h"
#include "sandbox/run/sandbox.h"
#include "wasi/system/system.h"

namespace membrane::sandbox {

// As the options say, or a World in this process that pays from `budget`. The options must outlive it.
std::unique_ptr<host::World> world_of(const RunOptions& options,
                                      const std::shared_ptr<policy::Budget>& budget);

// How long a run waits for input before it checks whether it must end.
inline constexpr std::chrono::milliseconds kInputPatience(20);
// Reads a piece of input from `source` (RunOptions::read_input, or a turn's own), counted in `world` as read.
InputPiece read_input(const std::function<InputPiece(std::chrono::milliseconds)>& source, host::World& world,
                      std::chrono::milliseconds patience);

class RunContext {
 public:
  // The options are borrowed.
  explicit RunContext(const RunOptions& options);

  // Starts the time of a run or of a part of a turn, and an output of at most this size.
  void begin(uint64_t output_limit_bytes);
  // Replaces the flag of the options; null: no flag.
  void cancel_by(const std::atomic<bool>* cancel) { cancel_ = cancel; }

  // kCancelled when the owner requests it, kTimedOut when the time is up.
  [[nodiscard]] std::optional<Outcome> stop_requested() const;
  // The same while code runs: the options' listener is called.
  [[nodiscard]] std::optional<Outcome> must_stop() const;

  // Up to the limit of fuel, of which a run that continues has used some.
  [[nodiscard]] uint64_t take_fuel(uint64_t used_before);
  void give_back_fuel(uint64_t fuel) { budget_->give_back(policy::Resource::kFuel, fuel); }

  // The outside of a System: its requests, its output, and waiting until `must_stop`. Valid as long as the context.
  [[nodiscard]] wasi::World wasi_world(std::function<bool()> must_stop);
  // What the world may use during a call is what the guest's memory limit leaves. Borrowed.
  void bound_memory_by(GuestInstance& guest);

  [[nodiscard]] policy::Budget& budget() const { return *budget_; }
  [[nodiscard]] host::World& world() const { return *world_; }
  [[nodiscard]] Conversation& output() { return output_; }
  [[nodiscard]] const Conversation& output() const { return output_; }

 private:
  const RunOptions& options_;
  std::shared_ptr<policy::Budget> budget_;
  std::unique_ptr<host::World> world_;
  const std::atomic<bool>* cancel_;
  std::chrono::steady_clock::time_point deadline_;
  Conversation output_;
};

}  // namespace membrane::sandbox
