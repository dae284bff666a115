// The platform `trap`: guest threads are threads of jailed processes, the stubs, in which every system call raises SIGSYS
// by seccomp. The stub's handler hands the registers to this process (the kernel process) through a page that both share,
// and obeys what it is told: to go on, to change its memory, to fork.
//
//   this process ──┬─ nursery     makes stubs, in namespaces of their own (stub/jail.c)
//                  │     └─ init  the first process of their process namespace; ends with the nursery
//                  ├─ stub        a guest's process, its memory, its threads (stub/stub.c)
//                  └─ stub …
//
// What a stub can do, even when its guest jumps into the handler's code: a dozen calls of the host, on its own memory, its
// own threads, its own descriptors (trap's filter, in stub/jail.c). Its memory is not bounded by the platform: that is for
// the kernel's accounts, and a control group around this process.
#pragma once

#include <string>
#include <vector>

#include "linux/platform/platform.h"

namespace membrane::linux {

// A wall that this machine cannot raise around the stubs, and why.
struct MissingWall {
  std::string name;  // "pid_namespace"
  std::string why;
};
// Of a platform that start_trap_platform() made.
const std::vector<MissingWall>& missing_walls_of(const Platform& trap);

}  // namespace membrane::linux
