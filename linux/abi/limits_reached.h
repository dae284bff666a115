// How often a sandbox has hit each of its limits: what was refused or ended because of it.
#pragma once

#include <cstdint>

namespace membrane::linux {

struct LimitsReached {
  uint64_t memory = 0;  // processes that were ended
  uint64_t tasks = 0;   // processes and threads that were not made
  uint64_t disk = 0;    // writes and new files that found no room
  uint64_t cpu = 0;     // 1: all processes were ended, and none begins any more

  friend bool operator==(const LimitsReached&, const LimitsReached&) = default;
};

inline LimitsReached operator-(LimitsReached more, const LimitsReached& less) {
  more.memory -= less.memory;
  more.tasks -= less.tasks;
  more.disk -= less.disk;
  more.cpu -= less.cpu;
  return more;
}

}  // namespace membrane::linux
