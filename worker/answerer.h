// The supervisor's side of a session's requests: each is read as hostile bytes, and answered by the World that holds the
// session's policy.
//
// Threads: one at a time.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "host/world.h"
#include "sandbox/sandbox.h"
#include "worker/wire.h"

namespace membrane::worker {

class Answerer {
 public:
  // `options` is borrowed; `read_input` of it answers questions for input. `most_memory_bytes` is the most of the host's
  // memory that a call may use, whatever the worker says.
  Answerer(const sandbox::RunOptions& options, std::unique_ptr<host::World> world,
           uint64_t most_memory_bytes);

  // The answer, as bytes. Errors: kInvalidInput for what no worker of this build asks.
  Result<std::string> answer(std::string_view question);

  // When calls must have ended, from now on; `cancel` is borrowed, and may be null.
  void bound(std::chrono::steady_clock::time_point end, const std::atomic<bool>* cancel);
  // A worker's clock begins when its command has come, so its guest may fail by a call that was ended at the end of its
  // time before it finds that time over. That is what the report says then.
  void tell_late_call(const policy::Limits& limits, sandbox::Report& report) const;

  [[nodiscard]] host::World& world() { return *world_; }

 private:
  Result<std::string> answer_call(Reader& in);

  const sandbox::RunOptions& options_;
  std::unique_ptr<host::World> world_;
  const uint64_t most_memory_bytes_;
  uint64_t left_for_call_ = 0;
  std::chrono::steady_clock::time_point end_ = std::chrono::steady_clock::time_point::max();
  bool had_late_call_ = false;
};

}  // namespace membrane::worker
