// A control group of the service's own, which bounds all of its workers together: memory, processes, and where it is
// asked for the processors' time. It costs a worker nothing, since who is forked in a group is in it.
//
// The group lies below that of this process, in the hierarchies of version 1, or in the one of version 2 where this process may
// write there: as root, or in a unit of systemd with Delegate=yes. Where it cannot be had, missing() says why; then the
// limits of each worker stand alone.
//
// Groups are named membrane-PID. Those whose process is gone and that are empty are removed when one is made; its own is
// removed by the destructor, which comes after the end of the processes in it.
//
// Threads: one at a time.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace membrane::worker {

struct ControlLimits {
  uint64_t memory_bytes = 0;  // of all together; 0: no limit
  uint64_t processes = 0;     // the same
  uint64_t cpu_percent = 0;   // of one processor: 200 are two; 0: no limit
};

class ControlGroups {
 public:
  // `own`: processes of the caller besides itself, which are to go along where it has to move into a group of its own.
  static ControlGroups make(const ControlLimits& limits, std::span<const pid_t> own = {});
  ~ControlGroups();
  ControlGroups(ControlGroups&& other) noexcept
      : directories_(std::exchange(other.directories_, {})),
        bounded_(std::move(other.bounded_)),
        missing_(std::move(other.missing_)) {}
  ControlGroups(const ControlGroups&) = delete;
  ControlGroups& operator=(const ControlGroups&) = delete;
  ControlGroups& operator=(ControlGroups&&) = delete;

  // From now on it counts there, and whom it forks. Errors: kUnavailable.
  Status add(pid_t process);

  // What is bounded: "memory", "pids", "cpu".
  [[nodiscard]] const std::vector<std::string>& bounded() const { return bounded_; }
  [[nodiscard]] const std::vector<std::string>& directories() const { return directories_; }
  // Why something of what was asked for is not; "" when all is.
  [[nodiscard]] const std::string& missing() const { return missing_; }

 private:
  ControlGroups() = default;
  void miss(const std::string& why) { missing_ += (missing_.empty() ? "" : "; ") + why; }

  std::vector<std::string> directories_;  // of the groups
  std::vector<std::string> bounded_;
  std::string missing_;
};

}  // namespace membrane::worker
