// What calls that wait share: their time limit and their signal mask. Threads: the kernel's thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "linux/kernel/call.h"

namespace membrane::linux {

// When a time of the guest's has come: `time` from now, or by a clock. Errors: EINVAL.
Try<std::chrono::steady_clock::time_point> deadline_of(const Kernel& kernel, const timespec& time,
                                                       bool is_absolute, int clock);

// When a call that waits is over. No time: never.
struct TimeLimit {
  std::optional<std::chrono::steady_clock::time_point> deadline;
  bool is_zero = false;  // it does not wait at all
};
TimeLimit limit_of_milliseconds(Call& call, int timeout_ms);  // negative: never
// Of a timespec of the guest's; a null pointer is never. Errors: EFAULT, EINVAL.
Try<TimeLimit> limit_at(Call& call, uint64_t timespec_at);
// Waits on until the limit. The caller has joined queues.
int64_t wait_within(Call& call, const TimeLimit& limit);
// What is left of it, as ppoll() and select() tell.
std::chrono::nanoseconds rest_of(Call& call, const TimeLimit& limit);

// The mask at an address (null: none) is the task's while the call lasts. Errors: EFAULT, EINVAL for another size.
Done use_mask_during_call(Call& call, uint64_t mask_at, uint64_t size);

}  // namespace membrane::linux
