#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "linux/platform/trap/trap_platform.h"

namespace membrane::linux {
namespace {

using Clock = std::chrono::steady_clock;

// How long a hostile guest can hide the stops of others, and how long the end of a process can go unnoticed.
constexpr std::chrono::milliseconds kLookEvery{10};
// For a stub that was ordered to do something other than run; then it is lost.
constexpr int kPatience = 200;  // looks in vain
// How long a process that a guest created by itself can live.
constexpr std::chrono::seconds kSweepEvery{1};
constexpr int kMostSweeps = 16;     // at a time
constexpr size_t kFewThreads = 64;  // up to this many are all checked before each sleep
constexpr size_t kPrepared = 1;

uint32_t state_of(const HostThread& thread) { return std::atomic_ref(thread.control->state).load(); }

}  // namespace

Result<std::unique_ptr<Platform>> start_trap_platform(const TrapOptions& options) {
  return TrapPlatform::start(options);
}

const std::vector<MissingWall>& missing_walls_of(const Platform& trap) {
  return static_cast<const TrapPlatform&>(trap).missing();
}

// ---- from start to end ----

Result<std::unique_ptr<Platform>> TrapPlatform::start(const TrapOptions& options, HostFile device) {
  std::unique_ptr<TrapPlatform> platform(new TrapPlatform(options, std::move(device)));
  if (!platform->bell_)
    return fail(ErrorCode::kUnavailable,
                "cannot make memory that guests share with the kernel: " + std::string(std::strerror(errno)),
                "Raise the limit of open files, or free memory.");
  TrapOptions bounded = options;
  bounded.most_threads = std::clamp(options.most_threads, 1, static_cast<int>(kTrapMostThreads));
  platform->threads_.resize(bounded.most_threads);
  for (int index = bounded.most_threads; index-- > 0;) platform->free_indexes_.push_back(index);
  platform->pin();
  MEMBRANE_ASSIGN(platform->nursery_, Nursery::start(platform->bell_, bounded, platform->device_.number()));
  if (!options.traps_time_stamps && !platform->is_kvm())
    platform->clock_ = host_clock_of(platform->nursery_->process());
  if (!platform->prepare())
    return fail(ErrorCode::kUnavailable, "cannot make a process for a guest",
                "End other processes, or raise the limit on processes.");
  return platform;
}

TrapPlatform::~TrapPlatform() {
  prepared_.clear();
  nursery_.reset();
  if (!old_cores_.empty())
    sched_setaffinity(0, old_cores_.size(), reinterpret_cast<cpu_set_t*>(old_cores_.data()));
}

// Waking another core takes longer than the rest of a system call.
void TrapPlatform::pin() {
  if (!options_.shares_core) return;
  const int core = sched_getcpu();
  cpu_set_t old, one;
  if (core < 0 || core >= CPU_SETSIZE || sched_getaffinity(0, sizeof old, &old) != 0) return;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  if (sched_setaffinity(0, sizeof one, &one) != 0) return;
  old_cores_.resize(sizeof old);
  std::memcpy(old_cores_.data(), &old, sizeof old);
  core_ = core;
}

bool TrapPlatform::bind(HostThread& thread, bool to_any_core) {
  const pid_t process = thread.space->process();
  const pid_t number = thread.inner_number == 0 ? process : nursery_->number_of(thread.inner_number);
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (to_any_core) std::memcpy(&cores, old_cores_.data(), sizeof cores);
  else CPU_SET(core_, &cores);
  if (number <= 0 || sched_setaffinity(number, sizeof cores, &cores) != 0) return false;
  thread.has_any_core = to_any_core;
  return true;
}

void TrapPlatform::spread() {
  // The number of calls between two checks: a thread that makes fewer is computing; one that makes more would
  // lose by moving to another core.
  constexpr uint32_t kFew = 5, kMany = 40;
  if (core_ < 0) return;
  size_t computing = 0;
  for (HostThread* const thread : running_) computing += thread->stops - thread->stops_before <= kFew;
  for (HostThread* const thread : running_) {
    const uint32_t stops = thread->stops - std::exchange(thread->stops_before, thread->stops);
    if (thread->has_any_core ? stops > kMany : stops <= kFew && computing > 1)
      bind(*thread, !thread->has_any_core);
  }
}

bool TrapPlatform::prepare() {
  Prepared next{.space = std::make_shared<TrapSpace>(*this)};
  if (!next.space->prepare()) return false;
  next.thread = next.space->add_thread(0, nullptr);
  if (next.thread == nullptr) return false;
  next.thread->control->index = next.thread->index;
  next.thread->control->spins = options_.spins;
  next.thread->control->thread = 1;
  const GuestTables* const tables = next.space->tables();
  const int machine = tables == nullptr ? -1 : tables->file();
  if (!nursery_->request(next.space->controls_file(), next.space->their_socket(), machine)) return false;
  prepared_.push_back(std::move(next));
  return true;
}

void TrapPlatform::collect() {
  for (Prepared& each : prepared_)
    if (each.process == 0) each.process = nursery_->collect().value_or(-1);
}

Try<std::unique_ptr<Thread>> TrapPlatform::start() {
  if (prepared_.empty() && !prepare()) return err(EAGAIN);
  collect();
  Prepared next = std::move(prepared_.front());
  prepared_.pop_front();
  while (prepared_.size() < kPrepared && prepare()) continue;
  if (next.process < 0) {
    next.space->remove_thread(*next.thread);
    return err(EAGAIN);
  }
  next.space->begin(next.process);
  if (!await_stop(*next.thread)) return err(EAGAIN);
  auto thread = std::make_unique<TrapThread>(next.space, next.thread);
  if (!thread->take_stop()) return err(EAGAIN);
  thread->registers = {};
  thread->stop = {};
  next.space->empty();
  MEMBRANE_TRY(thread->set_vector_state({}));
  return thread;
}

// ---- numbers ----

// The limit on threads of all stubs when this one creates another. A guest can make its stub do so at any
// time.
static void allow_processes(pid_t process, rlim_t most) {
  rlimit limit = {};
  if (process <= 0 || prlimit(process, RLIMIT_NPROC, nullptr, &limit) != 0) return;
  limit.rlim_cur = std::min(most, limit.rlim_max);
  prlimit(process, RLIMIT_NPROC, &limit, nullptr);
}

bool TrapPlatform::enroll(HostThread& thread) {
  if (free_indexes_.empty()) return false;
  thread.index = free_indexes_.back();
  free_indexes_.pop_back();
  threads_[thread.index] = &thread;
  return true;
}

void TrapPlatform::strike(HostThread& thread) {
  if (thread.state == HostThread::State::kRunning) stop_running(thread);
  std::erase(found_, &thread);
  threads_[thread.index] = nullptr;
  free_indexes_.push_back(thread.index);
}

void TrapPlatform::note_process(pid_t process, TrapSpace& space) {
  processes_[process] = &space;
  if (!is_kvm()) allow_processes(process, 0);
}

void TrapPlatform::forget_process(pid_t process) {
  processes_.erase(process);
  ++ending_;
}

bool TrapPlatform::is_new_stub(pid_t process) {
  if (process <= 0 || processes_.contains(process) || !nursery_->is_stub(process)) return false;
  collect();
  return std::ranges::none_of(prepared_, [&](const Prepared& each) { return each.process == process; });
}

void TrapPlatform::reap() {
  while (const pid_t ended = nursery_->reap()) {
    const auto found = processes_.find(ended);
    if (found != processes_.end()) found->second->lose();
    if (ending_ > 0) --ending_;
    if (found != processes_.end()) continue;
    collect();
    for (Prepared& each : prepared_)
      if (each.process == ended) each.process = -1;
  }
}

// ---- orders ----

void TrapPlatform::give(HostThread& thread, uint32_t order) {
  TrapControl& control = *thread.control;
  control.order = order;
  std::atomic_ref(control.state).store(kTrapOrdered);
  if (std::atomic_ref(control.is_stub_asleep).load() != 0) wake_futex(control.state);
}

void TrapPlatform::run(HostThread& thread) {
  thread.state = HostThread::State::kRunning;
  thread.running_at = running_.size();
  running_.push_back(&thread);
  wants_sweep_ = true;
  give(thread, kTrapRun);
}

void TrapPlatform::stop_running(HostThread& thread) {
  running_.back()->running_at = thread.running_at;
  running_[thread.running_at] = running_.back();
  running_.pop_back();
  thread.state = HostThread::State::kStopped;
}

bool TrapPlatform::order(HostThread& thread, uint32_t order) {
  give(thread, order);
  return await_stop(thread);
}

bool TrapPlatform::order_new(HostThread& thread, uint32_t order) {
  // A guest cannot make a monitor call, and the host creates a thread of each machine's own when it first
  // runs.
  if (is_kvm()) return this->order(thread, order);
  // The existing threads, those that have ended and still count, the nursery, the first process, and this
  // one.
  constexpr rlim_t kOthers = 256;
  const pid_t process = thread.space->process();
  allow_processes(process, threads_.size() - free_indexes_.size() + ending_ + kOthers);
  const bool is_done = this->order(thread, order);
  allow_processes(process, 0);
  return is_done;
}

bool TrapPlatform::await_stop(HostThread& thread) {
  TrapSpace& space = *thread.space;
  for (int patience = kPatience;;) {
    const uint32_t rings = bell_.rings();
    if (space.is_lost()) return false;  // and the thread with it
    if (state_of(thread) == kTrapStopped) return true;
    bell_.begin_sleep_for_one();
    if (state_of(thread) == kTrapStopped) {
      bell_.end_sleep();
      return true;
    }
    const auto before = Clock::now();
    bell_.sleep(rings, kLookEvery);
    if (Clock::now() - before < kLookEvery / 2) continue;
    reap();
    if (!space.is_lost() && --patience == 0) space.end_process();
  }
}

void TrapPlatform::end(HostThread& thread) {
  // Ending the first thread would make the process's memory unreachable, so it waits for the others to end.
  if (thread.inner_number == 0) {
    thread.state = HostThread::State::kParked;
    return;
  }
  give(thread, kTrapExit);
  thread.space->remove_thread(thread);
}

void TrapPlatform::kick(HostThread& thread) {
  if (thread.is_kicked) return;
  const pid_t process = thread.space->process();
  const pid_t number = thread.inner_number == 0 ? process : nursery_->number_of(thread.inner_number);
  if (number > 0 && syscall(SYS_tgkill, process, number, SIGUSR1) == 0) thread.is_kicked = true;
}

bool TrapPlatform::hold(HostThread& thread) {
  kick(thread);
  return await_stop(thread);
}

// ---- waiting ----

Thread* TrapPlatform::wait(std::optional<Clock::time_point> deadline) {
  for (;;) {
    const uint32_t rings = bell_.rings();
    if (bell_.take_wake()) return nullptr;
    if (Thread* const thread = next_gone()) return thread;
    if (Thread* const thread = next_stopped()) return thread;
    if (deadline && Clock::now() >= *deadline) return nullptr;
    sleep(rings, deadline);
  }
}

Thread* TrapPlatform::next_gone() {
  if (gone_.empty()) return nullptr;
  Thread* const thread = gone_.front();
  gone_.pop_front();
  return thread;
}

Thread* TrapPlatform::next_stopped() {
  // Bounded: a hostile guest can set hints faster than this reads them.
  for (size_t most = threads_.size(); most > 0; --most) {
    const int index = bell_.next_hint();
    if (index < 0) break;
    if (index >= static_cast<int>(threads_.size()) || threads_[index] == nullptr) continue;
    if (Thread* const thread = take(*threads_[index])) return thread;
    if (Thread* const thread = next_gone()) return thread;
  }
  while (!found_.empty()) {
    HostThread* const thread = found_.front();
    found_.pop_front();
    if (Thread* const stopped = take(*thread)) return stopped;
  }
  return next_gone();
}

Thread* TrapPlatform::take(HostThread& thread) {
  if (thread.state != HostThread::State::kRunning || state_of(thread) != kTrapStopped) return nullptr;
  stop_running(thread);
  ++thread.stops;
  if (thread.guest == nullptr) {
    end(thread);
    return nullptr;
  }
  TrapThread* const guest = thread.guest;
  return guest->take_stop() ? guest : nullptr;
}

void TrapPlatform::sleep(uint32_t rings, std::optional<Clock::time_point> deadline) {
  if (!bell_.begin_sleep()) {
    if (Clock::now() >= next_look_) look_around();
    return;
  }
  // A hostile guest can cause lost hints. A few threads are all checked; many, from time to time.
  if (running_.size() <= kFewThreads) {
    for (HostThread* const thread : running_)
      if (state_of(*thread) == kTrapStopped) found_.push_back(thread);
    if (!found_.empty()) return bell_.end_sleep();
  }
  auto most = std::chrono::nanoseconds::max();
  const bool looks = !running_.empty() || ending_ > 0;
  if (looks) most = kLookEvery;
  else if (wants_sweep_) most = kSweepEvery;
  const auto before = Clock::now();
  if (deadline)
    most = std::min<std::chrono::nanoseconds>(
        most, std::max<std::chrono::nanoseconds>(*deadline - before, std::chrono::nanoseconds(0)));
  bell_.sleep(rings, most);
  if ((looks || wants_sweep_) && Clock::now() >= next_look_) look_around();
}

void TrapPlatform::look_around() {
  next_look_ = Clock::now() + kLookEvery;
  reap();
  spread();
  for (HostThread* const thread : running_)
    if (state_of(*thread) == kTrapStopped) found_.push_back(thread);
  if (wants_sweep_ && Clock::now() >= next_sweep_) sweep();
}

void TrapPlatform::sweep() {
  next_sweep_ = Clock::now() + kSweepEvery;
  collect();
  for (int round = 0; round < kMostSweeps; ++round) {
    bool is_clean = true;
    for (const pid_t process : nursery_->processes()) {
      if (processes_.contains(process)) continue;
      if (std::ranges::any_of(prepared_, [&](const Prepared& each) { return each.process == process; }))
        continue;
      kill(process, SIGKILL);
      is_clean = false;
    }
    if (is_clean) {
      wants_sweep_ = !running_.empty();
      return;
    }
    reap();
  }
}

}  // namespace membrane::linux
