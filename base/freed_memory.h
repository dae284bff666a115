// What the allocator keeps of memory that was freed.
//
// Threads: any.
#pragma once

#include <malloc.h>

namespace membrane {

// Gives it back to the system. For after something that took much for a short time, since the allocator keeps what was
// freed in small pieces. Takes time in proportion to what is free: some milliseconds for what a call can leave.
inline void return_freed_memory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

}  // namespace membrane
