// POSIX timers of processes (calls_timers.cc). Threads: the kernel's one.
#pragma once

#include "linux/kernel/task.h"

namespace membrane::linux {

// The signal of a timer was taken: the timer runs on, and the signal says what was missed meanwhile.
void note_timer_signal(Kernel& kernel, Process& process, siginfo_t& info);

}  // namespace membrane::linux
