// System calls of clocks and timers.
#include <sys/time.h>
#include <sys/times.h>

#include "linux/abi/times.h"
#include "linux/kernel/call.h"
#include "linux/kernel/cpu_time.h"
#include "linux/kernel/kernel.h"
#include "linux/kernel/signals.h"
#include "linux/kernel/waiting_calls.h"

namespace membrane::linux {

namespace {

using std::chrono::nanoseconds;

bool is_clock(int clock) {
  return (clock >= CLOCK_REALTIME && clock <= CLOCK_BOOTTIME) || clock == CLOCK_TAI;
}

// A CPU-time clock by its number: of a process or thread, possibly another one. Errors: EINVAL.
Try<nanoseconds> cpu_clock(Call& call, int clock) {
  constexpr int kIsOfThread = 4, kKind = 3, kOfUser = 1, kScheduled = 2;
  if (clock == CLOCK_THREAD_CPUTIME_ID) return used_by(call.task).total();
  if (clock == CLOCK_PROCESS_CPUTIME_ID) return used_by(call.kernel, call.process()).total();
  const int id = ~(clock >> 3);
  if ((clock & kKind) > kScheduled) return err(EINVAL);
  CpuTime used;
  if ((clock & kIsOfThread) != 0) {
    const Task* const task = id == 0 ? &call.task : call.kernel.task_of(id);
    if (task == nullptr || task->process != &call.process()) return err(EINVAL);
    used = used_by(*task);
  } else {
    const Process* const process = id == 0 ? &call.process() : call.kernel.process_of(id);
    if (process == nullptr) return err(EINVAL);
    used = used_by(call.kernel, *process);
  }
  return (clock & kKind) == kOfUser ? used.user : used.total();
}

Try<timespec> time_of(Call& call, int clock) {
  const bool is_of_cpu = clock < 0 || clock == CLOCK_PROCESS_CPUTIME_ID || clock == CLOCK_THREAD_CPUTIME_ID;
  if (!is_of_cpu) return call.kernel.now(clock);
  MEMBRANE_ASSIGN(const nanoseconds used, cpu_clock(call, clock));
  return timespec_of(used);
}

int64_t sleep(Call& call, uint64_t time_at, uint64_t rest_at, bool is_absolute, int clock) {
  if (call.is_late()) return 0;
  CALL_ASSIGN(const timespec time, call.get<timespec>(time_at));
  CALL_ASSIGN(const auto deadline, deadline_of(call.kernel, time, is_absolute, clock));
  if (deadline <= call.kernel.steady_now()) return 0;
  if (!is_absolute) call.task.waiting.rest_at = rest_at;
  return call.wait_until(deadline, OnSignal::kInterrupt);
}

struct Micros {
  int64_t s = 0, us = 0;
};
struct Interval {
  Micros interval, value;
};

Micros micros_of(nanoseconds time) {
  const int64_t us = (time.count() + 999) / 1000;
  return {us / 1'000'000, us % 1'000'000};
}

// The ITIMER_* timers of a process: their signals, and the clocks that they run by. Points of CPU time are
// stored as if its clock were the steady one.
struct TimerRow {
  IntervalTimer Process::* timer;
  int signal;
};
constexpr std::array<TimerRow, 3> kTimers = {{{&Process::real_timer, SIGALRM},
                                              {&Process::virtual_timer, SIGVTALRM},
                                              {&Process::profile_timer, SIGPROF}}};

GuestClock::Time now_for(const Kernel& kernel, const Process& process, int which) {
  if (which == ITIMER_REAL) return kernel.steady_now();
  const CpuTime used = used_by(kernel, process);
  return GuestClock::Time(which == ITIMER_VIRTUAL ? used.user : used.total());
}

Interval reading_of(const Kernel& kernel, const Process& process, int which) {
  const IntervalTimer& timer = process.*kTimers[static_cast<size_t>(which)].timer;
  Interval reading;
  reading.interval = micros_of(timer.interval);
  if (timer.next)
    reading.value = micros_of(
        std::max<nanoseconds>(*timer.next - now_for(kernel, process, which), std::chrono::microseconds(1)));
  return reading;
}

void fire(Kernel& kernel, int id, int which);

// Checks again when the rest has passed; that much CPU time cannot be used earlier.
void wait_for(Kernel& kernel, Process& process, int which) {
  IntervalTimer& timer = process.*kTimers[static_cast<size_t>(which)].timer;
  const nanoseconds rest = *timer.next - now_for(kernel, process, which);
  timer.alive = std::make_shared<int>(process.id);
  kernel.at(kernel.steady_now() + rest, timer.alive,
            [&kernel, id = process.id, which] { fire(kernel, id, which); });
}

void fire(Kernel& kernel, int id, int which) {
  Process* const process = kernel.process_of(id);
  if (process == nullptr || process->is_zombie) return;
  const TimerRow& row = kTimers[static_cast<size_t>(which)];
  IntervalTimer& timer = process->*row.timer;
  if (!timer.next) return;
  const auto now = now_for(kernel, *process, which);
  if (now < *timer.next) return wait_for(kernel, *process, which);
  timer.next.reset();
  timer.alive.reset();
  if (timer.interval.count() > 0) {
    timer.next = now + timer.interval;
    wait_for(kernel, *process, which);
  }
  send_signal(kernel, *process, signal_from(row.signal, SI_KERNEL, nullptr));
}

void arm(Kernel& kernel, Process& process, int which, nanoseconds first, nanoseconds interval) {
  IntervalTimer& timer = process.*kTimers[static_cast<size_t>(which)].timer;
  timer.alive.reset();
  timer.next.reset();
  timer.interval = interval;
  if (first.count() <= 0) return;
  timer.next = now_for(kernel, process, which) + first;
  wait_for(kernel, process, which);
}

Try<nanoseconds> length_of(const Micros& time) {
  if (time.s < 0 || time.us < 0 || time.us >= 1'000'000) return err(EINVAL);
  return std::chrono::seconds(std::min<int64_t>(time.s, 1ll << 32)) + std::chrono::microseconds(time.us);
}

}  // namespace

void rearm_interval_timers(Kernel& kernel, Process& process) {
  for (size_t which = 0; which < kTimers.size(); ++which)
    if ((process.*kTimers[which].timer).next) wait_for(kernel, process, static_cast<int>(which));
}

Try<std::chrono::steady_clock::time_point> deadline_of(const Kernel& kernel, const timespec& time,
                                                       bool is_absolute, int clock) {
  if (time.tv_sec < 0 || time.tv_nsec < 0 || time.tv_nsec >= 1'000'000'000) return err(EINVAL);
  const auto now = kernel.steady_now();
  constexpr int64_t kForeverS = 10ll * 365 * 86400;
  const auto length = std::chrono::seconds(std::min<int64_t>(time.tv_sec, kForeverS)) +
                      std::chrono::nanoseconds(time.tv_nsec);
  if (!is_absolute) return now + length;
  const timespec current = kernel.now(clock);
  const int64_t ahead_s = std::clamp<int64_t>(time.tv_sec - current.tv_sec, -kForeverS, kForeverS);
  return now + std::chrono::seconds(ahead_s) + std::chrono::nanoseconds(time.tv_nsec - current.tv_nsec);
}

int64_t sys_clock_gettime(Call& call) {
  if (call.int_arg(0) >= 0 && !is_clock(call.int_arg(0))) return -EINVAL;
  CALL_ASSIGN(const timespec time, time_of(call, call.int_arg(0)));
  return answer(call.put(call.arg(1), time));
}

int64_t sys_clock_getres(Call& call) {
  if (call.int_arg(0) < 0) CALL_TRY(cpu_clock(call, call.int_arg(0)));
  else if (!is_clock(call.int_arg(0))) return -EINVAL;
  return call.arg(1) == 0 ? 0 : answer(call.put(call.arg(1), timespec{0, 1}));
}

int64_t sys_clock_settime(Call& call) { return is_clock(call.int_arg(0)) ? -EPERM : -EINVAL; }
int64_t sys_settimeofday(Call&) { return -EPERM; }

int64_t sys_gettimeofday(Call& call) {
  const timespec now = call.kernel.now(CLOCK_REALTIME);
  if (call.arg(0) != 0) CALL_TRY(call.put(call.arg(0), timeval{now.tv_sec, now.tv_nsec / 1000}));
  if (call.arg(1) != 0) CALL_TRY(call.put(call.arg(1), std::array<int32_t, 2>{0, 0}));
  return 0;
}

int64_t sys_time(Call& call) {
  const int64_t now = call.kernel.now(CLOCK_REALTIME).tv_sec;
  if (call.arg(0) != 0) CALL_TRY(call.put(call.arg(0), now));
  return now;
}

int64_t sys_times(Call& call) {
  const CpuTime own = used_by(call.kernel, call.process()), children = call.process().of_children;
  const tms ticks = {.tms_utime = ticks_of(own.user),
                     .tms_stime = ticks_of(own.system),
                     .tms_cutime = ticks_of(children.user),
                     .tms_cstime = ticks_of(children.system)};
  if (call.arg(0) != 0) CALL_TRY(call.put(call.arg(0), ticks));
  const timespec now = call.kernel.now(CLOCK_MONOTONIC);
  return ticks_of(std::chrono::seconds(now.tv_sec) + nanoseconds(now.tv_nsec));
}

int64_t sys_nanosleep(Call& call) { return sleep(call, call.arg(0), call.arg(1), false, CLOCK_MONOTONIC); }

int64_t sys_clock_nanosleep(Call& call) {
  const int clock = call.int_arg(0);
  if (!is_clock(clock) || clock == CLOCK_THREAD_CPUTIME_ID) return -EINVAL;
  return sleep(call, call.arg(2), call.arg(3), (call.int_arg(1) & TIMER_ABSTIME) != 0, clock);
}

int64_t sys_alarm(Call& call) {
  Process& process = call.process();
  const Interval before = reading_of(call.kernel, process, ITIMER_REAL);
  arm(call.kernel, process, ITIMER_REAL, std::chrono::seconds(static_cast<uint32_t>(call.arg(0))),
      nanoseconds(0));
  return before.value.s +
         (before.value.us >= 500'000 || (before.value.s == 0 && before.value.us > 0) ? 1 : 0);
}

int64_t sys_setitimer(Call& call) {
  const int which = call.int_arg(0);
  if (which < ITIMER_REAL || which > ITIMER_PROF) return -EINVAL;
  Process& process = call.process();
  const Interval before = reading_of(call.kernel, process, which);
  Interval wanted;
  if (call.arg(1) != 0) {
    CALL_ASSIGN(wanted, call.get<Interval>(call.arg(1)));
  }
  CALL_ASSIGN(const nanoseconds first, length_of(wanted.value));
  CALL_ASSIGN(const nanoseconds interval, length_of(wanted.interval));
  arm(call.kernel, process, which, first, interval);
  return call.arg(2) == 0 ? 0 : answer(call.put(call.arg(2), before));
}

int64_t sys_getitimer(Call& call) {
  const int which = call.int_arg(0);
  if (which < ITIMER_REAL || which > ITIMER_PROF) return -EINVAL;
  return answer(call.put(call.arg(1), reading_of(call.kernel, call.process(), which)));
}

}  // namespace membrane::linux
