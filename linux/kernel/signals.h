// Signals: who gets them, their effects, and the frames with which handlers are called. See signal(7).
#pragma once

#include <sys/resource.h>

#include "linux/kernel/task.h"

namespace membrane::linux {

constexpr rlim_t kMostPendingSignals = 1024;  // per process or task, whatever RLIMIT_SIGPENDING is
constexpr SignalSet kUnblockable = bit_of(SIGKILL) | bit_of(SIGSTOP);

// As kill() of `from` would send it; nullptr: as the kernel would.
PendingSignal signal_from(int number, int code, const Process* from);

// Sends to a process, for any of its tasks, or to one task. Ignored signals are dropped. SIGKILL ends the
// process now. Returns false when the queue is full (RLIMIT_SIGPENDING) and the signal is one that must not
// be merged: EAGAIN for its sender.
bool send_signal(Kernel& kernel, Process& to, const PendingSignal& signal);
bool send_signal_to_task(Kernel& kernel, Task& to, const PendingSignal& signal);
// Raises an exception of the task's own: it cannot be blocked or ignored.
void force_signal(Kernel& kernel, Task& to, const PendingSignal& signal);

// Whether the task would act on a signal now, with its current mask.
bool has_signal(const Task& task);
// Takes the next signal of the set `wanted`.
std::optional<PendingSignal> take_signal(Task& task, SignalSet wanted);
// The default action of a signal.
bool is_ignored(const Process& process, int number);

// SIGCHLD's and waitid()'s view of a wait4() status: CLD_EXITED and the exit code, CLD_STOPPED and the
// signal…
struct ChildNews {
  int code = 0, value = 0;
};
ChildNews news_of(int status);

// Whether a stack pointer lies on the signal stack.
bool is_on(const SignalStack& stack, uint64_t sp);
// Sets the mask until the task's current call returns: sigsuspend(), ppoll() and the like.
void set_mask_during_call(Task& task, SignalSet mask);

// Before the task returns to its guest: acts on each pending signal and sets up handler frames. False when
// the task has ended or is stopped.
bool deliver_signals(Kernel& kernel, Task& task);
// rt_sigreturn(): restores the state from the frame. Errors: EFAULT.
Done return_from_signal(Task& task);

}  // namespace membrane::linux
