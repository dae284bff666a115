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

// From now on large blocks go back to the system as soon as they are freed. Else the allocator takes blocks as large as it has
// seen from heaps of each thread, where they leave holes. For a process that keeps large things for many; before it has threads.
inline void map_large_blocks() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
#endif
}

}  // namespace membrane
