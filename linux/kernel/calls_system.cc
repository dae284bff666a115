// System calls about the machine, limits, and other queries of a program about its environment.
#include <linux/prctl.h>
#include <linux/rseq.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cstring>

#include "linux/kernel/call.h"
#include "linux/kernel/cpu_time.h"
#include "linux/kernel/credential_calls.h"
#include "linux/kernel/file_calls.h"
#include "linux/kernel/kernel.h"
#include "linux/kernel/memory.h"
#include "linux/kernel/version.h"

namespace membrane::linux {

namespace {

constexpr size_t kRandomPiece = 65536;

Task* task_or_own(Call& call, int id) { return id == 0 ? &call.task : call.kernel.task_of(id); }

template <size_t N>
void set_text(char (&field)[N], std::string_view text) {
  std::memcpy(field, text.data(), std::min(text.size(), N - 1));
}

int64_t set_limit(Call& call, Process& process, int which, uint64_t limit_at) {
  CALL_ASSIGN(const rlimit wanted, call.get<rlimit>(limit_at));
  rlimit& limit = process.limits[static_cast<size_t>(which)];
  if (wanted.rlim_cur > wanted.rlim_max) return -EINVAL;
  const Credentials &own = call.process().credentials, &other = process.credentials;
  if (own.euid != 0 && (own.uid != other.uid || own.uid != other.euid || own.uid != other.suid))
    return -EPERM;
  if (which == RLIMIT_NOFILE && wanted.rlim_max > kMostDescriptors) return -EPERM;
  if (wanted.rlim_max > limit.rlim_max && own.euid != 0) return -EPERM;
  limit = wanted;
  return 0;
}

}  // namespace

int64_t sys_uname(Call& call) {
  utsname name = {};
  set_text(name.sysname, "Linux");
  set_text(name.nodename, call.kernel.host_name);
  set_text(name.release, kKernelRelease);
  set_text(name.version, kKernelVersion);
  set_text(name.machine, "x86_64");
  set_text(name.domainname, call.kernel.domain_name);
  return answer(call.put(call.arg(0), name));
}

int64_t sys_sysinfo(Call& call) {
  struct sysinfo info = {};
  info.uptime = call.kernel.now(CLOCK_MONOTONIC).tv_sec;
  info.totalram = call.kernel.options().limits.memory_bytes;
  info.freeram = info.totalram / 2;
  info.procs = static_cast<unsigned short>(call.kernel.tasks());
  info.mem_unit = 1;
  return answer(call.put(call.arg(0), info));
}

int64_t sys_getrandom(Call& call) {
  if ((call.arg(2) & ~uint64_t{7}) != 0) return -EINVAL;
  const size_t wanted = std::min<uint64_t>(call.arg(1), 32u << 20);
  std::array<std::byte, kRandomPiece> piece;
  for (size_t done = 0; done < wanted;) {
    const size_t size = std::min(piece.size(), wanted - done);
    if (!call.kernel.entropy().fill(std::span(piece).first(size))) return -EIO;
    if (!call.task.write_memory(call.arg(0) + done, std::span(piece).first(size)))
      return done > 0 ? static_cast<int64_t>(done) : -EFAULT;
    done += size;
  }
  return static_cast<int64_t>(wanted);
}

int64_t sys_getrlimit(Call& call) {
  if (call.arg(0) >= RLIM_NLIMITS) return -EINVAL;
  return answer(call.put(call.arg(1), call.process().limits[call.arg(0)]));
}

int64_t sys_setrlimit(Call& call) {
  if (call.arg(0) >= RLIM_NLIMITS) return -EINVAL;
  return set_limit(call, call.process(), call.int_arg(0), call.arg(1));
}

int64_t sys_prlimit64(Call& call) {
  const Task* const task = task_or_own(call, call.int_arg(0));
  if (task == nullptr) return -ESRCH;
  if (call.arg(1) >= RLIM_NLIMITS) return -EINVAL;
  const rlimit before = task->process->limits[call.arg(1)];
  if (call.arg(2) != 0) {
    if (const int64_t set = set_limit(call, *task->process, call.int_arg(1), call.arg(2)); set != 0)
      return set;
  }
  return call.arg(3) == 0 ? 0 : answer(call.put(call.arg(3), before));
}

int64_t sys_getrusage(Call& call) {
  if (call.int_arg(0) < RUSAGE_CHILDREN || call.int_arg(0) > RUSAGE_THREAD) return -EINVAL;
  rusage usage = {};
  const int who = call.int_arg(0);
  put_into(usage, who == RUSAGE_CHILDREN ? call.process().of_children
                  : who == RUSAGE_THREAD ? used_by(call.task)
                                         : used_by(call.kernel, call.process()));
  if (who != RUSAGE_CHILDREN)
    usage.ru_maxrss = static_cast<long>(call.process().memory->space().resident_bytes() / 1024);
  return answer(call.put(call.arg(1), usage));
}

int64_t sys_prctl(Call& call) {
  Process& process = call.process();
  const uint64_t value = call.arg(1);
  switch (call.int_arg(0)) {
    case PR_SET_NAME: {
      std::array<char, 16> name = {};
      CALL_TRY(call.task.read_memory(value, std::as_writable_bytes(std::span(name).first(15))));
      call.task.name = name.data();
      return 0;
    }
    case PR_GET_NAME: {
      std::array<char, 16> name = {};
      std::memcpy(name.data(), call.task.name.data(), std::min<size_t>(call.task.name.size(), 15));
      return answer(call.put(value, name));
    }
    case PR_SET_PDEATHSIG:
      if (value > 64) return -EINVAL;
      process.death_signal = static_cast<int>(value);
      return 0;
    case PR_GET_PDEATHSIG: return answer(call.put(value, process.death_signal));
    case PR_SET_DUMPABLE: process.is_dumpable = value != 0; return 0;
    case PR_GET_DUMPABLE: return process.is_dumpable ? 1 : 0;
    case PR_SET_CHILD_SUBREAPER: process.is_subreaper = value != 0; return 0;
    case PR_GET_CHILD_SUBREAPER: return answer(call.put(value, static_cast<int>(process.is_subreaper)));
    case PR_SET_NO_NEW_PRIVS:
      if (value != 1 || call.arg(2) != 0 || call.arg(3) != 0 || call.arg(4) != 0) return -EINVAL;
      process.has_no_new_privileges = true;
      return 0;
    case PR_GET_NO_NEW_PRIVS: return process.has_no_new_privileges ? 1 : 0;
    case PR_SET_TIMERSLACK:
    case PR_SET_THP_DISABLE: return 0;
    default: return change_capabilities(call).value_or(-EINVAL);
  }
}

// Seccomp filters are not supported: programs that sandbox themselves assume a kernel built without them.
int64_t sys_seccomp(Call&) { return -EINVAL; }

int64_t sys_sched_yield(Call&) { return 0; }

constexpr uint64_t kAllProcessors = (uint64_t{1} << kProcessors) - 1;

int64_t sys_sched_getaffinity(Call& call) {
  const Task* const task = task_or_own(call, call.int_arg(0));
  if (task == nullptr) return -ESRCH;
  if (call.arg(1) < 8 || call.arg(1) % 8 != 0) return -EINVAL;
  CALL_TRY(call.put(call.arg(2), task->processors));
  return 8;
}

// Affinity requests are accepted and reported, but have no effect: the host schedules guests.
int64_t sys_sched_setaffinity(Call& call) {
  Task* const task = task_or_own(call, call.int_arg(0));
  if (task == nullptr) return -ESRCH;
  uint64_t wanted = 0;
  const auto bytes =
      std::as_writable_bytes(std::span(&wanted, 1)).first(std::min<uint64_t>(call.arg(1), sizeof wanted));
  CALL_TRY(call.task.read_memory(call.arg(2), bytes));
  if ((wanted & kAllProcessors) == 0) return -EINVAL;
  const Credentials &own = call.process().credentials, &other = task->process->credentials;
  if (own.euid != 0 && own.euid != other.uid && own.euid != other.euid) return -EPERM;
  task->processors = wanted & kAllProcessors;
  return 0;
}

static bool is_real_time(int policy) { return policy == SCHED_FIFO || policy == SCHED_RR; }
static bool is_policy(int policy) {
  constexpr int kDeadline = 6;
  return is_real_time(policy) || policy == SCHED_OTHER || policy == SCHED_BATCH || policy == SCHED_IDLE ||
         policy == kDeadline;
}

int64_t sys_sched_getscheduler(Call& call) {
  const Task* const task = task_or_own(call, call.int_arg(0));
  return task == nullptr ? -ESRCH : task->policy;
}

int64_t sys_sched_setscheduler(Call& call) {
  Task* const task = task_or_own(call, call.int_arg(0));
  if (task == nullptr) return -ESRCH;
  const int policy = call.int_arg(1) & ~SCHED_RESET_ON_FORK;
  if (!is_policy(policy)) return -EINVAL;
  CALL_ASSIGN(const auto priority, call.get<int32_t>(call.arg(2)));
  if (priority != 0 && !is_real_time(policy)) return -EINVAL;
  if (policy != SCHED_OTHER && policy != SCHED_BATCH && policy != SCHED_IDLE) return -EPERM;
  const Credentials &own = call.process().credentials, &other = task->process->credentials;
  if (own.euid != 0 && own.euid != other.uid && own.euid != other.euid) return -EPERM;
  task->policy = call.int_arg(1);
  return 0;
}

int64_t sys_sched_getparam(Call& call) {
  if (task_or_own(call, call.int_arg(0)) == nullptr) return -ESRCH;
  return answer(call.put(call.arg(1), int32_t{0}));
}
int64_t sys_sched_setparam(Call& call) { return task_or_own(call, call.int_arg(0)) == nullptr ? -ESRCH : 0; }

int64_t sys_sched_get_priority_max(Call& call) {
  if (!is_policy(call.int_arg(0))) return -EINVAL;
  return is_real_time(call.int_arg(0)) ? 99 : 0;
}
int64_t sys_sched_get_priority_min(Call& call) {
  if (!is_policy(call.int_arg(0))) return -EINVAL;
  return is_real_time(call.int_arg(0)) ? 1 : 0;
}
int64_t sys_sched_rr_get_interval(Call& call) {
  return answer(call.put(call.arg(1), timespec{0, 4'000'000}));
}
// Scheduling requests are stored; all processes run alike. Applies to each process, group or user that
// `which` selects.
template <typename Act>
static int64_t each_of(Call& call, int which, int id, const Act& act) {
  if (which < PRIO_PROCESS || which > PRIO_USER) return -EINVAL;
  bool has_any = false;
  for (const auto& [number, each] : call.kernel.processes()) {
    const bool is_meant =
        which == PRIO_PROCESS ? number == (id == 0 ? call.process().id : id)
        : which == PRIO_PGRP
            ? each->group == (id == 0 ? call.process().group : id)
            : each->credentials.uid == (id == 0 ? call.process().credentials.uid : static_cast<uint32_t>(id));
    if (!is_meant || each->is_zombie) continue;
    has_any = true;
    if (const int error = act(*each)) return -error;
  }
  if (!has_any && which == PRIO_PROCESS)
    if (Task* const task = call.kernel.task_of(id)) return -act(*task->process);
  return has_any ? 0 : -ESRCH;
}

int64_t sys_getpriority(Call& call) {
  int highest = -1;
  const int64_t found = each_of(call, call.int_arg(0), call.int_arg(1), [&](const Process& each) {
    highest = std::max(highest, 20 - each.nice);
    return 0;
  });
  return found < 0 ? found : highest;
}

int64_t sys_setpriority(Call& call) {
  const int nice = std::clamp(call.int_arg(2), -20, 19);
  const Credentials& who = call.process().credentials;
  return each_of(call, call.int_arg(0), call.int_arg(1), [&](Process& each) {
    if (who.euid != 0 && who.euid != each.credentials.uid && who.euid != each.credentials.euid) return EPERM;
    if (who.euid != 0 && nice < each.nice) return EACCES;
    each.nice = nice;
    return 0;
  });
}
int64_t sys_ioprio_get(Call&) { return 0; }
int64_t sys_ioprio_set(Call&) { return 0; }

int64_t sys_getcpu(Call& call) {
  if (call.arg(0) != 0) CALL_TRY(call.put(call.arg(0), uint32_t{0}));
  if (call.arg(1) != 0) CALL_TRY(call.put(call.arg(1), uint32_t{0}));
  return 0;
}

// Only queries.
int64_t sys_personality(Call& call) { return call.arg(0) == 0xffffffff || call.arg(0) == 0 ? 0 : -EINVAL; }

// The sandbox's host name, as its own programs see it.
static int64_t set_name(Call& call, std::string& name) {
  constexpr int kMostHostNameBytes = 64;
  if (call.process().credentials.euid != 0) return -EPERM;
  if (call.int_arg(1) < 0 || call.int_arg(1) > kMostHostNameBytes) return -EINVAL;
  std::string wanted(static_cast<size_t>(call.int_arg(1)), '\0');
  CALL_TRY(call.task.read_memory(call.arg(0), std::as_writable_bytes(std::span(wanted))));
  name = wanted.substr(0, wanted.find('\0'));
  return 0;
}

int64_t sys_sethostname(Call& call) { return set_name(call, call.kernel.host_name); }
int64_t sys_setdomainname(Call& call) { return set_name(call, call.kernel.domain_name); }

}  // namespace membrane::linux
