// Futexes: who waits on which word of memory. A word is named by its memory and address, or, when it is in a shared mapping,
// by the file and offset behind it.
#pragma once

#include <cstdint>

#include "linux/kernel/task.h"

namespace membrane::linux {

// Wakes at most `most` tasks that wait at the address in the task's memory, with a set that meets `bits`; gives how many.
int wake_futex(Task& in, uint64_t address, int most, uint32_t bits = UINT32_MAX);

// When a time of the guest's has come: `time` from now, or by a clock. Errors: EINVAL.
Try<std::chrono::steady_clock::time_point> deadline_of(const Kernel& kernel, const timespec& time,
                                                       bool is_absolute, int clock);

}  // namespace membrane::linux
