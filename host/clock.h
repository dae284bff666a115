// The clock of a run. Virtual unless the policy grants the real one.
//
// The virtual clock starts at the grant's start and advances by exactly 1 ms at each reading, so that a program that
// waits for time to pass makes progress, and two runs read the same times.
//
// Threads: one at a time.
#pragma once

#include <cstdint>

#include "policy/policy.h"

namespace membrane::host {

class Clock {
 public:
  explicit Clock(const policy::TimeGrant& grant) : real_(grant.real), next_ms_(grant.start_ms) {}

  // Unix time in ms.
  int64_t now_ms();
  // How often the virtual clock was read; and continues as if it had been read this often. A thawed run also starts
  // from the grant's start: if that differs now, the current grant counts.
  [[nodiscard]] uint64_t readings() const { return readings_; }
  void skip(uint64_t readings);

 private:
  bool real_;
  int64_t next_ms_;
  uint64_t readings_ = 0;
};

}  // namespace membrane::host
