// The kernel's data for the vdso: one page, right after that of the image. C and C++.
#pragma once

#include <stdint.h>

#define VDSO_DATA_AT 4096  // from the image's start; also in vdso.lds

struct VdsoData {
  // The address of a clock_gettime() that needs no system call; 0: the platform has none.
  uint64_t clock_gettime;
  // How far the clocks that only count time are ahead of that function's.
  int64_t ahead_ns;
};
