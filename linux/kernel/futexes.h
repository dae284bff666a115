// Futexes: who waits on which word of memory. A word is named by its memory and address, or, when it is in a shared mapping,
// by the file and offset behind it.
#pragma once

#include <cstdint>

#include "linux/kernel/task.h"

namespace membrane::linux {

// Wakes at most `most` tasks that wait at the address in the task's memory, with a set that meets `bits`; returns how many.
int wake_futex(Task& in, uint64_t address, int most, uint32_t bits = UINT32_MAX);

}  // namespace membrane::linux
