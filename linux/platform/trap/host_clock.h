// The host's vdso in stubs: code and data of the host's kernel with which every program reads clocks. Guests
// may call it; what it cannot answer by itself becomes a system call, which stops them.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace membrane::linux {

struct HostClock {
  uint64_t begin = 0, end = 0;  // of the needed pages
  uint64_t clock_gettime = 0;   // 0: there is none
};

// The vdso of a process that runs the stubs' program, and so of all its forks.
HostClock host_clock_of(pid_t process);

}  // namespace membrane::linux
