// The clock of a run. Virtual unless the policy grants the real one.
//
// The virtual clock starts at the grant's start and moves on by exactly 1 ms at each
// reading, so that a program that waits for time to pass gets on, and two runs read the
// same times.
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

 private:
  bool real_;
  int64_t next_ms_;
};

}  // namespace membrane::host
