// POSIX timers: timer_create() and the like. A timer's signal is queued once and counts the expirations until
// it is taken.
#include <time.h>

#include <algorithm>

#include "linux/abi/times.h"
#include "linux/kernel/call.h"
#include "linux/kernel/kernel.h"
#include "linux/kernel/signals.h"
#include "linux/kernel/timers.h"
#include "linux/kernel/waiting_calls.h"

namespace membrane::linux {

namespace {

using std::chrono::nanoseconds;

constexpr size_t kMostTimers = 1024;  // of a process
constexpr int64_t kSecond = 1'000'000'000, kLongestS = 10ll * 365 * 86400;
constexpr auto kLeastRest = std::chrono::milliseconds(1);

// The kernel's sigevent.
struct Event {
  uint64_t value = 0;
  int32_t signal = 0, notify = 0, task = 0;
  std::array<int32_t, 11> reserved = {};
};
static_assert(sizeof(Event) == 64);

bool is_clock(int clock) {
  return clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC || clock == CLOCK_BOOTTIME ||
         clock == CLOCK_TAI || clock == CLOCK_REALTIME_ALARM || clock == CLOCK_BOOTTIME_ALARM;
}

Try<nanoseconds> length_of(const timespec& time) {
  if (time.tv_sec < 0 || time.tv_nsec < 0 || time.tv_nsec >= kSecond) return err(EINVAL);
  return std::chrono::seconds(std::min<int64_t>(time.tv_sec, kLongestS)) + nanoseconds(time.tv_nsec);
}

Try<PosixTimer*> timer_of(Call& call, int id) {
  const auto found = call.process().timers.find(id);
  if (found == call.process().timers.end()) return err(EINVAL);
  return &found->second;
}

Try<PosixTimer> timer_for(Call& call, int clock, uint64_t event_at, int id) {
  PosixTimer timer = {
      .clock = clock, .signal = SIGALRM, .value = static_cast<uint64_t>(id), .next = {}, .alive = nullptr};
  if (event_at == 0) return timer;
  MEMBRANE_ASSIGN(const Event event, call.get<Event>(event_at));
  if (event.notify == SIGEV_NONE) {
    timer.signal = 0;
    return timer;
  }
  if (event.notify != SIGEV_SIGNAL && event.notify != (SIGEV_SIGNAL | SIGEV_THREAD_ID)) return err(EINVAL);
  if (event.signal < 1 || event.signal > 64) return err(EINVAL);
  if ((event.notify & SIGEV_THREAD_ID) != 0) {
    const Task* const task = call.kernel.task_of(event.task);
    if (task == nullptr || task->process != &call.process()) return err(EINVAL);
    timer.task = event.task;
  }
  timer.signal = event.signal;
  timer.value = event.value;
  return timer;
}

bool is_queued(const PendingSignals& pending, int id) {
  return std::ranges::any_of(pending.queue, [id](const PendingSignal& each) {
    return each.info.si_code == SI_TIMER && each.info.si_timerid == id;
  });
}

void arm(Kernel& kernel, int process, int id, PosixTimer& timer, GuestClock::Time at);

// The next expiration is the first one after now; returns how many passed until then.
int64_t forward(const Kernel& kernel, PosixTimer& timer) {
  const auto late = kernel.steady_now() - *timer.next;
  if (late.count() < 0) return 0;
  const int64_t times = late / timer.interval + 1;
  *timer.next += times * timer.interval;
  return times;
}

// Whether the signal is now pending; sending it may have ended the process.
bool send(Kernel& kernel, int process_id, int id, const PosixTimer& timer) {
  PendingSignal signal = signal_from(timer.signal, SI_TIMER, nullptr);
  signal.info.si_timerid = id;
  signal.info.si_value.sival_ptr = reinterpret_cast<void*>(timer.value);
  const int task_id = timer.task;
  Process* process = kernel.process_of(process_id);
  Task* task = task_id == 0 ? nullptr : kernel.task_of(task_id);
  if (task_id == 0) send_signal(kernel, *process, signal);
  else if (task != nullptr && task->process == process) send_signal_to_task(kernel, *task, signal);
  process = kernel.process_of(process_id);
  if (process == nullptr || process->is_zombie) return false;
  task = kernel.task_of(task_id);
  return is_queued(task == nullptr ? process->pending : task->pending, id);
}

// A timer stands still while its signal is pending: note_timer_signal() lets it run again and counts what it
// missed. If the signal is ignored, nothing calls that, and the timer runs on by itself, but not so fast that
// it keeps the kernel busy.
void fire(Kernel& kernel, int process_id, int id) {
  Process* const process = kernel.process_of(process_id);
  const auto found = process == nullptr ? std::map<int, PosixTimer>::iterator() : process->timers.find(id);
  if (process == nullptr || found == process->timers.end() || !found->second.next) return;
  PosixTimer& timer = found->second;
  timer.alive.reset();
  const bool repeats = timer.interval.count() > 0;
  if (!repeats) timer.next.reset();
  const bool waits = send(kernel, process_id, id, timer);
  if (!repeats || waits || kernel.process_of(process_id) == nullptr || process->is_zombie) return;
  forward(kernel, timer);
  arm(kernel, process_id, id, timer, std::max(*timer.next, kernel.steady_now() + kLeastRest));
}

void arm(Kernel& kernel, int process, int id, PosixTimer& timer, GuestClock::Time at) {
  timer.alive = std::make_shared<int>(id);
  kernel.at(at, timer.alive, [&kernel, process, id] { fire(kernel, process, id); });
}

itimerspec reading_of(const Kernel& kernel, const PosixTimer& timer) {
  itimerspec reading = {};
  reading.it_interval = timespec_of(timer.interval);
  if (!timer.next) return reading;
  PosixTimer copy = timer;
  if (copy.interval.count() > 0) forward(kernel, copy);
  const nanoseconds rest = *copy.next - kernel.steady_now();
  if (rest.count() > 0 || timer.signal != 0) reading.it_value = timespec_of(std::max(rest, nanoseconds(1)));
  return reading;
}

}  // namespace

void note_timer_signal(Kernel& kernel, Process& process, siginfo_t& info) {
  const auto found = process.timers.find(info.si_timerid);
  if (found == process.timers.end()) return;
  PosixTimer& timer = found->second;
  timer.overrun = 0;
  if (timer.next && timer.interval.count() > 0 && timer.alive == nullptr) {
    timer.overrun = static_cast<int>(std::clamp<int64_t>(forward(kernel, timer) - 1, 0, INT32_MAX));
    arm(kernel, process.id, found->first, timer, *timer.next);
  }
  info.si_overrun = timer.overrun;
}

// A timer whose signal is pending stands still (fire()).
void rearm_posix_timers(Kernel& kernel, Process& process) {
  for (auto& [id, timer] : process.timers) {
    const Task* const task = kernel.task_of(timer.task);
    const bool waits = is_queued(task == nullptr ? process.pending : task->pending, id);
    if (timer.next && timer.signal != 0 && !waits) arm(kernel, process.id, id, timer, *timer.next);
  }
}

int64_t sys_timer_create(Call& call) {
  const int clock = call.int_arg(0);
  if (!is_clock(clock))
    return clock == CLOCK_PROCESS_CPUTIME_ID || clock == CLOCK_THREAD_CPUTIME_ID ? -EOPNOTSUPP : -EINVAL;
  auto& timers = call.process().timers;
  if (timers.size() >= kMostTimers) return -EAGAIN;
  int id = 0;
  while (timers.contains(id)) ++id;
  CALL_ASSIGN(const PosixTimer timer, timer_for(call, clock, call.arg(1), id));
  CALL_TRY(call.put(call.arg(2), int32_t{id}));
  timers.emplace(id, timer);
  return 0;
}

int64_t sys_timer_settime(Call& call) {
  CALL_ASSIGN(PosixTimer* const timer, timer_of(call, call.int_arg(0)));
  if (call.arg(2) == 0) return -EINVAL;
  CALL_ASSIGN(const itimerspec wanted, call.get<itimerspec>(call.arg(2)));
  CALL_ASSIGN(const nanoseconds first, length_of(wanted.it_value));
  CALL_ASSIGN(const nanoseconds interval, length_of(wanted.it_interval));
  const itimerspec before = reading_of(call.kernel, *timer);
  timer->interval = first.count() == 0 ? nanoseconds(0) : interval;
  timer->next.reset();
  timer->overrun = 0;
  timer->alive.reset();
  if (first.count() > 0) {
    CALL_ASSIGN(timer->next, deadline_of(call.kernel, wanted.it_value, (call.int_arg(1) & TIMER_ABSTIME) != 0,
                                         timer->clock));
  }
  if (timer->next && timer->signal != 0)
    arm(call.kernel, call.process().id, call.int_arg(0), *timer, *timer->next);
  return call.arg(3) == 0 ? 0 : answer(call.put(call.arg(3), before));
}

int64_t sys_timer_gettime(Call& call) {
  CALL_ASSIGN(const PosixTimer* const timer, timer_of(call, call.int_arg(0)));
  return answer(call.put(call.arg(1), reading_of(call.kernel, *timer)));
}

int64_t sys_timer_getoverrun(Call& call) {
  CALL_ASSIGN(const PosixTimer* const timer, timer_of(call, call.int_arg(0)));
  return timer->overrun;
}

int64_t sys_timer_delete(Call& call) {
  return call.process().timers.erase(call.int_arg(0)) == 1 ? 0 : -EINVAL;
}

}  // namespace membrane::linux
