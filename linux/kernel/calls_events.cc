// Descriptors of objects that are not files: eventfd, timerfd, signalfd, pidfd, memfd.
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>

#include "linux/files/event_file.h"
#include "linux/files/process_file.h"
#include "linux/files/sealed_node.h"
#include "linux/files/signal_file.h"
#include "linux/files/timer_file.h"
#include "linux/fs/tree.h"
#include "linux/kernel/file_calls.h"
#include "linux/kernel/kernel.h"
#include "linux/kernel/signals.h"
#include "linux/proc/process_directory.h"

namespace membrane::linux {
namespace {

template <typename Kind>
Try<std::shared_ptr<Kind>> file_of_kind(Call& call, int descriptor) {
  MEMBRANE_ASSIGN(const FileRef file, open_file(call, descriptor));
  auto kind = std::dynamic_pointer_cast<Kind>(file);
  if (kind == nullptr) return err(EINVAL);
  return kind;
}

int64_t add_event_file(Call& call, int flags) {
  CALL_ASSIGN(FileRef made, make_event_file(static_cast<uint32_t>(call.arg(0)), flags));
  return answer(add_file(call, std::move(made), (flags & EFD_CLOEXEC) != 0));
}

int64_t set_signals(Call& call, int flags) {
  if (call.arg(2) != sizeof(SignalSet)) return -EINVAL;
  CALL_ASSIGN(const auto set, call.get<SignalSet>(call.arg(1)));
  if (call.int_arg(0) != -1) {
    if ((flags & ~(SFD_CLOEXEC | SFD_NONBLOCK)) != 0) return -EINVAL;
    CALL_ASSIGN(const auto file, file_of_kind<SignalFile>(call, call.int_arg(0)));
    file->set_signals(set);
    return call.int_arg(0);
  }
  CALL_ASSIGN(FileRef made, make_signal_file(call.kernel, set, flags));
  return answer(add_file(call, std::move(made), (flags & SFD_CLOEXEC) != 0));
}

}  // namespace

int64_t sys_eventfd(Call& call) { return add_event_file(call, 0); }
int64_t sys_eventfd2(Call& call) { return add_event_file(call, call.int_arg(1)); }

int64_t sys_timerfd_create(Call& call) {
  const int flags = call.int_arg(1);
  CALL_ASSIGN(FileRef made, make_timer_file(call.kernel, call.int_arg(0), flags));
  return answer(add_file(call, std::move(made), (flags & TFD_CLOEXEC) != 0));
}

int64_t sys_timerfd_settime(Call& call) {
  CALL_ASSIGN(const auto wanted, call.get<itimerspec>(call.arg(2)));
  CALL_ASSIGN(const auto timer, file_of_kind<TimerFile>(call, call.int_arg(0)));
  CALL_ASSIGN(const itimerspec before, timer->set(call.int_arg(1), wanted));
  return call.arg(3) == 0 ? 0 : answer(call.put(call.arg(3), before));
}

int64_t sys_timerfd_gettime(Call& call) {
  CALL_ASSIGN(const auto timer, file_of_kind<TimerFile>(call, call.int_arg(0)));
  return answer(call.put(call.arg(1), timer->get()));
}

int64_t sys_signalfd(Call& call) { return set_signals(call, 0); }
int64_t sys_signalfd4(Call& call) { return set_signals(call, call.int_arg(3)); }

// -- processes

FileRef process_file_of(Process& process, int flags) {
  if (process.end == nullptr) {
    process.end = std::make_shared<ProcessEnd>(process.id);
    if (process.is_zombie) process.end->tell();
  }
  return std::make_shared<ProcessFile>(process.end, flags);
}

int64_t sys_pidfd_open(Call& call) {
  const int id = call.int_arg(0), flags = call.int_arg(1);
  if (id <= 0 || (flags & ~O_NONBLOCK) != 0) return -EINVAL;
  Process* const process = call.kernel.process_of(id);
  if (process == nullptr) return call.kernel.task_of(id) != nullptr ? -EINVAL : -ESRCH;
  return answer(add_file(call, process_file_of(*process, flags), true));
}

// Finds a process by a pidfd or a directory /proc/PID. Errors: EBADF, ESRCH.
static Try<Process*> process_named_by(Call& call, const File& file) {
  if (const int id = process_of_directory(*file.node()); id != 0) {
    Process* const process = call.kernel.process_of(id);
    if (process == nullptr) return err(ESRCH);
    return process;
  }
  const auto* const named = dynamic_cast<const ProcessFile*>(&file);
  if (named == nullptr) return err(EBADF);
  Process* const process = call.kernel.process_of(named->end().process);
  if (process == nullptr || process->end.get() != &named->end()) return err(ESRCH);
  return process;
}

int64_t sys_pidfd_send_signal(Call& call) {
  const int number = call.int_arg(1);
  if (call.arg(3) != 0 || number < 0 || number > 64) return -EINVAL;
  CALL_ASSIGN(const FileRef file, open_file(call, call.int_arg(0)));
  CALL_ASSIGN(Process* const process, process_named_by(call, *file));
  const Credentials &own = who(call), &theirs = process->credentials;
  const bool is_same =
      own.euid == theirs.uid || own.euid == theirs.suid || own.uid == theirs.uid || own.uid == theirs.suid;
  if (own.euid != 0 && !is_same) return -EPERM;
  if (number == 0) return 0;
  PendingSignal signal = signal_from(number, SI_USER, &call.process());
  if (call.arg(2) != 0) {
    CALL_ASSIGN(signal.info, call.get<siginfo_t>(call.arg(2)));
    if (signal.info.si_signo != number) return -EINVAL;
    if (signal.info.si_code >= 0 && process != &call.process()) return -EPERM;
  }
  return send_signal(call.kernel, *process, signal) ? 0 : -EAGAIN;
}

// -- memory

int64_t sys_memfd_create(Call& call) {
  const auto flags = static_cast<uint32_t>(call.arg(1));
  auto name = call.get_string(call.arg(0), 250);
  if (!name) return name.error() == ENAMETOOLONG ? -EINVAL : -name.error();
  const NodeRef files = call.kernel.made_memory_files();
  CALL_ASSIGN(FileRef made, make_memory_file(*name, flags, [&](uint32_t mode) {
                return files->create_nameless(
                    {.mode = S_IFREG | mode, .uid = who(call).fsuid, .gid = who(call).fsgid});
              }));
  return answer(add_file(call, std::move(made), (flags & MFD_CLOEXEC) != 0));
}

}  // namespace membrane::linux
