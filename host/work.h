// What the host does for a call besides taking and giving bytes, in units of fuel: how long a query takes does not show
// in its text or its answer.
//
// It grows while the work is done. The call ends as soon as there is more than the program can pay, and is then as one
// whose price cannot be paid: with more fuel it is made again, from its beginning.
#pragma once

#include <cstdint>

namespace membrane::host {

struct Work {
  uint64_t most = UINT64_MAX;  // what the program can pay
  uint64_t done = 0;           // also of a call that fails

  void add(uint64_t fuel) { done = fuel > UINT64_MAX - done ? UINT64_MAX : done + fuel; }
  [[nodiscard]] bool is_too_much() const { return done > most; }
};

}  // namespace membrane::host
