#include "linux/kept/kernel_state.h"

#include <algorithm>
#include <cstring>

#include "linux/files/locks.h"
#include "linux/kept/file_state.h"
#include "linux/kept/memory_state.h"
#include "linux/kept/system_v_state.h"
#include "linux/kept/tree_state.h"
#include "linux/kernel/cpu_time.h"
#include "linux/kernel/system_v.h"
#include "linux/kernel/timers.h"
#include "linux/kernel/vdso.h"
#include "linux/proc/mounts.h"

namespace membrane::linux {
namespace {

constexpr size_t kMostVectorState = 64u << 10;
constexpr size_t kMostHostNameBytes = 64;
constexpr int kMostIds = 4194304;
constexpr size_t kMostPending = 1u << 16, kMostTimers = 1024;
constexpr size_t kLeastTimerBytes = 37;

enum class Owner : uint8_t { kFile = 1, kDescriptors };  // of locks

std::unexpected<Error> damaged() { return damaged_kept_file("its processes are damaged"); }

// -- what is read as it is written ------------------------------------------------------------------------------------

template <typename State>
void transfer_time(State& state, std::chrono::nanoseconds& time) {
  int64_t ns = time.count();
  state(ns);
  time = std::chrono::nanoseconds(ns);
}

template <typename State>
void transfer_time(State& state, GuestClock::Time& time) {
  std::chrono::nanoseconds since = time.time_since_epoch();
  transfer_time(state, since);
  time = GuestClock::Time(since);
}

template <typename State>
void transfer_time(State& state, std::optional<GuestClock::Time>& time) {
  bool is_there = time.has_value();
  state(is_there);
  GuestClock::Time value = time.value_or(GuestClock::Time());
  if (is_there) transfer_time(state, value);
  time = is_there ? std::optional(value) : std::nullopt;
}

template <typename State>
void transfer_time(State& state, CpuTime& time) {
  transfer_time(state, time.user);
  transfer_time(state, time.system);
}

// A list of things, each of at least that many bytes.
template <typename State, typename List, typename Transfer>
void transfer_list(State& state, List& list, size_t least_bytes, size_t most, const Transfer& transfer) {
  if constexpr (kReads<State>) {
    list.clear();
    for (size_t left = state.count(least_bytes, most); left > 0 && state.is_good(); --left)
      transfer(list.emplace_back());
  } else {
    state(static_cast<uint32_t>(list.size()));
    for (auto& each : list) transfer(each);
  }
}

template <typename State>
void transfer_pending(State& state, PendingSignals& pending) {
  transfer_list(state, pending.queue, sizeof(siginfo_t), kMostPending, [&state](PendingSignal& each) {
    state(each.number);
    state.raw(each.info);
    if constexpr (kReads<State>) state.require(each.number >= 1 && each.number <= 64);
  });
}

template <typename State>
void transfer_credentials(State& state, Credentials& who) {
  for (uint32_t* const id :
       {&who.uid, &who.gid, &who.euid, &who.egid, &who.suid, &who.sgid, &who.fsuid, &who.fsgid})
    state(*id);
  transfer_list(state, who.groups, sizeof(uint32_t), 65536, [&state](uint32_t& group) { state(group); });
}

template <typename State>
void transfer_capabilities(State& state, Capabilities& all) {
  for (uint64_t* const set : {&all.permitted, &all.effective, &all.inheritable, &all.bounding, &all.ambient})
    state(*set);
  state(all.secure_bits);
}

template <typename State>
void transfer_interval(State& state, IntervalTimer& timer) {
  transfer_time(state, timer.next);
  transfer_time(state, timer.interval);
}

template <typename State>
void transfer_timer(State& state, PosixTimer& timer) {
  state(timer.clock);
  state(timer.signal);
  state(timer.task);
  state(timer.value);
  transfer_time(state, timer.next);
  transfer_time(state, timer.interval);
  state(timer.overrun);
}

template <typename State>
void transfer_facts(State& state, Process& process) {
  state(process.group);
  state(process.session);
  state(process.exit_signal);
  transfer_time(state, process.of_ended_tasks);
  transfer_time(state, process.of_children);
  transfer_credentials(state, process.credentials);
  transfer_capabilities(state, process.capabilities);
  state.raw(process.actions);
  transfer_pending(state, process.pending);
  state.raw(process.limits);
  for (IntervalTimer* const timer : {&process.real_timer, &process.virtual_timer, &process.profile_timer})
    transfer_interval(state, *timer);
  state(process.executable);
  transfer_list(state, process.arguments, 4, 1u << 20, [&state](std::string& each) { state(each); });
  for (bool* const flag :
       {&process.has_executed, &process.is_zombie, &process.is_from_outside, &process.was_out_of_memory,
        &process.is_stopped, &process.tells_stop, &process.tells_continue, &process.is_dumpable,
        &process.has_no_new_privileges, &process.is_secure, &process.is_subreaper})
    state(*flag);
  state(process.status);
  state(process.death_signal);
  state(process.nice);
  transfer_time(state, process.started);
}

template <typename State>
void transfer_waiting(State& state, Waiting& waiting) {
  state(waiting.is_again);
  state(waiting.is_interrupt);
  transfer_time(state, waiting.deadline);
  state(waiting.kept);
  state(waiting.rest_at);
  state(waiting.saved_mask);
  state(waiting.has_saved_mask);
}

// `used_before` is the total so far.
template <typename State>
void transfer_facts(State& state, Task& task) {
  state(task.name);
  state(task.blocked);
  transfer_pending(state, task.pending);
  state.raw(task.signal_stack);
  state(task.processors);
  state(task.policy);
  state(task.clear_child_tid);
  state(task.robust_list);
  state(task.vfork_parent);
  state(task.futex_bits);
  state(task.is_futex_woken);
  transfer_waiting(state, task.waiting);
  state(task.call_number);
  state.raw(task.arguments);
  state(task.call_keeps_bytes);
  state(task.waits_for_vfork);
  state(task.is_parked);
}

template <typename State>
void transfer_stop(State& state, Stop& stop) {
  state(stop.kind);
  state(stop.signal);
  state(stop.code);
  state(stop.trap_number);
  state(stop.error_code);
  state(stop.address);
}

// All trees except the root's, which was written before.
std::vector<Tree*> other_trees_of(Kernel& kernel) {
  std::vector<Tree*> trees = trees_of(kernel);
  trees.erase(trees.begin());
  return trees;
}

enum class TaskIs : uint8_t { kWaiting = 1, kHeld, kParked };

}  // namespace

// -- writing ----------------------------------------------------------------------------------------------------------

class KernelState::Writer {
 public:
  Writer(Kernel& kernel, PageWriter& pages) : kernel_(kernel), to_(kernel, pages) {}

