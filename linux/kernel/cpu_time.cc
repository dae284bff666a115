#include "linux/kernel/cpu_time.h"

#include <vector>

#include "linux/kernel/kernel.h"
#include "linux/kernel/signals.h"

namespace membrane::linux {

namespace {

constexpr int64_t kNsInSecond = 1'000'000'000, kNsInTick = 10'000'000;

CpuTime passed_since_start(const Kernel& kernel, const Process& process) {
  return {.user = kernel.steady_now() - process.started};
}

bool is_virtual(const Kernel& kernel) { return kernel.options().clock->is_virtual(); }

timeval timeval_of(std::chrono::nanoseconds time) {
  return {.tv_sec = time.count() / kNsInSecond, .tv_usec = time.count() % kNsInSecond / 1000};
}

}  // namespace

namespace {
CpuTime on_processors(const Task& task) {
  CpuTime used = task.used_before;
  if (task.thread != nullptr) used.user += task.thread->cpu_time();
  return used;
}
}  // namespace

CpuTime used_by(const Task& task) {
  if (is_virtual(*task.kernel)) return passed_since_start(*task.kernel, *task.process);
  return on_processors(task);
}

std::chrono::nanoseconds used_on_processors(const Task& task) { return on_processors(task).total(); }

CpuTime used_by(const Kernel& kernel, const Process& process) {
  if (process.is_zombie) return process.of_ended_tasks;
  if (is_virtual(kernel)) return passed_since_start(kernel, process);
  CpuTime used = process.of_ended_tasks;
  for (const auto& task : process.tasks) used += used_by(*task);
  return used;
}

void put_into(rusage& usage, const CpuTime& time) {
  usage.ru_utime = timeval_of(time.user);
  usage.ru_stime = timeval_of(time.system);
}

int64_t ticks_of(std::chrono::nanoseconds time) { return time.count() / kNsInTick; }

void enforce_cpu_limits(Kernel& kernel) {
  std::vector<int> limited;  // a signal may end others and remove them
  for (const auto& [id, process] : kernel.processes())
    if (!process->is_zombie && process->limits[RLIMIT_CPU].rlim_cur != RLIM_INFINITY) limited.push_back(id);
  for (const int id : limited) {
    Process* const process = kernel.process_of(id);
    if (process == nullptr || process->is_zombie) continue;
    rlimit& limit = process->limits[RLIMIT_CPU];
    const auto seconds = static_cast<rlim_t>(used_by(kernel, *process).total().count() / kNsInSecond);
    if (seconds >= limit.rlim_max) {
      kernel.end_process(*process, SIGKILL);
    } else if (seconds >= limit.rlim_cur) {
      limit.rlim_cur = seconds + 1;
      send_signal(kernel, *process, signal_from(SIGXCPU, SI_KERNEL, nullptr));
    }
  }
}

}  // namespace membrane::linux
