#include "linux/kernel/kernel.h"

#include <fcntl.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>

#include "base/heap_bytes.h"
#include "linux/files/process_file.h"
#include "linux/files/socket_end.h"
#include "linux/files/terminal.h"
#include "linux/fs/tree.h"
#include "linux/kernel/call.h"
#include "linux/kernel/cpu_time.h"
#include "linux/kernel/exec.h"
#include "linux/kernel/memory.h"
#include "linux/kernel/signals.h"
#include "linux/kernel/system_v.h"
#include "linux/proc/mounts.h"

namespace membrane::linux {

namespace {

constexpr int kMostIds = 4194304;
constexpr uint64_t kSyscallBytes = 2;  // of the instruction
constexpr rlim_t kStackBytes = 8u << 20;
constexpr size_t kAgainAtOnce = 64;  // calls retried between two checks of the platform

constexpr auto kLookAtMemoryEvery = std::chrono::milliseconds(50),
               kLookAtMuchMemoryEvery = std::chrono::milliseconds(250);
constexpr int kLooksShare = 20;                                 // the fraction of time that checks may take
constexpr auto kLongestStop = std::chrono::seconds(5);          // for a thread to stop
constexpr auto kNoLook = std::chrono::milliseconds(3'600'000);  // there is no process

constexpr auto kTurn = std::chrono::seconds(1);  // for a thread that makes no call while others wait

using HostClock = std::chrono::steady_clock;

constexpr uint64_t kMappingBytes = 256;  // of host memory, for each

TreeUsage use_of(const NodeRef& tree) {
  return tree == nullptr ? TreeUsage() : usage_of(*tree).value_or(TreeUsage());
}
uint64_t bytes_of(const NodeRef& tree) { return use_of(tree).used_bytes; }

}  // namespace

struct Kernel::Impl {
  struct Timer {
    std::weak_ptr<void> alive;
    std::function<void()> act;
  };
  std::multimap<GuestClock::Time, Timer> timers;
  std::deque<int> ready;  // tasks, by id
  std::deque<int> queue;  // tasks to run next, on a virtual clock
  int running = 0;        // the running one; 0: none
  HostClock::time_point turn_ends, next_look_at_memory;
  std::optional<HostClock::time_point> idle_since;  // no guest has run since
  std::vector<std::unique_ptr<Task>> ended_tasks;   // until no handler refers to them
  std::vector<std::unique_ptr<Process>> ended_processes;
  std::atomic<bool> is_stopping = false;
};

Kernel::Kernel(KernelOptions options)
    : options_(std::move(options)),
      impl_(std::make_shared<Impl>()),
      heap_before_(heap_bytes() - std::min(heap_bytes(), use_of(options_.root).heap_bytes)) {
  host_name = options_.host_name;
  root = std::make_shared<Location>(Location{.node = options_.root, .parent = nullptr, .name = ""});
}

Kernel::~Kernel() {
  end_all();
  // Processes of a failed restore still have files, which may call this kernel while they are closed.
  for (const auto& [id, process] : processes_) {
    process->terminal.reset();
    process->descriptors.reset();
  }
  tasks_by_id_.clear();
  processes_.clear();
}

// The end of one may end others, so each step looks again. A process without tasks was not restored
// completely (linux/kept/).
void Kernel::end_all() {
  for (;;) {
    const auto alive = std::ranges::find_if(
        processes_, [](const auto& each) { return !each.second->is_zombie && !each.second->tasks.empty(); });
    if (alive == processes_.end()) return;
    end_process(*alive->second, SIGKILL);
  }
}

// -- tasks and processes ------------------------------------------------------------------------------------------

Process* Kernel::process_of(int id) {
  const auto found = processes_.find(id);
  return found == processes_.end() ? nullptr : found->second.get();
}

Task* Kernel::task_of(int id) {
  const auto found = tasks_by_id_.find(id);
  return found == tasks_by_id_.end() ? nullptr : found->second;
}

Try<int> Kernel::take_id() {
  if (tasks_ + zombies_ >= options_.limits.most_tasks) {
    ++reached_.tasks;
    return err(EAGAIN);
  }
  if (reached_.cpu > 0) return err(EAGAIN);
  const auto is_taken = [this](int id) {
    return std::ranges::any_of(processes_, [id](const auto& each) {
      return each.second->id == id || each.second->group == id || each.second->session == id;
    });
  };
  do last_id_ = last_id_ >= kMostIds ? 300 : last_id_ + 1;
  while (tasks_by_id_.contains(last_id_) || is_taken(last_id_));
  return last_id_;
}

Process& Kernel::add_process(int id, Process* parent) {
  auto process = std::make_unique<Process>();
  process->id = id;
  process->parent = parent;
  process->started = steady_now();
  if (parent != nullptr) parent->children.push_back(process.get());
  Process& added = *process;
  processes_[id] = std::move(process);
  return added;
}

Task& Kernel::add_task(Process& process, int id, std::unique_ptr<Thread> thread) {
  auto task = std::make_unique<Task>();
  task->id = id;
  task->process = &process;
  task->kernel = this;
  task->thread = std::move(thread);
  task->thread->owner = task.get();
  Task& added = *task;
  process.tasks.push_back(std::move(task));
  tasks_by_id_[id] = &added;
  ++tasks_;
  return added;
}

void Kernel::close_all(Task& task, const std::vector<FileRef>& files) {
  for (const FileRef& file : files) file->on_close(task);
}

void Kernel::rename(Task& task, int id) {
  tasks_by_id_.erase(task.id);
  task.id = id;
  tasks_by_id_[id] = &task;
}

void Kernel::let_go_of_parent(Task& task) {
  Task* const parent = task_of(std::exchange(task.vfork_parent, 0));
  if (parent == nullptr || !parent->waits_for_vfork) return;
  parent->waits_for_vfork = false;
  if (parent->is_parked) go_on(*parent);
}

void Kernel::end_task(Task& task, int status) {
  if (task.state == TaskState::kDead) return;
  Process& process = *task.process;
  const bool is_last = process.tasks.size() == 1;
  if (is_last && process.descriptors && process.descriptors.use_count() == 1)
    close_all(task, process.descriptors->remove_all());
  if (options_.limits.cpu) cpu_of_ended_tasks_ += used_on_processors(task);
  if (options_.clock->is_virtual()) process.of_ended_tasks = used_by(task);
  else process.of_ended_tasks += used_by(task);
  task.state = TaskState::kDead;
  task.leave();
  leave_threads(task);
  task.thread.reset();
  let_go_of_parent(task);
  tasks_by_id_.erase(task.id);
  --tasks_;
  const auto at = std::ranges::find_if(process.tasks, [&](const auto& each) { return each.get() == &task; });
  impl_->ended_tasks.push_back(std::move(*at));
  process.tasks.erase(at);
  if (!is_last) return;
  process.is_zombie = true;
  ++zombies_;
  process.status = status;
  process.memory.reset();
  process.descriptors.reset();
  process.place.reset();
  process.arguments = {};
  process.real_timer = process.virtual_timer = process.profile_timer = {};
  process.timers.clear();
  undo_semaphores(*this, process);
  if (process.end != nullptr) process.end->tell();
  adopt_children(process);
  hang_up_session(process);
  tell_parent(process);
}

void Kernel::end_process(Process& process, int status) {
  while (!process.tasks.empty()) end_task(*process.tasks.front(), status);
}

// Its children move to the next subreaper above it, or have no parent.
void Kernel::adopt_children(Process& process) {
  Process* heir = process.parent;
  while (heir != nullptr && (heir->is_zombie || (!heir->is_subreaper && heir->parent != nullptr)))
    heir = heir->parent;
  for (Process* child : std::exchange(process.children, {})) {
    child->parent = heir;
    for (const auto& task : child->tasks) tell_identity(*task);
    if (heir != nullptr) {
      heir->children.push_back(child);
      if (child->is_zombie) tell_parent(*child);
    } else if (child->is_zombie) {
      forget(*child);
    }
    if (child->death_signal != 0)
      send_signal(*this, *child, signal_from(child->death_signal, SI_USER, &process));
  }
}

// The end of a session's leader releases its terminal.
void Kernel::hang_up_session(Process& leader) {
  const FileRef terminal = leader.terminal;
  if (leader.id != leader.session || terminal == nullptr) return;
  end_session(*terminal);
  lose_terminal(leader.session);
}

void Kernel::signal_group(int group, int signal) {
  std::vector<int> members;  // a killed process may be removed at once
  for (const auto& [id, each] : processes_)
    if (each->group == group) members.push_back(id);
  for (const int id : members) signal_process(id, signal);
}

void Kernel::kill_session(int session) {
  std::vector<int> members;
  for (const auto& [id, each] : processes_)
    if (each->session == session) members.push_back(id);
  for (const int id : members) signal_process(id, SIGKILL);
}

void Kernel::signal_process(int process, int signal) {
  Process* const to = process_of(process);
  if (to != nullptr && !to->is_zombie) send_signal(*this, *to, signal_from(signal, SI_KERNEL, nullptr));
}

void Kernel::lose_terminal(int session) {
  for (const auto& [id, each] : processes_)
    if (each->session == session) each->terminal.reset();
}

bool Kernel::has_pending(uint64_t set) {
  return current_ != nullptr && ((current_->pending.set() | current_->process->pending.set()) & set) != 0;
}

std::optional<siginfo_t> Kernel::take_pending(uint64_t set) {
  if (current_ == nullptr) return std::nullopt;
  auto signal = take_signal(*current_, set);
  if (!signal) return std::nullopt;
  return signal->info;
}

void Kernel::forget(Process& process) {
  if (process.parent != nullptr) std::erase(process.parent->children, &process);
  const auto found = processes_.find(process.id);
  if (process.is_zombie) --zombies_;
  impl_->ended_processes.push_back(std::move(found->second));
  processes_.erase(found);
}

// Builds its report from its status.
void Kernel::tell_parent(Process& process) {
  Process* const parent = process.parent;
  if (parent == nullptr || parent->is_zombie) {
    if (!process.is_zombie) return;
    if (process.is_from_outside && on_end) on_end(process);
    if (!process.is_from_outside || on_end) forget(process);
    return;
  }
  const SignalAction& action = parent->actions[SIGCHLD];
  if (process.exit_signal != 0 || !process.is_zombie) {
    const ChildNews news = news_of(process.status);
    PendingSignal signal =
        signal_from(process.is_zombie ? process.exit_signal : SIGCHLD, news.code, &process);
    signal.info.si_status = news.value;
    const bool is_told = process.is_zombie || (action.flags & SA_NOCLDSTOP) == 0;
    if (is_told) send_signal(*this, *parent, signal);
  }
  parent->child_changed.wake();
  if (process.is_zombie && process.exit_signal == SIGCHLD &&
      (action.handler == 1 || (action.flags & SA_NOCLDWAIT) != 0))
    forget(process);
}

void Kernel::stop_process(Process& process, int signal) {
  if (process.is_zombie || process.is_stopped) return;
  process.is_stopped = process.tells_stop = true;
  process.tells_continue = false;
  process.status = signal << 8 | 0x7f;
  for (const auto& task : process.tasks)
    if (task->state == TaskState::kRunning && task.get() != current_ && !task->is_parked && !task->is_queued)
      task->thread->interrupt();
  tell_parent(process);
}

void Kernel::continue_process(Process& process) {
  process.is_stopped = process.tells_stop = false;
  process.tells_continue = true;
  process.status = 0xffff;
  std::vector<Task*> tasks;
  for (const auto& task : process.tasks) tasks.push_back(task.get());
  for (Task* task : tasks) {
    if (task->state == TaskState::kWaiting) make_ready(*task);
    else if (task->is_parked && !task->waits_for_vfork) impl_->ready.push_back(task->id);
  }
  tell_parent(process);
}

// -- calls --------------------------------------------------------------------------------------------------------

void Kernel::make_ready(Task& task) {
  if (task.is_ready || task.state != TaskState::kWaiting) return;
  task.is_ready = true;
  impl_->ready.push_back(task.id);
}

void Kernel::at(GuestClock::Time time, std::weak_ptr<void> alive, std::function<void()> act) {
  impl_->timers.emplace(time, Impl::Timer{std::move(alive), std::move(act)});
}

NodeRef& Kernel::made_memory_files() {
  if (memory_files == nullptr)
    memory_files = make_tree({.most_bytes = options_.limits.memory_bytes / 2, .device = 1});
  return memory_files;
}

void Kernel::arm_deadline(Task& task) {
  const auto alive = std::make_shared<int>(task.id);
  task.deadline_alive = alive;
  at(*task.waiting.deadline, alive, [this, id = task.id] {
    if (Task* const sleeper = task_of(id)) make_ready(*sleeper);
  });
}

void Kernel::go_on(Task& task) {
  if (task.state == TaskState::kDead) return;
  task.state = TaskState::kRunning;
  task.waiting.is_again = false;
  task.waiting.deadline.reset();
  task.deadline_alive.reset();
  task.waiting.kept = task.waiting.rest_at = 0;
  if (!options_.clock->is_virtual()) return run_task(task);
  if (std::exchange(task.is_queued, true)) return;
  impl_->queue.push_back(task.id);
}

// Delivers its signals, and runs it unless it is stopped.
void Kernel::run_task(Task& task) {
  Task* const before = std::exchange(current_, &task);
  const bool lives = deliver_signals(*this, task);
  current_ = before;
  if (!lives) return;
  task.is_parked = task.process->is_stopped || task.waits_for_vfork;
  if (task.is_parked) return;
  tell_identity(task);
  if (is_frozen_) {
    task.thread->stop = {.kind = StopKind::kInterrupted};
    return hold(*task.thread);
  }
  if (options_.clock->is_virtual()) {
    impl_->running = task.id;
    impl_->turn_ends = HostClock::now() + kTurn;
  }
  task.thread->resume();
}

// A virtual clock counts every call.
void Kernel::tell_identity(Task& task) {
  if (options_.clock->is_virtual()) return;
  const Process& process = *task.process;
  const Credentials& who = process.credentials;
  task.thread->set_identity(
      {.process = static_cast<uint32_t>(process.id),
       .thread = static_cast<uint32_t>(task.id),
       .parent = process.parent == nullptr ? 0 : static_cast<uint32_t>(process.parent->id),
       .user = who.uid,
       .effective_user = who.euid,
       .group = who.gid,
       .effective_group = who.egid});
}

// On a virtual clock one thread runs at a time.
void Kernel::run_next() {
  const Task* const running = task_of(impl_->running);
  if (running == nullptr || running->state != TaskState::kRunning || running->is_queued) impl_->running = 0;
  while (impl_->running == 0 && !impl_->queue.empty()) {
    Task* const task = task_of(impl_->queue.front());
    impl_->queue.pop_front();
    if (task != nullptr && std::exchange(task->is_queued, false)) run_task(*task);
  }
}

// Asks the handler of the task's current call.
void Kernel::ask(Task& task) {
  const CallRow* const row = row_of(task.call_number);
  int64_t value = -ENOSYS;
  if (row != nullptr && row->handler != nullptr) {
    current_ = &task;
    const auto begun = HostClock::now();
    moved_ = 0;
    is_asking_ = true;
    Call call(*this, task);
    value = row->handler(call);
    is_asking_ = ends_call_ = false;
    current_ = nullptr;
    task.used_before.system += HostClock::now() - begun;
  } else {
    ++absent_calls[row != nullptr ? row->name : "another"];
  }
  if (task.state == TaskState::kDead) return;
  if (value == kWaits) {
    task.state = TaskState::kWaiting;
    task.waiting.is_again = true;
    if (has_signal(task)) make_ready(task);
    return;
  }
  if (value == -kAskAgain) return restart(task);
  if (value != kNoAnswer) task.thread->registers.rax = static_cast<uint64_t>(value);
  go_on(task);
}

// For a sleep that a signal ends.
static void tell_rest(Task& task) {
  if (task.waiting.rest_at == 0 || !task.waiting.deadline) return;
  const auto rest =
      std::max(*task.waiting.deadline - task.kernel->steady_now(), GuestClock::Time::duration::zero());
  const int64_t ns = std::chrono::duration_cast<std::chrono::nanoseconds>(rest).count();
  static_cast<void>(task.put(task.waiting.rest_at, timespec{ns / 1'000'000'000, ns % 1'000'000'000}));
}

// A signal precedes the call's answer: the guest repeats the call after it, unless a handler interrupts it.
void Kernel::restart(Task& task) {
  Registers& r = task.thread->registers;
  if (restarts_after_signal(task)) {
    r.rax = task.call_number;
    r.rip -= kSyscallBytes;
  } else {
    r.rax = static_cast<uint64_t>(-EINTR);
  }
  go_on(task);
}

// The call stops waiting: an event that it waits for has happened, its time is over, or a signal is pending.
void Kernel::ask_again(Task& task) {
  task.is_ready = false;
  if (task.process->is_stopped) return;
  task.leave();
  if (!has_signal(task)) return ask(task);
  tell_rest(task);
  Registers& r = task.thread->registers;
  if (task.waiting.kept != 0 && task.call_keeps_bytes) {
    r.rax = task.waiting.kept;  // this much was done
    return go_on(task);
  }
  if (!task.waiting.is_interrupt) return restart(task);
  r.rax = static_cast<uint64_t>(-EINTR);
  go_on(task);
}

// Whether every signal handler about to run lets the call restart.
bool Kernel::restarts_after_signal(const Task& task) const {
  const SignalSet there = (task.pending.set() | task.process->pending.set()) & ~task.blocked;
  for (int number = 1; number <= 64; ++number) {
    if ((there & bit_of(number)) == 0) continue;
    const SignalAction& action = task.process->actions[number];
    if (action.handler > 1 && (action.flags & SA_RESTART) == 0) return false;
  }
  return true;
}

// -- the loop -----------------------------------------------------------------------------------------------------

void Kernel::look_at(Thread& thread) {
  Task& task = *static_cast<Task*>(thread.owner);
  if (impl_->running == task.id) impl_->running = 0;
  impl_->idle_since.reset();
  switch (thread.stop.kind) {
    case StopKind::kSystemCall: {
      options_.clock->count_call();
      const Registers& r = thread.registers;
      task.call_number = r.rax;
      task.arguments = {r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9};
      task.call_keeps_bytes = false;
      return ask(task);
    }
    case StopKind::kException: {
      if (answer_time_stamp(task)) return go_on(task);
      PendingSignal signal = signal_from(thread.stop.signal, thread.stop.code, nullptr);
      signal.info.si_addr = reinterpret_cast<void*>(thread.stop.address);
      force_signal(*this, task, signal);
      return go_on(task);
    }
    case StopKind::kInterrupted: return go_on(task);
    case StopKind::kGone: return end_process(*task.process, SIGKILL);
  }
}

// `rdtsc` and `rdtscp` of a guest whose platform does not let it read the host's counter: returns the virtual
// clock's.
bool Kernel::answer_time_stamp(Task& task) {
  Registers& r = task.thread->registers;
  if (!options_.clock->is_virtual() || task.thread->stop.signal != SIGSEGV) return false;
  std::array<uint8_t, 3> code = {};
  if (task.thread->space()->read(r.rip, std::as_writable_bytes(std::span(code))) < 2 || code[0] != 0x0f)
    return false;
  const bool is_with_processor = code[1] == 0x01 && code[2] == 0xf9;
  if (code[1] != 0x31 && !is_with_processor) return false;
  options_.clock->count_call();
  const uint64_t stamp = static_cast<uint64_t>(options_.clock->passed().count());
  r.rax = stamp & 0xffffffff;
  r.rdx = stamp >> 32;
  if (is_with_processor) r.rcx = 0;
  r.rip += is_with_processor ? 3 : 2;
  return true;
}

void Kernel::do_due() {
  const auto now = steady_now();
  while (!impl_->timers.empty() && impl_->timers.begin()->first <= now) {
    const auto timer = impl_->timers.extract(impl_->timers.begin());
    if (timer.mapped().alive.lock()) timer.mapped().act();
  }
}

// What this kernel allocates for guests, except the contents of files, which count against the disk limit.
uint64_t Kernel::own_bytes() {
  const uint64_t of_files = use_of(root == nullptr ? nullptr : root->node).heap_bytes +
                            use_of(memory_files).heap_bytes +
                            use_of(system == nullptr ? nullptr : system->shared_memory).heap_bytes;
  const uint64_t heap = heap_bytes(), before = heap_before_ + of_files;
  return *granted_copies + (heap > before ? heap - before : 0);
}

Process* Kernel::count_memory() {
  const auto begun = HostClock::now();
  uint64_t all = shared_memories.resident_bytes() + own_bytes() + bytes_of(memory_files) +
                 bytes_of(system == nullptr ? nullptr : system->shared_memory);
  uint64_t most = 0;
  Process* largest = nullptr;
  const bool is_alone = processes_.size() == 1;  // then it shares no page with another
  for (const auto& [id, process] : processes_) {
    if (process->is_zombie || process->memory == nullptr) continue;
    Space& space = process->memory->space();
    const SpaceBytes there = space.most_bytes();
    const uint64_t bytes = (is_alone ? there.resident : space.resident_bytes()) + there.tables +
                           process->memory->areas().size() * kMappingBytes;
    all += bytes;
    if (largest == nullptr || bytes > most) {
      most = bytes;
      largest = process.get();
    }
  }
  memory_bytes_ = all;
  memory_peak_bytes_ = std::max(memory_peak_bytes_, all);
  const auto now = HostClock::now();
  const auto rest = std::clamp<HostClock::duration>((now - begun) * kLooksShare, kLookAtMemoryEvery,
                                                    kLookAtMuchMemoryEvery);
  impl_->next_look_at_memory = now + (processes_.empty() ? HostClock::duration(kNoLook) : rest);
  return largest;
}

// Memory is counted periodically; when it exceeds the limit, the largest process is killed, as Linux would.
void Kernel::watch_memory() {
  Process* const largest = count_memory();
  if (memory_bytes_ <= options_.limits.memory_bytes || largest == nullptr) return;
  was_out_of_memory_ = largest->was_out_of_memory = true;
  ++reached_.memory;
  end_process(*largest, SIGKILL);
}

bool Kernel::is_cpu_used_up() const {
  if (!options_.limits.cpu) return false;
  std::chrono::nanoseconds all = cpu_of_ended_tasks_;
  for (const auto& [id, process] : processes_)
    for (const auto& task : process->tasks) all += used_on_processors(*task);
  return all >= *options_.limits.cpu;
}

void Kernel::watch_cpu() {
  if (reached_.cpu > 0 || !is_cpu_used_up()) return;
  reached_.cpu = 1;
  end_all();
}

bool Kernel::ends_call(size_t moved) {
  constexpr size_t kLookEach = 1u << 20;
  moved_ += moved;
  if (ends_call_ || !is_asking_ || moved_ < kLookEach) return ends_call_;
  moved_ = 0;
  if (HostClock::now() < impl_->next_look_at_memory) return false;
  count_memory();
  ends_call_ = memory_bytes_ > options_.limits.memory_bytes || is_cpu_used_up();
  if (ends_call_) impl_->next_look_at_memory = HostClock::now();  // the loop kills what must end
  return ends_call_;
}

LimitsReached Kernel::limits_reached() const {
  LimitsReached reached = reached_;
  if (const auto usage = root == nullptr ? std::nullopt : usage_of(*root->node))
    reached.disk = usage->refusals;
  return reached;
}

int Kernel::run(int process) {
  run_while([this, process] {
    const Process* const first = process_of(process);
    return first != nullptr && !first->is_zombie;
  });
  const Process* const first = process_of(process);
  return first == nullptr ? SIGKILL : first->status;
}

void Kernel::run_while(const std::function<bool()>& goes_on) {
  watch_memory();
  for (;;) {
    impl_->ended_tasks.clear();
    impl_->ended_processes.clear();
    if (sockets != nullptr && sockets->has_garbage()) sockets->collect();
    if (impl_->is_stopping) end_all();
    if (!goes_on()) return;
    if (HostClock::now() >= impl_->next_look_at_memory) {
      watch_memory();
      enforce_cpu_limits(*this);
      watch_cpu();
    }
    if (!is_frozen_) do_due();
    if (on_outside) {
      on_outside();
      if (!goes_on()) return;  // it may have been told to stop
    }
    if (!is_frozen_) run_ready();
    Thread* const stopped = wait_for_guests();
    if (stopped == nullptr) continue;
    if (is_frozen_) hold(*stopped);
    else look_at(*stopped);
  }
}

void Kernel::run_ready() {
  for (size_t i = 0; i < kAgainAtOnce && !impl_->ready.empty(); ++i) {
    Task* const task = task_of(impl_->ready.front());
    impl_->ready.pop_front();
    if (task == nullptr) continue;
    if (task->state == TaskState::kWaiting) ask_again(*task);
    else if (task->is_parked) go_on(*task);
  }
  if (options_.clock->is_virtual()) run_next();
}

// The next guest that stops; nullptr when there is something else to do first.
Thread* Kernel::wait_for_guests() {
  HostClock::time_point until = impl_->next_look_at_memory;
  if (is_frozen_) return options_.platform->wait(until);
  const auto next = impl_->timers.begin();
  if (!impl_->ready.empty()) until = HostClock::now();
  else if (!options_.clock->is_virtual() && next != impl_->timers.end())
    until = std::min(until, options_.clock->host_time(next->first));
  else if (impl_->running != 0 && !impl_->queue.empty()) until = std::min(until, impl_->turn_ends);
  else if (impl_->running == 0 && next != impl_->timers.end()) {
    // Events from outside may take as long as they need by the host's clock.
    if (!impl_->idle_since) impl_->idle_since = HostClock::now();
    const auto due = *impl_->idle_since + (next->first - steady_now());
    if (!expects_outside || !expects_outside() || HostClock::now() >= due) {
      impl_->idle_since.reset();
      options_.clock->pass_until(next->first);
      return nullptr;
    }
    until = std::min(until, due);
  }
  Thread* const stopped = options_.platform->wait(until);
  if (stopped != nullptr || impl_->running == 0 || impl_->queue.empty() ||
      HostClock::now() < impl_->turn_ends)
    return stopped;
  if (Task* const task = task_of(impl_->running)) {
    ++preemptions_;
    impl_->turn_ends = HostClock::now() + kTurn;
    task->thread->interrupt();
  }
  return nullptr;
}

// -- freezing -----------------------------------------------------------------------------------------------------

// The reason why it stopped is handled when the kernel thaws.
void Kernel::hold(Thread& thread) {
  Task& task = *static_cast<Task*>(thread.owner);
  if (impl_->running == task.id) impl_->running = 0;
  if (thread.stop.kind == StopKind::kGone) return end_process(*task.process, SIGKILL);
  task.is_held = true;
}

bool Kernel::runs(const Task& task) const {
  return task.state == TaskState::kRunning && !task.is_parked && !task.is_held && !task.is_queued;
}

void Kernel::freeze() {
  if (is_frozen_) return;
  is_frozen_ = true;
  for (const auto& [id, task] : tasks_by_id_)
    if (runs(*task)) task->thread->interrupt();
  const auto deadline = HostClock::now() + kLongestStop;
  bool was_woken = false;
  for (;;) {
    const auto running =
        std::ranges::find_if(tasks_by_id_, [this](const auto& each) { return runs(*each.second); });
    if (running == tasks_by_id_.end()) break;
    if (Thread* const stopped = options_.platform->wait(deadline)) hold(*stopped);
    else if (HostClock::now() >= deadline) end_process(*running->second->process, SIGKILL);
    else was_woken = true;
  }
  if (was_woken) options_.platform->wake();  // the loop handles events from outside
}

void Kernel::thaw() {
  if (!std::exchange(is_frozen_, false)) return;
  std::vector<int> held;
  for (const auto& [id, task] : tasks_by_id_)
    if (task->is_held) held.push_back(id);
  for (const int id : held) {
    Task* const task = task_of(id);
    if (task != nullptr && std::exchange(task->is_held, false)) look_at(*task->thread);
  }
}

void Kernel::stop() {
  impl_->is_stopping = true;
  options_.platform->wake();
}

Try<int> Kernel::start(const Start& start) {
  MEMBRANE_ASSIGN(const int id, take_id());
  MEMBRANE_ASSIGN(std::unique_ptr<Thread> thread, options_.platform->start());
  Process& process = add_process(id, nullptr);
  process.group = process.session = id;
  process.is_from_outside = true;
  process.terminal = start.terminal;
  process.credentials = start.credentials;
  process.descriptors = std::make_shared<Descriptors>();
  process.place = std::make_shared<Place>(Place{.root = root, .directory = root});
  process.memory =
      std::make_shared<Memory>(thread->space(), options_.platform->lowest(), options_.platform->highest());
  process.limits.fill({RLIM_INFINITY, RLIM_INFINITY});
  process.limits[RLIMIT_STACK] = {kStackBytes, RLIM_INFINITY};
  process.limits[RLIMIT_NOFILE] = {1024,
                                   std::max<rlim_t>(4096, static_cast<rlim_t>(options_.limits.most_files))};
  process.limits[RLIMIT_CORE] = {0, RLIM_INFINITY};
  process.limits[RLIMIT_SIGPENDING] = {kMostPendingSignals, kMostPendingSignals};
  Task& task = add_task(process, id, std::move(thread));
  for (const FileRef& file : {start.input, start.output, start.errors})
    static_cast<void>(process.descriptors->add(file, false, RLIM_INFINITY));
  const auto begun = [&]() -> Done {
    MEMBRANE_ASSIGN(process.place->directory, walk(mounts, *process.place, root, start.directory,
                                                   process.credentials, {.wants_directory = true}));
    MEMBRANE_ASSIGN(const std::string path, find_program(*this, process, start));
    return execute(*this, task,
                   {.path = path, .arguments = start.arguments, .environment = start.environment});
  }();
  if (!begun) {
    process.is_from_outside = false;  // nobody knows of it
    end_process(process, SIGKILL);
    return err(begun.error());
  }
  watch_memory();
  go_on(task);
  return id;
}

}  // namespace membrane::linux