  void write(const std::vector<KeptCommand>& commands, StateWriter& state) {
    write_clock(state);
    const bool has_memory_files = kernel_.memory_files != nullptr;
    state(has_memory_files);
    for (Tree* const tree : other_trees_of(kernel_)) TreeState::write(*tree, true, state, to_.pages);
    state(static_cast<uint32_t>(kernel_.processes_.size()));
    for (const auto& [id, process] : kernel_.processes_) state(id);
    for (const auto& [id, process] : kernel_.processes_) write_process(*process);
    write_commands(commands);
    write_system_v();
    write_futexes();
    to_.write_bodies();
    write_locks();
    // References follow the objects that they refer to.
    to_.write_to(state);
    const bool has_sockets = kernel_.sockets != nullptr;
    state(has_sockets);
    if (has_sockets) FileState::write_names(to_, *kernel_.sockets, state);
    for (const Section* const section : {&places_, &tables_, &memories_}) {
      state(section->count);
      state.put(section->bytes.bytes());
    }
    state.put(own_.bytes());
  }

 private:
  struct Section {
    uint32_t count = 0;
    StateWriter bytes;
  };

  void write_clock(StateWriter& state) {
    GuestClock::Time now = kernel_.steady_now();
    transfer_time(state, now);
    const RandomStream* const stream = kernel_.entropy().stream();
    const bool has_stream = stream != nullptr;
    state(has_stream);
    if (has_stream) {
      state.raw(stream->key());
      state(stream->position());
    }
    // A name that nobody has changed is that of the restored sandbox.
    state(kernel_.host_name == kernel_.options().host_name ? std::string() : kernel_.host_name);
    state(kernel_.domain_name);
    state(kernel_.last_id_);
    state(kernel_.preemptions_);
    state(kernel_.memory_peak_bytes_);
    std::chrono::nanoseconds cpu = kernel_.cpu_of_ended_tasks_;
    transfer_time(state, cpu);
  }

