// The host's vdso as stubs have it: code and data of the host's kernel by which every program reads clocks. Guests may call it;
// what it does not answer by itself is a system call, which stops them.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace membrane::linux {

struct HostClock {
  uint64_t begin = 0, end = 0;  // of the pages that it needs
  uint64_t clock_gettime = 0;   // 0: there is none
};

// That of a process which has the program of the stubs, and so of all that it forks.
HostClock host_clock_of(pid_t process);

}  // namespace membrane::linux
