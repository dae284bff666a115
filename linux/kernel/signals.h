// Signals: who gets them, what they do, and the frames by which handlers are called. See signal(7).
#pragma once

#include <sys/resource.h>

#include "linux/kernel/task.h"

namespace membrane::linux {

constexpr rlim_t kMostPendingSignals = 1024;  // of a process or a task, whatever RLIMIT_SIGPENDING is
constexpr SignalSet kUnblockable = bit_of(SIGKILL) | bit_of(SIGSTOP);

// As kill() of `from` would have it; nullptr: of the kernel.
PendingSignal signal_from(int number, int code, const Process* from);

// To a process, for any of its tasks; to one task. Signals that are ignored are dropped. SIGKILL ends the process now.
// False when the queue is full (RLIMIT_SIGPENDING) and the signal is one that it would be wrong to merge: EAGAIN for its sender.
bool send_signal(Kernel& kernel, Process& to, const PendingSignal& signal);
bool send_signal_to_task(Kernel& kernel, Task& to, const PendingSignal& signal);
// An exception of the task's own: it cannot be blocked or ignored.
void force_signal(Kernel& kernel, Task& to, const PendingSignal& signal);

// Whether there is one that the task would act on now, with its mask as it is.
bool has_signal(const Task& task);
// Takes the next one of those in `wanted`.
std::optional<PendingSignal> take_signal(Task& task, SignalSet wanted);
// What the default does with a signal.
bool is_ignored(const Process& process, int number);

// What SIGCHLD and waitid() say of a status as wait4() gives it: CLD_EXITED and the exit code, CLD_STOPPED and the signal…
struct ChildNews {
  int code = 0, value = 0;
};
ChildNews news_of(int status);

// Whether a stack pointer is in it.
bool is_on(const SignalStack& stack, uint64_t sp);
// Until the call that the task is in has its answer: sigsuspend(), ppoll() and their like.
void set_mask_during_call(Task& task, SignalSet mask);

// Before the task returns to its guest: acts on each signal that exists; a handler's frame is put in place. False when the
// task has ended or is stopped.
bool deliver_signals(Kernel& kernel, Task& task);
// rt_sigreturn(): puts back what the frame has. Errors: EFAULT.
Done return_from_signal(Task& task);

}  // namespace membrane::linux
