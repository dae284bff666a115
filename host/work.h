// The work that the host does for a call besides passing bytes, in units of fuel: the cost of a query does not show
// in its text or its result.
//
// It grows while the work is done. The call ends as soon as the work exceeds what the program can pay, and then
// counts as a call whose price cannot be paid: with more fuel it is repeated from its beginning.
#pragma once

#include <cstdint>

namespace membrane::host {

struct Work {
  uint64_t most = UINT64_MAX;  // what the program can pay
  uint64_t done = 0;           // also for a call that fails

  void add(uint64_t fuel) { done = fuel > UINT64_MAX - done ? UINT64_MAX : done + fuel; }
  [[nodiscard]] bool is_too_much() const { return done > most; }
};

}  // namespace membrane::host
