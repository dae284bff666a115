// A control group of the service's own that bounds all of its workers together: memory, processes and, if
// requested, CPU time. It costs a worker nothing, since a process forked in a group belongs to it.
//
// The group is below that of this process, in the hierarchies of version 1, or in that of version 2 if this
// process may write there: as root, or in a systemd unit with Delegate=yes. If it cannot be created,
// missing() says why; then only the limits of each worker apply.
//
// Groups are named membrane-PID. Creating one removes empty groups whose process is gone; the destructor,
// which must run after the processes in the group have ended, removes its own.
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
  uint64_t memory_bytes = 0;  // for all together; 0: no limit
  uint64_t processes = 0;     // the same
  uint64_t cpu_percent = 0;   // of one processor: 200 is two; 0: no limit
};

class ControlGroups {
 public:
  // `own`: processes of the caller besides itself, which move with it if it has to enter a group of its own.
  static ControlGroups make(const ControlLimits& limits, std::span<const pid_t> own = {});
  ~ControlGroups();
  ControlGroups(ControlGroups&& other) noexcept
      : directories_(std::exchange(other.directories_, {})),
        bounded_(std::move(other.bounded_)),
        missing_(std::move(other.missing_)) {}
  ControlGroups(const ControlGroups&) = delete;
  ControlGroups& operator=(const ControlGroups&) = delete;
  ControlGroups& operator=(ControlGroups&&) = delete;

  // Puts a process and its later forks into the group. Errors: kUnavailable.
  Status add(pid_t process);

  // The bounded resources: "memory", "pids", "cpu".
  [[nodiscard]] const std::vector<std::string>& bounded() const { return bounded_; }
  [[nodiscard]] const std::vector<std::string>& directories() const { return directories_; }
  // The reason why a requested limit does not apply; "" when all apply.
  [[nodiscard]] const std::string& missing() const { return missing_; }

 private:
  ControlGroups() = default;
  void miss(const std::string& why) { missing_ += (missing_.empty() ? "" : "; ") + why; }

  std::vector<std::string> directories_;  // of the groups
  std::vector<std::string> bounded_;
  std::string missing_;
};

}  // namespace membrane::worker