  uint32_t place(const std::shared_ptr<Place>& place) {
    if (place == nullptr) return 0;
    if (const uint32_t known = known_places_.find(place.get())) return known;
    const uint32_t root = to_.location(place->root), directory = to_.location(place->directory);
    places_.bytes(root);
    places_.bytes(directory);
    places_.bytes(place->umask);
    return places_.count = known_places_.add(place);
  }

  uint32_t table(const std::shared_ptr<Descriptors>& table) {
    if (table == nullptr) return 0;
    if (const uint32_t known = known_tables_.find(table.get())) return known;
    StateWriter entries;
    uint32_t count = 0;
    for (size_t number = 0; number < table->entries_.size(); ++number) {
      const Descriptors::Entry& entry = table->entries_[number];
      if (entry.file == nullptr) continue;
      entries(static_cast<uint32_t>(number));
      entries(to_.file(entry.file));
      entries(entry.closes_on_exec);
      ++count;
    }
    tables_.bytes(count);
    tables_.bytes.put(entries.bytes());
    return tables_.count = known_tables_.add(table);
  }

  uint32_t memory(const std::shared_ptr<Memory>& memory) {
    if (memory == nullptr) return 0;
    if (const uint32_t known = known_memories_.find(memory.get())) return known;
    MemoryState::write(to_, *memory, memories_.bytes);
    return memories_.count = known_memories_.add(memory);
  }

  void write_process(Process& process) {
    if (!to_.pages.goes_on()) return;
    own_(process.parent == nullptr ? 0 : process.parent->id);
    transfer_facts(own_, process);
    own_(memory(process.memory));
    own_(table(process.descriptors));
    own_(place(process.place));
    own_(to_.file(process.terminal));
    own_(to_.location(process.executable_at));
    own_(to_.process_end(process.end));
    own_(static_cast<uint32_t>(process.timers.size()));
    for (auto& [id, timer] : process.timers) {
      own_(id);
      transfer_timer(own_, timer);
    }
    own_(static_cast<uint32_t>(process.semaphore_undo.size()));
    for (const auto& [semaphore, change] : process.semaphore_undo) {
      own_(semaphore.first);
      own_(semaphore.second);
      own_(change);
    }
    own_(static_cast<uint32_t>(process.tasks.size()));
    for (const auto& task : process.tasks) write_task(*task);
  }

  void write_task(Task& task) {
    own_(task.id);
    TaskIs what = TaskIs::kHeld;
    if (task.state == TaskState::kWaiting) what = TaskIs::kWaiting;
    else if (task.is_parked) what = TaskIs::kParked;
    own_(what);
    transfer_facts(own_, task);
    own_(to_.file(task.waiting.file));
    CpuTime used = used_by(task);
    if (kernel_.options().clock->is_virtual()) used = {};
    transfer_time(own_, used);
    Stop stop = task.thread->stop;
    // A task whose turn has not come on a virtual clock already has its answer.
    if (task.is_queued) stop = {.kind = StopKind::kInterrupted};
    transfer_stop(own_, stop);
    own_.raw(task.thread->registers);
    own_.blob(task.thread->vector_state());
  }

  void write_commands(const std::vector<KeptCommand>& commands) {
    own_(static_cast<uint32_t>(commands.size()));
    for (const KeptCommand& each : commands) {
      own_(each.process);
      own_(each.input == nullptr ? 0u : to_.input(each.input));
      own_(each.output == nullptr ? 0u : to_.output(each.output));
      own_(each.errors == nullptr ? 0u : to_.output(each.errors));
      own_(to_.file(each.terminal));
    }
  }

  void write_system_v() {
    const bool is_there = kernel_.system_v != nullptr;
    own_(is_there);
    if (is_there) SystemVState::write(to_, *kernel_.system_v, own_);
  }

