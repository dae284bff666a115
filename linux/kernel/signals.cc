#include "linux/kernel/signals.h"

#include <sys/wait.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "linux/kernel/call.h"
#include "linux/kernel/kernel.h"
#include "linux/kernel/timers.h"

namespace membrane::linux {

namespace {

constexpr SignalSet kStops = bit_of(SIGSTOP) | bit_of(SIGTSTP) | bit_of(SIGTTIN) | bit_of(SIGTTOU);
constexpr SignalSet kIgnoredByDefault = bit_of(SIGCHLD) | bit_of(SIGURG) | bit_of(SIGWINCH) | bit_of(SIGCONT);
constexpr SignalSet kDumps = bit_of(SIGQUIT) | bit_of(SIGILL) | bit_of(SIGTRAP) | bit_of(SIGABRT) |
                             bit_of(SIGBUS) | bit_of(SIGFPE) | bit_of(SIGSEGV) | bit_of(SIGXCPU) |
                             bit_of(SIGXFSZ) | bit_of(SIGSYS);
// Signals of the task's own faults are taken before others.
constexpr SignalSet kFirst =
    bit_of(SIGSEGV) | bit_of(SIGBUS) | bit_of(SIGILL) | bit_of(SIGTRAP) | bit_of(SIGFPE) | bit_of(SIGSYS);

constexpr uint64_t kIgnore = 1, kDefault = 0;
constexpr uint64_t kRestorer = 0x04000000;  // SA_RESTORER
constexpr uint64_t kUserFlags = 0x240dd5;   // bits of rflags that user code may change

// The frame, as in the kernel's ABI.
struct Context {
  uint64_t r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, rflags;
  uint16_t cs, gs, fs, ss;
  uint64_t error, trap, old_mask, cr2, vector_state, reserved[8];
};
struct Frame {
  uint64_t return_address;
  uint64_t flags, link;
  uint64_t stack_base;
  int32_t stack_flags, padding;
  uint64_t stack_size;
  Context context;
  SignalSet mask;
  siginfo_t info;
};
static_assert(sizeof(Context) == 256);

constexpr size_t kSizeOfXstate = 464 + 16, kMagicOfXstate = 464, kMostXstate = 16384;
constexpr uint32_t kMagic = 0x46505853;

// Makes a waiting or running task check its signals.
void prod(Kernel& kernel, Task& task) {
  if (&task == kernel.current() || task.state == TaskState::kDead) return;
  if (task.state == TaskState::kWaiting) kernel.make_ready(task);
  else if (!task.is_parked && !task.is_queued) task.thread->interrupt();
}

enum class Added { kYes, kWasThere, kFull };

// Below SIGRTMIN one signal of a number is queued. Of the others RLIMIT_SIGPENDING limits how many: kill()
// succeeds even then, and sigqueue() fails rather than lose a signal silently.
Added add(PendingSignals& to, const PendingSignal& signal, const Process& process) {
  const bool is_real_time = signal.number >= SIGRTMIN;
  const uint64_t most = std::min(process.limits[RLIMIT_SIGPENDING].rlim_cur, kMostPendingSignals);
  const bool is_full = to.queue.size() >= most;
  if (is_real_time && is_full && signal.info.si_code != SI_USER) return Added::kFull;
  if ((!is_real_time || is_full) && (to.set() & bit_of(signal.number)) != 0) return Added::kWasThere;
  to.queue.push_back(signal);
  return Added::kYes;
}

void remove(PendingSignals& from, SignalSet set) {
  std::erase_if(from.queue, [set](const PendingSignal& each) { return (set & bit_of(each.number)) != 0; });
}

void remove_everywhere(Process& process, SignalSet set) {
  remove(process.pending, set);
  for (const auto& task : process.tasks) remove(task->pending, set);
}

// The effect of a signal when it is sent, whatever happens to it then.
void act_at_once(Kernel& kernel, Process& process, int number) {
  if (number == SIGCONT) {
    remove_everywhere(process, kStops);
    if (process.is_stopped) kernel.continue_process(process);
  } else if ((kStops & bit_of(number)) != 0) {
    remove_everywhere(process, bit_of(SIGCONT));
  }
}

bool is_wanted_by(const Task& task, int number) {
  return task.state != TaskState::kDead && (task.blocked & bit_of(number)) == 0;
}

std::optional<PendingSignal> take(PendingSignals& from, SignalSet wanted) {
  const auto found = std::ranges::find_if(
      from.queue, [wanted](const PendingSignal& each) { return (wanted & bit_of(each.number)) != 0; });
  if (found == from.queue.end()) return std::nullopt;
  PendingSignal signal = *found;
  from.queue.erase(found);
  return signal;
}

void fill(Context& context, const Registers& r, const Stop& stop) {
  context = {.r8 = r.r8,
             .r9 = r.r9,
             .r10 = r.r10,
             .r11 = r.r11,
             .r12 = r.r12,
             .r13 = r.r13,
             .r14 = r.r14,
             .r15 = r.r15,
             .rdi = r.rdi,
             .rsi = r.rsi,
             .rbp = r.rbp,
             .rbx = r.rbx,
             .rdx = r.rdx,
             .rax = r.rax,
             .rcx = r.rcx,
             .rsp = r.rsp,
             .rip = r.rip,
             .rflags = r.rflags,
             .cs = 0x33,
             .gs = 0,
             .fs = 0,
             .ss = 0x2b,
             .error = stop.error_code,
             .trap = static_cast<uint64_t>(stop.trap_number),
             .old_mask = 0,
             .cr2 = stop.address,
             .vector_state = 0,
             .reserved = {}};
}

void put_back(Registers& r, const Context& c) {
  const uint64_t fs = r.fs_base, gs = r.gs_base;
  r = {.r15 = c.r15,
       .r14 = c.r14,
       .r13 = c.r13,
       .r12 = c.r12,
       .rbp = c.rbp,
       .rbx = c.rbx,
       .r11 = c.r11,
       .r10 = c.r10,
       .r9 = c.r9,
       .r8 = c.r8,
       .rax = c.rax,
       .rcx = c.rcx,
       .rdx = c.rdx,
       .rsi = c.rsi,
       .rdi = c.rdi,
       .rip = c.rip,
       .rflags = (c.rflags & kUserFlags) | 0x202,
       .rsp = c.rsp,
       .fs_base = fs,
       .gs_base = gs};
}

// Puts the handler's frame on the guest's stack. Errors: EFAULT when it does not fit.
Done call_handler(Task& task, const SignalAction& action, const PendingSignal& signal) {
  Registers& r = task.thread->registers;
  uint64_t sp = r.rsp - 128;  // the red zone
  if ((action.flags & SA_ONSTACK) != 0 && (task.signal_stack.flags & SS_DISABLE) == 0 &&
      !is_on(task.signal_stack, r.rsp))
    sp = task.signal_stack.base + task.signal_stack.size;
  const std::vector<std::byte> vectors = task.thread->vector_state();
  sp = (sp - vectors.size()) & ~uint64_t{63};
  const uint64_t vectors_at = sp;
  sp = ((sp - sizeof(Frame)) & ~uint64_t{15}) - 8;

  Frame frame = {};
  frame.return_address = action.restorer;
  frame.flags = vectors.empty() ? 6 : 7;  // UC_FP_XSTATE, UC_SIGCONTEXT_SS, UC_STRICT_RESTORE_SS
  frame.stack_base = task.signal_stack.base;
  frame.stack_size = task.signal_stack.size;
  frame.stack_flags = is_on(task.signal_stack, r.rsp) ? SS_ONSTACK : task.signal_stack.flags;
  fill(frame.context, r, task.thread->stop);
  frame.context.vector_state = vectors.empty() ? 0 : vectors_at;
  frame.mask = task.waiting.has_saved_mask ? task.waiting.saved_mask : task.blocked;
  frame.info = signal.info;
  if ((action.flags & kRestorer) == 0) return err(EFAULT);
  MEMBRANE_TRY(task.write_memory(vectors_at, vectors));
  MEMBRANE_TRY(task.put(sp, frame));

  task.waiting.has_saved_mask = false;
  task.blocked |= action.mask & ~kUnblockable;
  if ((action.flags & SA_NODEFER) == 0) task.blocked |= bit_of(signal.number) & ~kUnblockable;
  if ((task.signal_stack.flags & (1 << 31)) != 0) task.signal_stack = {};  // SS_AUTODISARM
  r.rdi = static_cast<uint64_t>(signal.number);
  r.rsi = sp + offsetof(Frame, info);
  r.rdx = sp + offsetof(Frame, flags);
  r.rax = 0;
  r.rsp = sp;
  r.rip = action.handler;
  r.rflags &= ~uint64_t{0x500};  // direction and trap flags
  return {};
}

}  // namespace

bool is_on(const SignalStack& stack, uint64_t sp) {
  return (stack.flags & SS_DISABLE) == 0 && sp > stack.base && sp - stack.base <= stack.size;
}

ChildNews news_of(int status) {
  if (WIFEXITED(status)) return {CLD_EXITED, WEXITSTATUS(status)};
  if (WIFSTOPPED(status)) return {CLD_STOPPED, WSTOPSIG(status)};
  if (WIFCONTINUED(status)) return {CLD_CONTINUED, SIGCONT};
  return {WCOREDUMP(status) ? CLD_DUMPED : CLD_KILLED, WTERMSIG(status)};
}

void set_mask_during_call(Task& task, SignalSet mask) {
  Waiting& waiting = task.waiting;
  if (!waiting.has_saved_mask) waiting.saved_mask = task.blocked;
  waiting.has_saved_mask = true;
  task.blocked = mask & ~kUnblockable;
}

SignalSet PendingSignals::set() const {
  SignalSet all = 0;
  for (const PendingSignal& each : queue) all |= bit_of(each.number);
  return all;
}

PendingSignal signal_from(int number, int code, const Process* from) {
  PendingSignal signal = {.number = number, .info = {}};
  signal.info.si_signo = number;
  signal.info.si_code = code;
  if (from != nullptr) {
    signal.info.si_pid = from->id;
    signal.info.si_uid = from->credentials.uid;
  }
  return signal;
}

bool is_ignored(const Process& process, int number) {
  const uint64_t handler = process.actions[number].handler;
  return handler == kIgnore || (handler == kDefault && (kIgnoredByDefault & bit_of(number)) != 0);
}

bool send_signal(Kernel& kernel, Process& to, const PendingSignal& signal) {
  if (to.is_zombie || to.tasks.empty() || signal.number < 1 || signal.number > 64) return true;
  if (signal.number == SIGKILL) {
    kernel.end_process(to, SIGKILL);
    return true;
  }
  act_at_once(kernel, to, signal.number);
  const auto taker =
      std::ranges::find_if(to.tasks, [&](const auto& task) { return is_wanted_by(*task, signal.number); });
  if (taker != to.tasks.end() && is_ignored(to, signal.number)) return true;
  const Added added = add(to.pending, signal, to);
  if (added != Added::kYes) return added == Added::kWasThere;
  for (const auto& task : to.tasks) task->signal_queue.wake();
  if (taker != to.tasks.end()) prod(kernel, **taker);
  return true;
}

bool send_signal_to_task(Kernel& kernel, Task& to, const PendingSignal& signal) {
  if (to.state == TaskState::kDead || signal.number < 1 || signal.number > 64) return true;
  if (signal.number == SIGKILL) {
    kernel.end_process(*to.process, SIGKILL);
    return true;
  }
  act_at_once(kernel, *to.process, signal.number);
  if (is_wanted_by(to, signal.number) && is_ignored(*to.process, signal.number)) return true;
  const Added added = add(to.pending, signal, *to.process);
  if (added != Added::kYes) return added == Added::kWasThere;
  to.signal_queue.wake();
  if (is_wanted_by(to, signal.number)) prod(kernel, to);
  return true;
}

void force_signal(Kernel& kernel, Task& to, const PendingSignal& signal) {
  SignalAction& action = to.process->actions[signal.number];
  if (action.handler == kIgnore || (to.blocked & bit_of(signal.number)) != 0) action = {};
  to.blocked &= ~bit_of(signal.number);
  if (signal.number == SIGKILL) return kernel.end_process(*to.process, SIGKILL);
  to.pending.queue.push_front(signal);
}

bool has_signal(const Task& task) {
  const SignalSet there = (task.pending.set() | task.process->pending.set()) & ~task.blocked;
  for (int number = 1; there != 0 && number <= 64; ++number)
    if ((there & bit_of(number)) != 0 && !is_ignored(*task.process, number)) return true;
  return false;
}

std::optional<PendingSignal> take_signal(Task& task, SignalSet wanted) {
  auto signal = take(task.pending, wanted & kFirst);
  if (!signal) signal = take(task.pending, wanted);
  if (!signal) signal = take(task.process->pending, wanted);
  if (signal && signal->info.si_code == SI_TIMER)
    note_timer_signal(*task.kernel, *task.process, signal->info);
  return signal;
}

bool deliver_signals(Kernel& kernel, Task& task) {
  Process& process = *task.process;
  for (;;) {
    const auto signal = take_signal(task, ~task.blocked);
    if (!signal && !task.waiting.has_saved_mask) return task.state != TaskState::kDead;
    if (!signal) {  // the mask of sigsuspend() and the like ends with the call
      task.blocked = task.waiting.saved_mask;
      task.waiting.has_saved_mask = false;
      continue;
    }
    const int number = signal->number;
    const SignalAction action = process.actions[number];
    if (action.handler == kIgnore) continue;
    if (action.handler != kDefault) {
      if ((action.flags & SA_RESETHAND) != 0) process.actions[number] = {};
      if (call_handler(task, action, *signal)) continue;
      kernel.end_process(process, SIGSEGV | 0x80);
      return false;
    }
    if ((kIgnoredByDefault & bit_of(number)) != 0) continue;
    if ((kStops & bit_of(number)) != 0) {
      if (number != SIGSTOP && task.is_orphaned()) continue;
      kernel.stop_process(process, number);
      continue;
    }
    kernel.end_process(process, number | ((kDumps & bit_of(number)) != 0 ? 0x80 : 0));
    return false;
  }
}

Done return_from_signal(Task& task) {
  Registers& r = task.thread->registers;
  MEMBRANE_ASSIGN(const Frame frame, task.get<Frame>(r.rsp - 8));
  std::vector<std::byte> vectors;
  if (frame.context.vector_state != 0) {
    std::array<std::byte, 512> legacy;
    MEMBRANE_TRY(task.read_memory(frame.context.vector_state, legacy));
    uint32_t magic = 0, size = 512;
    std::memcpy(&magic, &legacy[kMagicOfXstate], sizeof magic);
    if (magic == kMagic) std::memcpy(&size, &legacy[kSizeOfXstate], sizeof size);
    if (size < 512 || size > kMostXstate) return err(EFAULT);
    vectors.resize(magic == kMagic ? size + 4 : size);
    MEMBRANE_TRY(task.read_memory(frame.context.vector_state, vectors));
  }
  MEMBRANE_TRY(task.thread->set_vector_state(vectors));
  put_back(r, frame.context);
  task.blocked = frame.mask & ~kUnblockable;
  if (frame.stack_flags != SS_ONSTACK)
    task.signal_stack = {.base = frame.stack_base, .size = frame.stack_size, .flags = frame.stack_flags};
  return {};
}

}  // namespace membrane::linux
