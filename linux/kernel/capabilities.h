// Capabilities of a process: the values that it sees and keeps across a change of its user. The kernel goes
// by the user: the superuser may do everything, and of other users' capabilities only CAP_SETUID and
// CAP_SETGID count. Threads: the kernel's thread.
#pragma once

#include <linux/capability.h>
#include <linux/securebits.h>

#include <cstdint>

#include "linux/fs/node.h"

namespace membrane::linux {

struct Capabilities {
  static constexpr uint64_t kAll = (uint64_t{1} << (CAP_LAST_CAP + 1)) - 1;
  uint64_t permitted = kAll, effective = kAll, inheritable = 0, bounding = kAll, ambient = 0;
  uint32_t secure_bits = 0;  // SECBIT_…

  [[nodiscard]] bool has(int capability) const { return (effective >> capability & 1) != 0; }
  [[nodiscard]] bool is_secure(int bit) const { return (secure_bits >> bit & 1) != 0; }
  // Updates them after setuid() and the like.
  void change_user(const Credentials& before, const Credentials& after);
  // Updates them for a new program of this user, which a set-user-ID program may have changed.
  void begin_program(const Credentials& after, bool changes_user);
};

}  // namespace membrane::linux