  // A futex is identified by a memory, or by the node or file that a shared mapping maps.
  void write_futexes() {
    uint32_t count = 0;
    StateWriter all;
    for (const auto& [key, tasks] : kernel_.futexes) {
      const uint32_t memory = known_memories_.find(static_cast<const Memory*>(key.memory)),
                     node = to_.nodes.find(static_cast<const Node*>(key.memory)),
                     file = to_.files.find(static_cast<const File*>(key.memory));
      if (memory == 0 && node == 0 && file == 0) continue;
      for (const uint32_t number : {memory, node, file}) all(number);
      all(key.offset);
      all(static_cast<uint32_t>(tasks.size()));
      for (const int task : tasks) all(task);
      ++count;
    }
    own_(count);
    own_.put(all.bytes());
  }

  void write_owner(StateWriter& state, const void* owner) {
    const uint32_t table = known_tables_.find(static_cast<const Descriptors*>(owner));
    state(table != 0 ? Owner::kDescriptors : Owner::kFile);
    state(table != 0 ? table : to_.files.find(static_cast<const File*>(owner)));
  }

  void write_locks() {
    uint32_t count = 0;
    StateWriter all;
    for (size_t i = 0; i < to_.nodes.all.size(); ++i) {
      const auto& locks = to_.nodes.all[i]->locks;
      if (locks == nullptr || locks->is_empty()) continue;
      all(static_cast<uint32_t>(i) + 1);
      all(static_cast<uint32_t>(locks->wholes_.size()));
      for (const auto& each : locks->wholes_) {
        write_owner(all, each.owner);
        all(each.is_exclusive);
      }
      all(static_cast<uint32_t>(locks->records_.size()));
      for (const RecordLock& each : locks->records_) {
        write_owner(all, each.owner);
        all(each.first);
        all(each.last);
        all(each.is_exclusive);
        all(each.process);
      }
      ++count;
    }
    own_(count);
    own_.put(all.bytes());
  }

  Kernel& kernel_;
  SandboxWriter to_;
  StateWriter own_;  // processes and references to them
  Section places_, tables_, memories_;
  Numbers<Place> known_places_;
  Numbers<Descriptors> known_tables_;
  Numbers<Memory> known_memories_;
};

void KernelState::write(Kernel& kernel, const std::vector<KeptCommand>& commands, StateWriter& state,
                        PageWriter& pages) {
  Writer(kernel, pages).write(commands, state);
}

// -- reading ----------------------------------------------------------------------------------------------------------

class KernelState::Reader {
 public:
  Reader(Kernel& kernel, StateReader& state, std::shared_ptr<const PageFile> file)
      : kernel_(kernel), state_(state), from_(kernel, state, std::move(file)) {}

  Status read(std::vector<NodeRef>& held, std::vector<KeptCommand>& commands) {
    kernel_.is_frozen_ = true;
    read_clock();
    if (state_.get<bool>()) kernel_.made_memory_files();
    if (!state_.is_good()) return damaged();
    for (Tree* const tree : other_trees_of(kernel_)) {
      if (tree == nullptr) return damaged();
      const Done read = TreeState::read(*tree, state_, from_.pages, held);
      if (!read && read.error() == ENOSPC) return too_much("files in memory");
      if (!read) return damaged();
    }
    MEMBRANE_TRY(read_ids());
    if (!from_.read()) return damaged();
    if (state_.get<bool>()) {
      if (kernel_.sockets == nullptr) kernel_.sockets = std::make_shared<SocketSpace>();
      FileState::read_names(from_);
    }
    read_places();
    read_tables();
    MEMBRANE_TRY(read_memories());
    for (const auto& [id, process] : kernel_.processes_) MEMBRANE_TRY(read_process(*process));
    if (!relate()) return damaged();
    read_commands(commands);
    read_system_v();
    read_futexes();
    read_locks();
    if (!state_.is_good() || !state_.is_at_end()) return damaged();
    run_timers();
    return {};
  }

 private:
  static std::unexpected<Error> too_much(const std::string& what) {
    return fail(ErrorCode::kExhausted, "the saved sandbox has more " + what + " than this one may have",
                "Raise its limits.");
  }

