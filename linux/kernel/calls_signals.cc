// System calls of signals.
#include <algorithm>

#include "linux/kernel/call.h"
#include "linux/kernel/kernel.h"
#include "linux/kernel/signals.h"
#include "linux/kernel/waiting_calls.h"

namespace membrane::linux {

namespace {

constexpr uint64_t kMinimalStack = 2048;

bool is_signal(int number) { return number >= 1 && number <= 64; }

bool may_signal(const Process& from, const Process& to, int number) {
  const Credentials &who = from.credentials, &other = to.credentials;
  if (who.euid == 0 || who.euid == other.suid || who.euid == other.uid || who.uid == other.suid ||
      who.uid == other.uid)
    return true;
  return number == SIGCONT && from.session == to.session;
}

// Signals each process for which `is_meant` holds; an error when there is none, or none that may be
// signalled.
template <typename Meant>
int64_t signal_all(Call& call, int number, const Meant& is_meant) {
  std::vector<int> meant;
  for (const auto& [id, each] : call.kernel.processes())
    if (is_meant(*each)) meant.push_back(id);
  int64_t result = -ESRCH;
  const PendingSignal signal = signal_from(number, SI_USER, &call.process());
  for (const int id : meant) {
    Process* const to = call.kernel.process_of(id);
    if (to == nullptr) continue;
    if (!may_signal(call.process(), *to, number)) {
      if (result == -ESRCH) result = -EPERM;
      continue;
    }
    result = 0;
    if (number != 0) send_signal(call.kernel, *to, signal);
  }
  return result;
}

int64_t signal_task(Call& call, int group, int id, const PendingSignal& signal) {
  Task* const task = call.kernel.task_of(id);
  if (task == nullptr || (group > 0 && task->process->id != group)) return -ESRCH;
  if (!may_signal(call.process(), *task->process, signal.number)) return -EPERM;
  if (signal.number != 0 && !send_signal_to_task(call.kernel, *task, signal)) return -EAGAIN;
  return 0;
}

}  // namespace

int64_t sys_rt_sigaction(Call& call) {
  const int number = call.int_arg(0);
  if (call.arg(3) != sizeof(SignalSet) || !is_signal(number)) return -EINVAL;
  SignalAction& action = call.process().actions[number];
  const SignalAction before = action;
  if (call.arg(1) != 0) {
    if ((kUnblockable & bit_of(number)) != 0) return -EINVAL;
    CALL_ASSIGN(action, call.get<SignalAction>(call.arg(1)));
    action.mask &= ~kUnblockable;
    if (is_ignored(call.process(), number)) {
      const auto is_it = [number](const PendingSignal& each) { return each.number == number; };
      std::erase_if(call.process().pending.queue, is_it);
      for (const auto& task : call.process().tasks) std::erase_if(task->pending.queue, is_it);
    }
  }
  return call.arg(2) == 0 ? 0 : answer(call.put(call.arg(2), before));
}

int64_t sys_rt_sigprocmask(Call& call) {
  if (call.arg(3) != sizeof(SignalSet)) return -EINVAL;
  const SignalSet before = call.task.blocked;
  if (call.arg(1) != 0) {
    CALL_ASSIGN(const SignalSet set, call.get<SignalSet>(call.arg(1)));
    switch (call.int_arg(0)) {
      case SIG_BLOCK: call.task.blocked |= set; break;
      case SIG_UNBLOCK: call.task.blocked &= ~set; break;
      case SIG_SETMASK: call.task.blocked = set; break;
      default: return -EINVAL;
    }
    call.task.blocked &= ~kUnblockable;
  }
  return call.arg(2) == 0 ? 0 : answer(call.put(call.arg(2), before));
}

int64_t sys_rt_sigreturn(Call& call) {
  if (!return_from_signal(call.task)) {
    call.kernel.end_process(call.process(), SIGSEGV | 0x80);
  }
  return kNoAnswer;
}

int64_t sys_rt_sigpending(Call& call) {
  if (call.arg(1) > sizeof(SignalSet)) return -EINVAL;
  const SignalSet set = (call.task.pending.set() | call.process().pending.set()) & call.task.blocked;
  return answer(call.put(call.arg(0), set));
}

int64_t sys_rt_sigsuspend(Call& call) {
  if (call.arg(1) != sizeof(SignalSet)) return -EINVAL;
  if (!call.is_again()) {
    CALL_ASSIGN(const SignalSet mask, call.get<SignalSet>(call.arg(0)));
    set_mask_during_call(call.task, mask);
  }
  return call.wait(OnSignal::kInterrupt);
}

int64_t sys_pause(Call& call) { return call.wait(OnSignal::kInterrupt); }

int64_t sys_rt_sigtimedwait(Call& call) {
  if (call.arg(3) != sizeof(SignalSet)) return -EINVAL;
  CALL_ASSIGN(const SignalSet wanted, call.get<SignalSet>(call.arg(0)));
  if (const auto signal = take_signal(call.task, wanted & ~kUnblockable)) {
    if (call.arg(1) != 0) CALL_TRY(call.put(call.arg(1), signal->info));
    return signal->number;
  }
  if (call.is_late()) return -EAGAIN;
  call.join(call.task.signal_queue);
  if (call.arg(2) == 0) return call.wait(OnSignal::kInterrupt);
  CALL_ASSIGN(const timespec time, call.get<timespec>(call.arg(2)));
  CALL_ASSIGN(const auto deadline, deadline_of(call.kernel, time, false, CLOCK_MONOTONIC));
  if (time.tv_sec == 0 && time.tv_nsec == 0) return -EAGAIN;
  return call.wait_until(deadline, OnSignal::kInterrupt);
}

int64_t sys_sigaltstack(Call& call) {
  struct Stack {
    uint64_t base;
    int32_t flags, padding;
    uint64_t size;
  };
  SignalStack& stack = call.task.signal_stack;
  const bool is_in_use = is_on(stack, call.task.thread->registers.rsp);
  const Stack before = {stack.base, is_in_use ? SS_ONSTACK : stack.flags, 0, stack.size};
  if (call.arg(0) != 0) {
    CALL_ASSIGN(const Stack wanted, call.get<Stack>(call.arg(0)));
    constexpr int kAutoDisarm = 1 << 31;
    if (is_in_use) return -EPERM;
    const int mode = wanted.flags & ~kAutoDisarm;
    if (mode != SS_DISABLE && mode != SS_ONSTACK && mode != 0) return -EINVAL;
    if (mode == SS_DISABLE) {
      stack = {};
    } else {
      if (wanted.size < kMinimalStack) return -ENOMEM;
      stack = {.base = wanted.base, .size = wanted.size, .flags = wanted.flags & kAutoDisarm};
    }
  }
  return call.arg(1) == 0 ? 0 : answer(call.put(call.arg(1), before));
}

int64_t sys_kill(Call& call) {
  const int id = call.int_arg(0), number = call.int_arg(1);
  if (number != 0 && !is_signal(number)) return -EINVAL;
  const int own = call.process().id, group = id == 0 ? call.process().group : -id;
  if (id > 0) return signal_all(call, number, [id](const Process& each) { return each.id == id; });
  if (id == -1)
    return signal_all(call, number, [own](const Process& each) { return each.id != own && each.id != 1; });
  return signal_all(call, number, [group](const Process& each) { return each.group == group; });
}

int64_t sys_tgkill(Call& call) {
  if (call.int_arg(0) <= 0 || call.int_arg(1) <= 0 || call.int_arg(2) < 0 || call.int_arg(2) > 64)
    return -EINVAL;
  return signal_task(call, call.int_arg(0), call.int_arg(1),
                     signal_from(call.int_arg(2), SI_TKILL, &call.process()));
}

int64_t sys_tkill(Call& call) {
  if (call.int_arg(0) <= 0 || call.int_arg(1) < 0 || call.int_arg(1) > 64) return -EINVAL;
  return signal_task(call, 0, call.int_arg(0), signal_from(call.int_arg(1), SI_TKILL, &call.process()));
}

int64_t sys_rt_sigqueueinfo(Call& call) {
  const int number = call.int_arg(1);
  if (number != 0 && !is_signal(number)) return -EINVAL;
  CALL_ASSIGN(siginfo_t info, call.get<siginfo_t>(call.arg(2)));
  Process* const to = call.kernel.process_of(call.int_arg(0));
  if (to == nullptr) return -ESRCH;
  if (!may_signal(call.process(), *to, number)) return -EPERM;
  if ((info.si_code >= 0 || info.si_code == SI_TKILL) && to != &call.process()) return -EPERM;
  info.si_signo = number;
  if (number != 0 && !send_signal(call.kernel, *to, {.number = number, .info = info})) return -EAGAIN;
  return 0;
}

int64_t sys_rt_tgsigqueueinfo(Call& call) {
  const int number = call.int_arg(2);
  if (number != 0 && !is_signal(number)) return -EINVAL;
  CALL_ASSIGN(siginfo_t info, call.get<siginfo_t>(call.arg(3)));
  info.si_signo = number;
  if (info.si_code >= 0 && call.int_arg(0) != call.process().id) return -EPERM;
  return signal_task(call, call.int_arg(0), call.int_arg(1), {.number = number, .info = info});
}

}  // namespace membrane::linux
