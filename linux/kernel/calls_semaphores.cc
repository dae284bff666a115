// System V semaphores: semget, semop, semtimedop, semctl. SEM_UNDO adjustments belong to the process, shared
// by all its threads.
#include <sys/sem.h>

#include <algorithm>
#include <climits>

#include "linux/kernel/call.h"
#include "linux/kernel/kernel.h"
#include "linux/kernel/system_v.h"
#include "linux/kernel/waiting_calls.h"

namespace membrane::linux {
namespace {

using Sets = IpcTable<SemaphoreSet>;
using SetRef = std::shared_ptr<SemaphoreSet>;

constexpr int kMostValue = 32767;                            // SEMVMX
constexpr size_t kMostOfAll = 32000, kMostOperations = 500;  // SEMMNS and SEMMSL; SEMOPM
constexpr int kStatAny = 20;                                 // SEM_STAT_ANY
constexpr uint64_t kSemop = 65, kSemtimedop = 220;

size_t semaphores_of_all(const Sets& all) {
  size_t count = 0;
  for (const auto& [place, entry] : all.entries()) count += entry.object->semaphores.size();
  return count;
}

// -- operations

// The reason why a list of operations cannot be done now.
struct Obstacle {
  int error = 0;
  bool may_wait = false;
  SemaphoreSet::Waiting for_what = {};
};

class Operations {
 public:
  Operations(Call& call, SemaphoreSet& set, int id) : process_(call.process()), set_(set), id_(id) {}

  // Does all of them or none.
  Obstacle act(std::span<const sembuf> all) {
    for (size_t i = 0; i < all.size(); ++i) {
      const Obstacle found = act(all[i]);
      if (found.error == 0) continue;
      while (i > 0) take_back(all[--i]);
      return found;
    }
    for (const sembuf& each : all) set_.semaphores[each.sem_num].process = process_.id;
    return {};
  }

 private:
  Obstacle act(const sembuf& each) {
    int& value = set_.semaphores[each.sem_num].value;
    const bool is_for_zero = each.sem_op == 0;
    if (is_for_zero ? value != 0 : value + each.sem_op < 0)
      return {EAGAIN, (each.sem_flg & IPC_NOWAIT) == 0, {each.sem_num, is_for_zero}};
    if (value + each.sem_op > kMostValue) return {ERANGE};
    if ((each.sem_flg & SEM_UNDO) != 0 && !is_for_zero) {
      int& undo = process_.semaphore_undo[{id_, each.sem_num}];
      if (undo - each.sem_op < -kMostValue - 1 || undo - each.sem_op > kMostValue) return {ERANGE};
      undo -= each.sem_op;
    }
    value += each.sem_op;
    return {};
  }
  void take_back(const sembuf& each) {
    set_.semaphores[each.sem_num].value -= each.sem_op;
    if ((each.sem_flg & SEM_UNDO) != 0 && each.sem_op != 0)
      process_.semaphore_undo[{id_, each.sem_num}] += each.sem_op;
  }