  void read_clock() {
    GuestClock::Time now;
    transfer_time(state_, now);
    const bool has_stream = state_.get<bool>();
    state_.require(now.time_since_epoch().count() >= 0 &&
                   has_stream == kernel_.options().clock->is_virtual());
    if (!state_.is_good()) return;
    kernel_.options().clock->go_on_from(now);
    if (has_stream) {
      RandomStream::Key key = {};
      state_.raw(key);
      kernel_.entropy().go_on_from(RandomStream(key, state_.get<uint64_t>()));
    }
    if (auto name = state_.get<std::string>(); !name.empty()) kernel_.host_name = std::move(name);
    state_(kernel_.domain_name);
    state_.require(kernel_.host_name.size() <= kMostHostNameBytes &&
                   kernel_.domain_name.size() <= kMostHostNameBytes);
    state_(kernel_.last_id_);
    state_(kernel_.preemptions_);
    state_(kernel_.memory_peak_bytes_);
    transfer_time(state_, kernel_.cpu_of_ended_tasks_);
    state_.require(kernel_.last_id_ >= 0 && kernel_.last_id_ <= kMostIds);
  }

  Status read_ids() {
    int last = 0;
    const size_t count = state_.count(4);
    if (count > static_cast<size_t>(kernel_.options().limits.most_tasks)) return too_much("processes");
    for (size_t left = count; left > 0; --left) {
      const auto id = state_.get<int>();
      state_.require(id > last && id <= kMostIds);
      if (!state_.is_good()) return damaged();
      kernel_.add_process(last = id, nullptr);
    }
    return {};
  }

  void read_places() {
    for (size_t left = state_.count(12); left > 0 && state_.is_good(); --left) {
      auto place = std::make_shared<Place>();
      place->root = from_.take_one(from_.locations);
      place->directory = from_.take_one(from_.locations);
      place->umask = state_.get<uint32_t>() & 0777;
      places_.push_back(std::move(place));
    }
  }

  void read_tables() {
    for (size_t left = state_.count(4); left > 0 && state_.is_good(); --left) {
      auto& table = tables_.emplace_back(std::make_shared<Descriptors>());
      for (size_t more = state_.count(9); more > 0 && state_.is_good(); --more) {
        const auto number = state_.get<uint32_t>();
        FileRef file = from_.take_one(from_.files);
        const bool closes = state_.get<bool>();
        state_.require(number < (1u << 20));
        if (state_.is_good())
          static_cast<void>(table->set(static_cast<int>(number), std::move(file), closes, RLIM_INFINITY));
      }
    }
  }

  // Each with the thread that will become its first task's.
  Status read_memories() {
    for (size_t left = state_.count(60); left > 0; --left) {
      if (!state_.is_good()) return damaged();
      auto thread = kernel_.platform().start();
      if (!thread) return no_room(thread.error());
      auto memory = std::make_shared<Memory>((*thread)->space(), kernel_.platform().lowest(),
                                             kernel_.platform().highest());
      if (!MemoryState::read(from_, *memory)) return damaged();
      memories_.push_back(std::move(memory));
      threads_.push_back({std::move(*thread), nullptr});
    }
    return {};
  }

  static std::unexpected<Error> no_room(int error) {
    return fail(ErrorCode::kUnavailable,
                std::string("the platform has no room for the saved sandbox: ") + std::strerror(error));
  }

  Status read_process(Process& process) {
    parents_.push_back(state_.get<int>());
    transfer_facts(state_, process);
    const auto memory = state_.get<uint32_t>();
    process.descriptors = from_.take(tables_);
    process.place = from_.take(places_);
    process.terminal = from_.take(from_.files);
    process.executable_at = from_.take(from_.locations);
    process.end = from_.take(from_.process_ends);
    state_.require(memory <= memories_.size() && process.group > 0 && process.group <= kMostIds &&
                   process.session > 0 && process.session <= kMostIds);
    if (!state_.is_good()) return damaged();
    for (size_t left = state_.count(kLeastTimerBytes, kMostTimers); left > 0 && state_.is_good(); --left) {
      const auto id = state_.get<int>();
      transfer_timer(state_, process.timers[id]);
    }
    for (size_t left = state_.count(10); left > 0 && state_.is_good(); --left) {
      const auto set = state_.get<int>();
      const auto semaphore = state_.get<uint16_t>();
      process.semaphore_undo[{set, semaphore}] = state_.get<int>();
    }
    const size_t tasks = state_.count(100);
    const bool is_alive = !process.is_zombie;
    if (!is_alive) ++kernel_.zombies_;
    state_.require(is_alive == (tasks > 0) && is_alive == (memory != 0) &&
                   is_alive == (process.descriptors != nullptr) && is_alive == (process.place != nullptr));
    if (is_alive && state_.is_good()) process.memory = memories_[memory - 1];
    for (size_t left = tasks; left > 0; --left) {
      if (!state_.is_good()) return damaged();
      MEMBRANE_TRY(read_task(process, memory - 1));
    }
    return {};
  }

