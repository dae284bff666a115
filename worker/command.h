// A command that a Worker gives, and what it says of its guest: for the parts of Worker, of its sessions and of Zygote.
//
// Threads: as for Worker.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/sanitized_testing.h"
#include "worker/messages.h"
#include "worker/worker.h"

namespace membrane::worker {

// A worker ends by itself when its guest's time is over; one that does not is killed.
inline constexpr std::chrono::seconds kGrace(kIsSanitized ? 10 : 3);
inline constexpr std::chrono::seconds kSetUpTime(120);
inline constexpr uint64_t kMostBytesOfSetUp = 1u << 20;

struct Worker::Command {
  Kind kind;
  uint32_t subject = 0;
  std::string payload = {};
  const sandbox::RunOptions* options =
      nullptr;  // its callbacks receive the output; null: no output is expected
  std::vector<std::pair<uint32_t, Answerer*>> answerers = {};
  Clock::time_point until = Clock::now() + kSetUpTime;
  const std::atomic<bool>* cancel = nullptr;
  std::vector<Descriptor> came_along = {};
  bool was_late = false;  // the worker was killed at its deadline

  // The report of its run or turn, which the worker did not send; perhaps because it was killed.
  [[nodiscard]] sandbox::Report unanswered(const Error& error) const;
};

// How long a command may take that runs next to no guest code.
std::chrono::seconds time_for(Kind kind);
// What a budget that is shared with others has left.
SharedLeft left_of(const sandbox::RunOptions& options);
// What the worker learns of the options.
GuestOptions guest_options(const sandbox::RunOptions& options);
// The size limit for a worker's message about a guest of this policy.
uint64_t most_bytes(const policy::Limits& limits);
std::shared_ptr<policy::Budget> budget_of(const sandbox::RunOptions& options);
// The report of a run or turn whose worker was lost.
sandbox::Report worker_lost(const Error& error);

}  // namespace membrane::worker
