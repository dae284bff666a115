// Timers of processes: by ITIMER_* (calls_time.cc), and those of POSIX (calls_timers.cc). Threads: the kernel's thread.
#pragma once

#include "linux/kernel/task.h"

namespace membrane::linux {

// The signal of a timer was taken: the timer runs on, and the signal says what was missed meanwhile.
void note_timer_signal(Kernel& kernel, Process& process, siginfo_t& info);

// Those of a process that was kept run on.
void rearm_interval_timers(Kernel& kernel, Process& process);
void rearm_posix_timers(Kernel& kernel, Process& process);

}  // namespace membrane::linux