  // A thread in the space of a memory.
  Try<std::unique_ptr<Thread>> take_thread(size_t memory) {
    auto& [first, lender] = threads_[memory];
    if (first != nullptr) {
      lender = first.get();
      return std::move(first);
    }
    return lender->clone_thread();
  }

  Status read_task(Process& process, size_t memory) {
    if (kernel_.tasks_ >= kernel_.options().limits.most_tasks) return too_much("tasks");
    const auto id = state_.get<int>();
    const auto what = state_.get<TaskIs>();
    state_.require(id > 0 && id <= kMostIds && kernel_.task_of(id) == nullptr && what >= TaskIs::kWaiting &&
                   what <= TaskIs::kParked);
    if (!state_.is_good()) return damaged();
    auto thread = take_thread(memory);
    if (!thread) return no_room(thread.error());
    Task& task = kernel_.add_task(process, id, std::move(*thread));
    transfer_facts(state_, task);
    task.waiting.file = from_.take(from_.files);
    transfer_time(state_, task.used_before);
    transfer_stop(state_, task.thread->stop);
    state_.raw(task.thread->registers);
    std::vector<std::byte> vectors;
    state_.blob(vectors, kMostVectorState);
    const Stop& stop = task.thread->stop;
    state_.require(stop.kind != StopKind::kException || (stop.signal >= 1 && stop.signal <= 64));
    state_.require(task.is_parked == (what == TaskIs::kParked) && task.thread->stop.kind <= StopKind::kGone &&
                   task.name.size() < 16 && (what != TaskIs::kWaiting || task.waiting.is_again));
    if (!state_.is_good()) return damaged();
    if (!task.thread->set_vector_state(vectors)) return damaged();
    task.is_held = what == TaskIs::kHeld;
    if (what != TaskIs::kWaiting) return {};
    task.state = TaskState::kWaiting;
    kernel_.make_ready(task);
    if (task.waiting.deadline) kernel_.arm_deadline(task);
    return {};
  }

  // Parents and children, and the clock of their programs.
  bool relate() {
    size_t at = 0;
    for (const auto& [id, process] : kernel_.processes_) {
      const int parent_id = parents_[at++];
      if (parent_id == 0) continue;
      Process* const parent = kernel_.process_of(parent_id);
      if (parent == nullptr || parent == process.get()) return false;
      process->parent = parent;
      parent->children.push_back(process.get());
    }
    // There are no cycles: every walk upwards ends.
    for (const auto& [id, process] : kernel_.processes_) {
      size_t steps = 0;
      for (const Process* up = process.get(); up != nullptr; up = up->parent)
        if (++steps > kernel_.processes_.size()) return false;
    }
    return renew_vdso();
  }

  bool renew_vdso() {
    if (kernel_.vdso == nullptr)
      kernel_.vdso = std::make_shared<Vdso>(
          kernel_.options().clock->is_virtual() ? 0 : kernel_.platform().clock_function(),
          kernel_.options().clock->ahead());
    return std::ranges::all_of(
        memories_, [this](const auto& memory) { return kernel_.vdso->renew(*memory).has_value(); });
  }

  void read_commands(std::vector<KeptCommand>& commands) {
    for (size_t left = state_.count(20); left > 0 && state_.is_good(); --left) {
      KeptCommand& each = commands.emplace_back();
      state_(each.process);
      each.input = from_.take(from_.inputs);
      each.output = from_.take(from_.outputs);
      each.errors = from_.take(from_.outputs);
      each.terminal = std::dynamic_pointer_cast<PtyMaster>(from_.take(from_.files));
      const bool has_streams = each.input != nullptr && each.output != nullptr && each.errors != nullptr;
      state_.require(kernel_.process_of(each.process) != nullptr &&
                     has_streams != (each.terminal != nullptr));
    }
  }

