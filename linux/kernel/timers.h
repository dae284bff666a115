// Timers of processes: ITIMER_* (calls_time.cc) and POSIX timers (calls_timers.cc). Threads: the kernel's
// thread.
#pragma once

#include "linux/kernel/task.h"

namespace membrane::linux {

// The signal of a timer was taken: the timer runs again, and the signal reports the missed expirations.
void note_timer_signal(Kernel& kernel, Process& process, siginfo_t& info);

// Restarts the timers of a restored process.
void rearm_interval_timers(Kernel& kernel, Process& process);
void rearm_posix_timers(Kernel& kernel, Process& process);

}  // namespace membrane::linux
