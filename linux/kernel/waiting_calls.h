// Shared by waiting calls: their time limit and their signal mask. Threads: the kernel's thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "linux/kernel/call.h"

namespace membrane::linux {

// The deadline of a guest's time: `time` from now, or by a clock. Errors: EINVAL.
Try<std::chrono::steady_clock::time_point> deadline_of(const Kernel& kernel, const timespec& time,
                                                       bool is_absolute, int clock);

// The deadline of a waiting call. No time: never.
struct TimeLimit {
  std::optional<std::chrono::steady_clock::time_point> deadline;
  bool is_zero = false;  // do not wait at all
};
TimeLimit limit_of_milliseconds(Call& call, int timeout_ms);  // negative: never
// From a guest's timespec; a null pointer means never. Errors: EFAULT, EINVAL.
Try<TimeLimit> limit_at(Call& call, uint64_t timespec_at);
// Continues to wait until the limit. The caller has joined queues.
int64_t wait_within(Call& call, const TimeLimit& limit);
// The remaining time, as ppoll() and select() report it.
std::chrono::nanoseconds rest_of(Call& call, const TimeLimit& limit);

// Uses the mask at an address (null: none) as the task's for the duration of the call. Errors: EFAULT, EINVAL
// for another size.
Done use_mask_during_call(Call& call, uint64_t mask_at, uint64_t size);

}  // namespace membrane::linux