  void read_system_v() {
    if (!state_.get<bool>()) return;
    kernel_.system_v = std::make_shared<SystemV>();
    SystemVState::read(from_, *kernel_.system_v);
  }

  void read_futexes() {
    for (size_t left = state_.count(24); left > 0 && state_.is_good(); --left) {
      const auto memory = from_.take(memories_);
      const NodeRef node = from_.take(from_.nodes);
      const FileRef file = from_.take(from_.files);
      FutexKey key;
      state_(key.offset);
      if (memory != nullptr) key.memory = memory.get();
      else if (node != nullptr) key.memory = node.get();
      else key.memory = file.get();
      state_.require(key.memory != nullptr);
      for (size_t more = state_.count(4); more > 0 && state_.is_good(); --more) {
        const auto id = state_.get<int>();
        Task* const task = kernel_.task_of(id);
        state_.require(task != nullptr && task->state == TaskState::kWaiting && !task->futex);
        if (!state_.is_good()) return;
        task->futex = key;
        kernel_.futexes[key].push_back(id);
      }
    }
  }

  struct LockOwner {
    FileRef file;
    std::shared_ptr<Descriptors> table;
    [[nodiscard]] const void* pointer() const {
      return table != nullptr ? static_cast<const void*>(table.get()) : static_cast<const void*>(file.get());
    }
  };
  LockOwner read_owner() {
    const auto kind = state_.get<Owner>();
    LockOwner owner;
    if (kind == Owner::kDescriptors) owner.table = from_.take_one(tables_);
    else owner.file = from_.take_one(from_.files);
    return owner;
  }

  void read_locks() {
    for (size_t left = state_.count(12); left > 0 && state_.is_good(); --left) {
      const NodeRef node = from_.take_one(from_.nodes);
      if (node == nullptr) return;
      const auto locks = locks_of(*node);
      for (size_t more = state_.count(6); more > 0 && state_.is_good(); --more) {
        const LockOwner owner = read_owner();
        const bool is_exclusive = state_.get<bool>();
        state_.require(owner.file != nullptr);
        if (!state_.is_good()) return;
        state_.require(locks->lock_whole(owner.pointer(), is_exclusive).has_value());
        owner.file->whole_lock = hold_locks(locks, owner.pointer(), LockKind::kWhole);
      }
      for (size_t more = state_.count(26, FileLocks::kMostRecords); more > 0 && state_.is_good(); --more)
        read_record(node, locks);
    }
  }

  void read_record(const NodeRef& node, const std::shared_ptr<FileLocks>& locks) {
    const LockOwner owner = read_owner();
    RecordLock lock = {.owner = owner.pointer()};
    state_(lock.first);
    state_(lock.last);
    state_(lock.is_exclusive);
    state_(lock.process);
    state_.require(lock.first <= lock.last);
    if (!state_.is_good()) return;
    state_.require(locks->lock(lock).has_value());
    if (owner.table != nullptr) {
      if (!owner.table->has_locks(*node))
        owner.table->keep_locks(*node, hold_locks(locks, owner.pointer(), LockKind::kRecords));
    } else if (owner.file->record_locks == nullptr) {
      owner.file->record_locks = hold_locks(locks, owner.pointer(), LockKind::kRecords);
    }
  }

  void run_timers() {
    for (const auto& [id, process] : kernel_.processes_) {
      if (process->is_zombie) continue;
      rearm_interval_timers(kernel_, *process);
      rearm_posix_timers(kernel_, *process);
    }
  }

  Kernel& kernel_;
  StateReader& state_;
  SandboxReader from_;
  std::vector<std::shared_ptr<Place>> places_;
  std::vector<std::shared_ptr<Descriptors>> tables_;
  std::vector<std::shared_ptr<Memory>> memories_;
  struct Spare {
    std::unique_ptr<Thread> first;  // until a task takes it
    Thread* lender = nullptr;       // that task's
  };
  std::vector<Spare> threads_;  // of each memory
  std::vector<int> parents_;    // in the order of the processes
};

Status KernelState::read(Kernel& kernel, StateReader& state, const std::shared_ptr<const PageFile>& file,
                         std::vector<NodeRef>& held, std::vector<KeptCommand>& commands) {
  return Reader(kernel, state, file).read(held, commands);
}

}  // namespace membrane::linux