  Process& process_;
  SemaphoreSet& set_;
  const int id_;
};

Try<std::vector<sembuf>> operations_at(Call& call, uint64_t address, uint64_t count) {
  if (count == 0) return err(EINVAL);
  if (count > kMostOperations) return err(E2BIG);
  std::vector<sembuf> all(count);
  MEMBRANE_TRY(call.task.read_memory(address, std::as_writable_bytes(std::span(all))));
  return all;
}

bool changes_something(std::span<const sembuf> all) {
  return std::ranges::any_of(all, [](const sembuf& each) { return each.sem_op != 0; });
}

// Never restarted after a signal, as semop(2) says.
int64_t operate(Call& call, const TimeLimit& limit) {
  const int id = call.int_arg(0);
  CALL_ASSIGN(const std::vector<sembuf> all,
              operations_at(call, call.arg(1), static_cast<uint32_t>(call.arg(2))));
  const SetRef set = system_v(call).semaphores.find(id);
  if (set == nullptr) return call.is_again() ? -EIDRM : -EINVAL;
  set->waiting.erase(call.task.id);
  for (const sembuf& each : all)
    if (each.sem_num >= set->semaphores.size()) return -EFBIG;
  CALL_TRY(may_use(call, set->owner, changes_something(all) ? 2 : 4));
  const Obstacle found = Operations(call, *set, id).act(all);
  if (found.error == 0) {
    set->operated_at = ipc_time(call);
    if (changes_something(all)) set->changed.wake();
    return 0;
  }
  if (!found.may_wait || limit.is_zero || call.is_late()) return -found.error;
  set->waiting[call.task.id] = found.for_what;
  call.join(set->changed);
  return wait_within(call, limit);
}

// -- control

bool still_waits(const Call& call, int task_id, int set_id) {
  const Task* const task = call.kernel.task_of(task_id);
  return task != nullptr && task->state == TaskState::kWaiting &&
         (task->call_number == kSemop || task->call_number == kSemtimedop) &&
         static_cast<int>(task->arguments[0]) == set_id;
}

int64_t count_waiting(const Call& call, const SemaphoreSet& set, int id, bool is_for_zero) {
  return std::ranges::count_if(set.waiting, [&](const auto& each) {
    return each.second.semaphore == call.int_arg(1) && each.second.is_for_zero == is_for_zero &&
           still_waits(call, each.first, id);
  });
}

// Setting a value discards its undo adjustments.
void forget_undone(Kernel& kernel, int id, int semaphore) {
  for (const auto& [process_id, process] : kernel.processes())
    std::erase_if(process->semaphore_undo, [&](const auto& each) {
      return each.first.first == id && (semaphore < 0 || each.first.second == semaphore);
    });
}

semid_ds shown(const SemaphoreSet& set, int id) {
  semid_ds status = {};
  status.sem_perm = reported_owner(set.owner, id);
  status.sem_otime = set.operated_at;
  status.sem_ctime = set.changed_at;
  status.sem_nsems = set.semaphores.size();
  return status;
}

int64_t set_values(Call& call, SemaphoreSet& set, int id, std::span<const int> values, int first) {
  CALL_TRY(may_use(call, set.owner, 2));
  for (const int value : values)
    if (value < 0 || value > kMostValue) return -ERANGE;
  for (size_t i = 0; i < values.size(); ++i)
    set.semaphores[static_cast<size_t>(first) + i] = {values[i], call.process().id};
  forget_undone(call.kernel, id, values.size() == 1 ? first : -1);
  set.changed_at = ipc_time(call);
  set.changed.wake();
  return 0;
}

int64_t get_all(Call& call, const SemaphoreSet& set) {
  CALL_TRY(may_use(call, set.owner, 4));
  std::vector<uint16_t> values;
  for (const auto& each : set.semaphores) values.push_back(static_cast<uint16_t>(each.value));
  return answer(call.task.write_memory(call.arg(3), std::as_bytes(std::span(values))));
}

int64_t set_all(Call& call, SemaphoreSet& set, int id) {
  std::vector<uint16_t> shown(set.semaphores.size());
  CALL_TRY(call.task.read_memory(call.arg(3), std::as_writable_bytes(std::span(shown))));
  forget_undone(call.kernel, id, -1);
  return set_values(call, set, id, std::vector<int>(shown.begin(), shown.end()), 0);
}

int64_t change(Call& call, SemaphoreSet& set) {
  CALL_ASSIGN(const auto wanted, call.get<semid_ds>(call.arg(3)));
  CALL_TRY(may_control(call, set.owner));
  take_owner(set.owner, wanted.sem_perm);
  set.changed_at = ipc_time(call);
  return 0;
}

int64_t tell_limits(Call& call, const Sets& all, bool is_usage) {
  seminfo info = {};
  info.semmni = Sets::kMost;
  info.semmns = info.semmsl = info.semmap = info.semmnu = static_cast<int>(kMostOfAll);
  info.semopm = info.semume = static_cast<int>(kMostOperations);
  info.semvmx = kMostValue;
  info.semusz = is_usage ? static_cast<int>(all.entries().size()) : 20;
  info.semaem = is_usage ? static_cast<int>(semaphores_of_all(all)) : kMostValue;
  CALL_TRY(call.put(call.arg(3), info));
  return all.last_place();
}

// GETVAL and the like, for one semaphore.
int64_t control_one(Call& call, SemaphoreSet& set, int id, int command) {
  const int which = call.int_arg(1);
  if (which < 0 || static_cast<size_t>(which) >= set.semaphores.size()) return -EINVAL;
  if (command == SETVAL) return set_values(call, set, id, std::array{call.int_arg(3)}, which);
  CALL_TRY(may_use(call, set.owner, 4));
  const SemaphoreSet::Semaphore& one = set.semaphores[static_cast<size_t>(which)];
  switch (command) {
    case GETVAL: return one.value;
    case GETPID: return one.process;
    default: return count_waiting(call, set, id, command == GETZCNT);
  }
}

}  // namespace

void undo_semaphores(Kernel& kernel, Process& process) {
  const auto all = std::exchange(process.semaphore_undo, {});
  if (kernel.system_v == nullptr) return;
  for (const auto& [where, change] : all) {
    const SetRef set = kernel.system_v->semaphores.find(where.first);
    if (set == nullptr || change == 0 || where.second >= set->semaphores.size()) continue;
    SemaphoreSet::Semaphore& one = set->semaphores[where.second];
    one = {std::clamp(one.value + change, 0, kMostValue), process.id};
    set->changed.wake();
  }
}

int64_t sys_semget(Call& call) {
  const int count = call.int_arg(1);
  if (count < 0 || static_cast<size_t>(count) > kMostOfAll) return -EINVAL;
  Sets& all = system_v(call).semaphores;
  const auto has_enough = [count](const SemaphoreSet& found) -> Done {
    if (found.semaphores.size() < static_cast<size_t>(count)) return err(EINVAL);
    return {};
  };
  const auto make = [&]() -> Try<SetRef> {
    if (count == 0) return err(EINVAL);
    if (semaphores_of_all(all) + static_cast<size_t>(count) > kMostOfAll) return err(ENOSPC);
    auto made = std::make_shared<SemaphoreSet>();
    made->semaphores.resize(static_cast<size_t>(count));
    return made;
  };
  return answer(get_object<SemaphoreSet>(call, all, call.int_arg(0), call.int_arg(2), has_enough, make));
}

int64_t sys_semop(Call& call) { return operate(call, {}); }

int64_t sys_semtimedop(Call& call) {
  CALL_ASSIGN(const TimeLimit limit, limit_at(call, call.arg(3)));
  return operate(call, limit);
}

int64_t sys_semctl(Call& call) {
  const int command = call.int_arg(2);
  Sets& all = system_v(call).semaphores;
  if (command == IPC_INFO || command == SEM_INFO) return tell_limits(call, all, command == SEM_INFO);
  const bool is_place = command == SEM_STAT || command == kStatAny;
  const int id = is_place ? all.id_at(call.int_arg(0)) : call.int_arg(0);
  const SetRef set = all.find(id);
  if (set == nullptr) return -EINVAL;
  switch (command) {
    case IPC_STAT:
    case SEM_STAT: CALL_TRY(may_use(call, set->owner, 4)); [[fallthrough]];
    case kStatAny: CALL_TRY(call.put(call.arg(3), shown(*set, id))); return is_place ? id : 0;
    case IPC_SET: return change(call, *set);
    case IPC_RMID:
      CALL_TRY(may_control(call, set->owner));
      all.remove(id);
      forget_undone(call.kernel, id, -1);  // ids come again
      set->changed.wake();
      return 0;
    case GETALL: return get_all(call, *set);
    case SETALL: return set_all(call, *set, id);
    case GETVAL:
    case GETPID:
    case GETNCNT:
    case GETZCNT:
    case SETVAL: return control_one(call, *set, id, command);
    default: return -EINVAL;
  }
}

}  // namespace membrane::linux
