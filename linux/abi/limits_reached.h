// How often a sandbox has hit each of its limits: what was refused or ended because of it.
#pragma once

#include <cstdint>

namespace membrane::linux {

struct LimitsReached {
  uint64_t memory = 0;  // processes that were killed
  uint64_t tasks = 0;   // processes and threads that were refused
  uint64_t disk = 0;    // writes and new files for which there was no room
  uint64_t cpu = 0;     // 1: all processes were killed, and none can start

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
