// Freed memory that the allocator still holds.
//
// Threads: any.
#pragma once

#include <malloc.h>

namespace membrane {

// Returns it to the system. Call it after an operation that used much memory for a short time, since the allocator
// keeps small freed blocks. The time is proportional to what is free: a few milliseconds for what a call can leave.
inline void return_freed_memory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

// From now on, large blocks return to the system as soon as they are freed. Otherwise the allocator adapts its
// threshold and takes such blocks from per-thread heaps, where they leave holes. For a process that keeps large
// objects for many clients; call it before the process starts threads.
inline void map_large_blocks() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
#endif
}

}  // namespace membrane
