// The CPU time that tasks have used. Under a virtual clock it is the time since their process began.
#pragma once

#include <sys/resource.h>

#include "linux/kernel/task.h"

namespace membrane::linux {

CpuTime used_by(const Task& task);
CpuTime used_by(const Kernel& kernel, const Process& process);

// The same by the host's clocks, whatever clock guests see.
std::chrono::nanoseconds used_on_processors(const Task& task);

// Converted to the types of system calls.
void put_into(rusage& usage, const CpuTime& time);
int64_t ticks_of(std::chrono::nanoseconds time);  // of 10 ms

// RLIMIT_CPU: a process over its limit gets SIGXCPU, again each second, and is killed at the hard limit.
void enforce_cpu_limits(Kernel& kernel);

}  // namespace membrane::linux
