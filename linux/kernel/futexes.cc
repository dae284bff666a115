#include "linux/kernel/futexes.h"

#include <linux/futex.h>

#include <algorithm>
#include <map>

#include "linux/kernel/call.h"
#include "linux/kernel/exec.h"
#include "linux/kernel/kernel.h"
#include "linux/kernel/memory.h"
#include "linux/kernel/waiting_calls.h"

namespace membrane::linux {

namespace {

constexpr int kMostRobust = 2048;  // entries of a list that are looked at, as in Linux

// The key is the same in every memory that sees the word.
FutexKey key_of(const Task& task, uint64_t address) {
  const auto& areas = task.process->memory->areas();
  const auto after = areas.upper_bound(address);
  if (after != areas.begin()) {
    const auto& [start, area] = *std::prev(after);
    if (area.is_shared && area.end > address && area.file != nullptr) {
      const void* const behind = area.file->node() != nullptr
                                     ? static_cast<const void*>(area.file->node().get())
                                     : static_cast<const void*>(area.file.get());
      return {behind, area.offset + (address - start)};
    }
  }
  return {task.process->memory.get(), address};
}

std::map<FutexKey, std::deque<int>>& waiters_of(Kernel& kernel) { return kernel.futexes; }

void stop_waiting(Kernel& kernel, Task& task) {
  if (!task.futex) return;
  auto& all = waiters_of(kernel);
  const auto found = all.find(*task.futex);
  if (found != all.end()) {
    std::erase(found->second, task.id);
    if (found->second.empty()) all.erase(found);
  }
  task.futex.reset();
}

int wake(Kernel& kernel, const FutexKey& key, int most, uint32_t bits) {
  auto& all = waiters_of(kernel);
  const auto found = all.find(key);
  if (found == all.end()) return 0;
  int woken = 0;
  auto& waiting = found->second;
  for (auto each = waiting.begin(); each != waiting.end() && woken < most;) {
    Task* const task = kernel.task_of(*each);
    if (task != nullptr && (task->futex_bits & bits) == 0) {
      ++each;
      continue;
    }
    each = waiting.erase(each);
    if (task == nullptr) continue;
    task->futex.reset();
    task->is_futex_woken = true;
    kernel.make_ready(*task);
    ++woken;
  }
  if (waiting.empty()) all.erase(found);
  return woken;
}

int requeue(Kernel& kernel, const FutexKey& from, const FutexKey& to, int most) {
  auto& all = waiters_of(kernel);
  const auto found = all.find(from);
  if (found == all.end() || from == to) return 0;
  int moved = 0;
  while (!found->second.empty() && moved < most) {
    const int id = found->second.front();
    found->second.pop_front();
    Task* const task = kernel.task_of(id);
    if (task == nullptr) continue;
    task->futex = to;
    all[to].push_back(id);
    ++moved;
  }
  if (found->second.empty()) all.erase(from);
  return moved;
}

int64_t wait(Call& call, uint32_t expected, uint32_t bits, bool is_absolute, int clock) {
  Task& task = call.task;
  if (call.is_again()) {
    if (std::exchange(task.is_futex_woken, false)) return 0;
    if (call.is_late()) {
      stop_waiting(call.kernel, task);
      return -ETIMEDOUT;
    }
    return call.wait();
  }
  if (bits == 0 || call.arg(0) % 4 != 0) return -EINVAL;
  stop_waiting(call.kernel, task);
  task.is_futex_woken = false;
  CALL_ASSIGN(const uint32_t value, call.get<uint32_t>(call.arg(0)));
  if (value != expected) return -EAGAIN;
  std::optional<std::chrono::steady_clock::time_point> deadline;
  if (call.arg(3) != 0) {
    CALL_ASSIGN(const timespec time, call.get<timespec>(call.arg(3)));
    CALL_ASSIGN(deadline, deadline_of(call.kernel, time, is_absolute, clock));
  }
  const FutexKey key = key_of(task, call.arg(0));
  task.futex = key;
  task.futex_bits = bits;
  waiters_of(call.kernel)[key].push_back(task.id);
  return deadline ? call.wait_until(*deadline, OnSignal::kRestart) : call.wait();
}

// FUTEX_WAKE_OP's change of the second word.
Try<bool> change_and_compare(Call& call) {
  const uint32_t what = static_cast<uint32_t>(call.arg(5));
  const int operation = what >> 28 & 7, comparison = what >> 24 & 15;
  int32_t operand = static_cast<int32_t>(what << 8) >> 20;
  const int32_t other = static_cast<int32_t>(what << 20) >> 20;
  if ((what >> 28 & FUTEX_OP_OPARG_SHIFT) != 0) operand = 1 << (operand & 31);
  MEMBRANE_ASSIGN(const int32_t old, call.get<int32_t>(call.arg(4)));
  int32_t made = 0;
  switch (operation) {
    case FUTEX_OP_SET: made = operand; break;
    case FUTEX_OP_ADD:
      made = static_cast<int32_t>(static_cast<uint32_t>(old) + static_cast<uint32_t>(operand));
      break;
    case FUTEX_OP_OR: made = old | operand; break;
    case FUTEX_OP_ANDN: made = old & ~operand; break;
    case FUTEX_OP_XOR: made = old ^ operand; break;
    default: return err(ENOSYS);
  }
  MEMBRANE_TRY(call.put(call.arg(4), made));
  switch (comparison) {
    case FUTEX_OP_CMP_EQ: return old == other;
    case FUTEX_OP_CMP_NE: return old != other;
    case FUTEX_OP_CMP_LT: return old < other;
    case FUTEX_OP_CMP_LE: return old <= other;
    case FUTEX_OP_CMP_GT: return old > other;
    case FUTEX_OP_CMP_GE: return old >= other;
    default: return err(ENOSYS);
  }
}

// Marks the lock of an ended thread and wakes a waiter.
void let_go(Task& task, uint64_t address) {
  const auto value = task.get<uint32_t>(address);
  if (!value || (*value & FUTEX_TID_MASK) != static_cast<uint32_t>(task.id)) return;
  if (!task.put(address, (*value & FUTEX_WAITERS) | FUTEX_OWNER_DIED)) return;
  if ((*value & FUTEX_WAITERS) != 0) wake_futex(task, address, 1);
}

void let_go_of_all(Task& task) {
  const auto head = task.get<robust_list_head>(task.robust_list);
  if (!head) return;
  const uint64_t begin = task.robust_list;
  uint64_t entry = reinterpret_cast<uint64_t>(head->list.next);
  const uint64_t offset = static_cast<uint64_t>(head->futex_offset);
  for (int i = 0; i < kMostRobust && (entry & ~uint64_t{1}) != begin; ++i) {
    const auto next = task.get<uint64_t>(entry & ~uint64_t{1});
    let_go(task, (entry & ~uint64_t{1}) + offset);
    if (!next) break;
    entry = *next;
  }
  const uint64_t pending = reinterpret_cast<uint64_t>(head->list_op_pending) & ~uint64_t{1};
  if (pending != 0) let_go(task, pending + offset);
}

}  // namespace

int wake_futex(Task& in, uint64_t address, int most, uint32_t bits) {
  return wake(*in.kernel, key_of(in, address), most, bits);
}

void leave_threads(Task& task) {
  stop_waiting(*task.kernel, task);
  if (task.thread == nullptr || task.process->memory == nullptr) return;
  if (task.thread->stop.kind == StopKind::kGone) return;
  if (task.robust_list != 0) let_go_of_all(task);
  if (task.clear_child_tid != 0 && task.process->memory.use_count() + task.process->tasks.size() > 2) {
    static_cast<void>(task.put(task.clear_child_tid, uint32_t{0}));
    wake_futex(task, task.clear_child_tid, 1);
  }
  task.clear_child_tid = task.robust_list = 0;
}

// Locks with priority inheritance are refused.
int64_t sys_futex(Call& call) {
  const int operation = call.int_arg(1);
  const int clock = (operation & FUTEX_CLOCK_REALTIME) != 0 ? CLOCK_REALTIME : CLOCK_MONOTONIC;
  const auto value = static_cast<uint32_t>(call.arg(2));
  const int most = static_cast<int>(std::min<uint32_t>(value, INT32_MAX));
  const int most_moved = static_cast<int>(std::min<uint64_t>(static_cast<uint32_t>(call.arg(3)), INT32_MAX));
  Task& task = call.task;
  switch (operation & FUTEX_CMD_MASK) {
    case FUTEX_WAIT: return wait(call, value, UINT32_MAX, false, clock);
    case FUTEX_WAIT_BITSET: return wait(call, value, static_cast<uint32_t>(call.arg(5)), true, clock);
    case FUTEX_WAKE: return wake_futex(task, call.arg(0), most);
    case FUTEX_WAKE_BITSET: return wake_futex(task, call.arg(0), most, static_cast<uint32_t>(call.arg(5)));
    case FUTEX_CMP_REQUEUE: {
      CALL_ASSIGN(const uint32_t now, call.get<uint32_t>(call.arg(0)));
      if (now != static_cast<uint32_t>(call.arg(5))) return -EAGAIN;
      [[fallthrough]];
    }
    case FUTEX_REQUEUE: {
      const int woken = wake_futex(task, call.arg(0), most);
      return woken + requeue(call.kernel, key_of(task, call.arg(0)), key_of(task, call.arg(4)), most_moved);
    }
    case FUTEX_WAKE_OP: {
      CALL_ASSIGN(const bool wakes_both, change_and_compare(call));
      const int woken = wake_futex(task, call.arg(0), most);
      return woken + (wakes_both ? wake_futex(task, call.arg(4), most_moved) : 0);
    }
    default: return -ENOSYS;
  }
}

}  // namespace membrane::linux
