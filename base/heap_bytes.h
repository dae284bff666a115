// How much of its heap this process uses.
//
// Threads: any.
#pragma once

#include <malloc.h>

#include <cstddef>
#include <cstdint>

extern "C" __attribute__((weak)) size_t __sanitizer_get_current_allocated_bytes();

namespace membrane {

// The bytes allocated in this process. A sanitizer has an allocator and a count of its own.
inline uint64_t heap_bytes() {
  if (__sanitizer_get_current_allocated_bytes != nullptr) return __sanitizer_get_current_allocated_bytes();
  const struct mallinfo2 all = mallinfo2();
  return all.uordblks + all.hblkhd;
}

}  // namespace membrane
