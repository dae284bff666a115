// Futexes: the tasks that wait for a word of memory. A word is identified by its memory and address or, in a
// shared mapping, by the mapped file and offset.
#pragma once

#include <cstdint>

#include "linux/kernel/task.h"

namespace membrane::linux {

// Wakes at most `most` tasks that wait at the address in the task's memory, with a bit set that intersects
// `bits`; returns how many.
int wake_futex(Task& in, uint64_t address, int most, uint32_t bits = UINT32_MAX);

}  // namespace membrane::linux
