// The platform `trap`: guest threads are threads of jailed processes, the stubs, in which seccomp makes every
// system call raise SIGSYS. The stub's handler passes the registers to this process (the kernel process)
// through a page that both share, and obeys orders: to resume, to change its memory, to fork.
//
//   this process ──┬─ nursery     makes stubs, in namespaces of their own (stub/jail.c)
//                  │     └─ init  the first process of their process namespace; ends with the nursery
//                  ├─ stub        a guest's process, its memory, its threads (stub/stub.c)
//                  └─ stub …
//
// What a stub can do, even when its guest jumps into the handler's code: a dozen host calls, on its own
// memory, its own threads, its own descriptors (trap's filter, in stub/jail.c). The platform does not limit
// its memory: the kernel's accounting and a control group around this process do.
#pragma once

#include <string>
#include <vector>

#include "linux/platform/platform.h"

namespace membrane::linux {

// A wall around the stubs that this machine cannot raise, and why.
struct MissingWall {
  std::string name;  // "pid_namespace"
  std::string why;
};
// For a platform from start_trap_platform().
const std::vector<MissingWall>& missing_walls_of(const Platform& trap);

}  // namespace membrane::linux
