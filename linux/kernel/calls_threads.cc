// System calls of threads: clone, futexes, thread-local storage.
#include <asm/prctl.h>
#include <linux/futex.h>
#include <linux/sched.h>
#include <sched.h>

#include <map>

#include "linux/kernel/call.h"
#include "linux/kernel/exec.h"
#include "linux/kernel/file_calls.h"
#include "linux/kernel/futexes.h"
#include "linux/kernel/kernel.h"
#include "linux/kernel/memory.h"
#include "linux/kernel/signals.h"

namespace membrane::linux {

namespace {

constexpr uint64_t kKnownClone =
    CSIGNAL | CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_VFORK | CLONE_PARENT | CLONE_THREAD |
    CLONE_SYSVSEM | CLONE_SETTLS | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID | CLONE_CHILD_SETTID |
    CLONE_DETACHED | CLONE_IO | CLONE_PIDFD | CLONE_UNTRACED | CLONE_PTRACE | CLONE_CLEAR_SIGHAND;

struct CloneWish {
  uint64_t flags = 0, stack = 0, parent_id_at = 0, child_id_at = 0, tls = 0, pidfd_at = 0;
  int exit_signal = 0;
};

Done check(const CloneWish& wish) {
  const uint64_t flags = wish.flags;
  if ((flags & ~kKnownClone) != 0) return err(EPERM);  // namespaces of its own
  if ((flags & CLONE_THREAD) != 0 && (flags & CLONE_SIGHAND) == 0) return err(EINVAL);
  if ((flags & CLONE_SIGHAND) != 0 && (flags & CLONE_VM) == 0) return err(EINVAL);
  if ((flags & CLONE_PIDFD) != 0 && (flags & (CLONE_THREAD | CLONE_DETACHED)) != 0) return err(EINVAL);
  return {};
}

// The state that a forked child shares with or copies from its parent.
void inherit(Process& child, const Process& parent, const CloneWish& wish) {
  child.group = parent.group;
  child.session = parent.session;
  child.terminal = parent.terminal;
  child.exit_signal = wish.exit_signal;
  child.descriptors = (wish.flags & CLONE_FILES) != 0 ? parent.descriptors : parent.descriptors->copy();
  child.place = (wish.flags & CLONE_FS) != 0 ? parent.place : std::make_shared<Place>(*parent.place);
  child.credentials = parent.credentials;
  child.capabilities = parent.capabilities;
  child.actions = parent.actions;
  if ((wish.flags & CLONE_CLEAR_SIGHAND) != 0)
    for (SignalAction& action : child.actions)
      if (action.handler != 1) action = {};
  child.limits = parent.limits;
  child.executable = parent.executable;
  child.executable_at = parent.executable_at;
  child.arguments = parent.arguments;
  child.is_dumpable = parent.is_dumpable;
  child.has_no_new_privileges = parent.has_no_new_privileges;
  child.is_secure = parent.is_secure;
  child.nice = parent.nice;
}

// The descriptor of the new process, closed when creation fails.
Done give_pidfd(Call& call, Process& child, uint64_t at) {
  Descriptors& descriptors = *call.process().descriptors;
  MEMBRANE_ASSIGN(const int pidfd, add_file(call, process_file_of(child, 0), true));
  if (call.put(at, pidfd)) return {};
  static_cast<void>(descriptors.remove(pidfd));
  return err(EFAULT);
}

Try<std::unique_ptr<Thread>> make_thread(Call& call, const CloneWish& wish) {
  Thread& own = *call.task.thread;
  return (wish.flags & CLONE_VM) != 0 ? own.clone_thread() : own.fork();
}

int64_t clone(Call& call, const CloneWish& wish) {
  CALL_TRY(check(wish));
  Kernel& kernel = call.kernel;
  Process& parent = call.process();
  CALL_ASSIGN(const int id, kernel.take_id());
  CALL_ASSIGN(std::unique_ptr<Thread> thread, make_thread(call, wish));
  Process* process = &parent;
  if ((wish.flags & CLONE_THREAD) == 0) {
    process = &kernel.add_process(id, (wish.flags & CLONE_PARENT) != 0 ? parent.parent : &parent);
    inherit(*process, parent, wish);
    process->memory = (wish.flags & CLONE_VM) != 0 ? parent.memory : parent.memory->copy(thread->space());
  }
  Task& child = kernel.add_task(*process, id, std::move(thread));
  child.name = call.task.name;
  child.blocked = call.task.blocked;
  child.processors = call.task.processors;
  child.policy = (call.task.policy & SCHED_RESET_ON_FORK) != 0 ? SCHED_OTHER : call.task.policy;
  if ((wish.flags & CLONE_VM) == 0 || (wish.flags & CLONE_VFORK) != 0)
    child.signal_stack = call.task.signal_stack;
  Registers& r = child.thread->registers;
  r.rax = 0;
  if (wish.stack != 0) r.rsp = wish.stack;
  if ((wish.flags & CLONE_SETTLS) != 0) r.fs_base = wish.tls;
  if ((wish.flags & CLONE_PARENT_SETTID) != 0) static_cast<void>(call.put(wish.parent_id_at, id));
  if ((wish.flags & CLONE_CHILD_SETTID) != 0) static_cast<void>(child.put(wish.child_id_at, id));
  if ((wish.flags & CLONE_CHILD_CLEARTID) != 0) child.clear_child_tid = wish.child_id_at;
  if ((wish.flags & CLONE_VFORK) != 0) {
    child.vfork_parent = call.task.id;
    call.task.waits_for_vfork = true;
  }
  if ((wish.flags & CLONE_PIDFD) != 0)
    if (const Done given = give_pidfd(call, *process, wish.pidfd_at); !given) {
      call.task.waits_for_vfork = false;
      process->exit_signal = 0;
      kernel.end_process(*process, SIGKILL);
      if (kernel.process_of(id) != nullptr) kernel.forget(*process);
      return -given.error();
    }
  kernel.go_on(child);
  return id;
}

}  // namespace

int64_t sys_clone(Call& call) {
  const uint64_t flags = call.arg(0) & ~uint64_t{CSIGNAL};
  if ((flags & CLONE_PIDFD) != 0 && (flags & CLONE_PARENT_SETTID) != 0) return -EINVAL;  // one place for both
  return clone(call, {.flags = flags,
                      .stack = call.arg(1),
                      .parent_id_at = call.arg(2),
                      .child_id_at = call.arg(3),
                      .tls = call.arg(4),
                      .pidfd_at = call.arg(2),
                      .exit_signal = static_cast<int>(call.arg(0) & CSIGNAL)});
}

int64_t sys_clone3(Call& call) {
  if (call.arg(1) < CLONE_ARGS_SIZE_VER0) return -EINVAL;
  if (call.arg(1) > kPage) return -E2BIG;
  clone_args args = {};
  CALL_TRY(call.task.read_memory(
      call.arg(0),
      std::as_writable_bytes(std::span(&args, 1)).first(std::min<uint64_t>(call.arg(1), sizeof args))));
  if (args.set_tid_size != 0 || (args.flags & CSIGNAL) != 0) return -EINVAL;
  return clone(call, {.flags = args.flags,
                      .stack = args.stack == 0 ? 0 : args.stack + args.stack_size,
                      .parent_id_at = args.parent_tid,
                      .child_id_at = args.child_tid,
                      .tls = args.tls,
                      .pidfd_at = args.pidfd,
                      .exit_signal = static_cast<int>(args.exit_signal & CSIGNAL)});
}

// State that is shared with other tasks becomes the caller's own; there are no namespaces to leave.
int64_t sys_unshare(Call& call) {
  constexpr uint64_t kOwn = CLONE_FILES | CLONE_FS | CLONE_SYSVSEM;
  const uint64_t flags = call.arg(0);
  constexpr uint64_t kThreads = CLONE_THREAD | CLONE_SIGHAND | CLONE_VM;
  if ((flags & ~(kKnownClone | CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |
                 CLONE_NEWPID | CLONE_NEWNET)) != 0)
    return -EINVAL;
  Process& process = call.process();
  if ((flags & kThreads) != 0 && process.tasks.size() > 1) return -EINVAL;
  if ((flags & ~(kOwn | kThreads)) != 0) return -EPERM;
  // The threads of a process share one table here, so a single thread cannot leave it.
  if ((flags & (CLONE_FILES | CLONE_FS)) != 0 && process.tasks.size() > 1) return -EPERM;
  if ((flags & CLONE_FILES) != 0 && process.descriptors.use_count() > 1)
    process.descriptors = process.descriptors->copy();
  if ((flags & CLONE_FS) != 0 && process.place.use_count() > 1)
    process.place = std::make_shared<Place>(*process.place);
  return 0;
}

// Namespaces and mounts are refused to any caller.
int64_t sys_setns(Call&) { return -EPERM; }
int64_t sys_mount(Call&) { return -EPERM; }
int64_t sys_umount2(Call&) { return -EPERM; }
int64_t sys_pivot_root(Call&) { return -EPERM; }

int64_t sys_fork(Call& call) { return clone(call, {.exit_signal = SIGCHLD}); }
int64_t sys_vfork(Call& call) {
  return clone(call, {.flags = CLONE_VM | CLONE_VFORK, .exit_signal = SIGCHLD});
}

int64_t sys_gettid(Call& call) { return call.task.id; }

int64_t sys_set_tid_address(Call& call) {
  call.task.clear_child_tid = call.arg(0);
  return call.task.id;
}

int64_t sys_set_robust_list(Call& call) {
  if (call.arg(1) != sizeof(robust_list_head)) return -EINVAL;
  call.task.robust_list = call.arg(0);
  return 0;
}

int64_t sys_get_robust_list(Call& call) {
  const Task* const task = call.int_arg(0) == 0 ? &call.task : call.kernel.task_of(call.int_arg(0));
  if (task == nullptr) return -ESRCH;
  if (task->process != call.task.process) return -EPERM;
  CALL_TRY(call.put(call.arg(1), task->robust_list));
  return answer(call.put(call.arg(2), uint64_t{sizeof(robust_list_head)}));
}

// Restartable sequences are not supported: the C library works without them.
int64_t sys_arch_prctl(Call& call) {
  Registers& r = call.task.thread->registers;
  const uint64_t value = call.arg(1);
  switch (call.int_arg(0)) {
    case ARCH_SET_FS:
      if (value >= uint64_t{1} << 47) return -EPERM;
      r.fs_base = value;
      return 0;
    case ARCH_SET_GS:
      if (value >= uint64_t{1} << 47) return -EPERM;
      r.gs_base = value;
      return 0;
    case ARCH_GET_FS: return answer(call.put(value, r.fs_base));
    case ARCH_GET_GS: return answer(call.put(value, r.gs_base));
    default: return -EINVAL;
  }
}

int64_t sys_membarrier(Call& call) { return call.int_arg(0) == 0 ? 0 : -EINVAL; }

}  // namespace membrane::linux
