// Descriptors: close, dup, fcntl, ioctl.
#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "linux/files/inotify.h"
#include "linux/files/pipe.h"
#include "linux/files/sealed_node.h"
#include "linux/kernel/file_calls.h"
#include "linux/kernel/file_locks.h"
#include "linux/kernel/kernel.h"
#include "linux/kernel/memory.h"
#include "linux/kernel/signals.h"

namespace membrane::linux {
namespace {

constexpr int kSettableFlags = O_APPEND | O_NONBLOCK | O_ASYNC | O_DIRECT | O_NOATIME;

int64_t duplicate(Call& call, int from, int to, bool closes_on_exec) {
  CALL_ASSIGN(FileRef file, any_file(call, from));
  CALL_ASSIGN(const FileRef before,
              call.process().descriptors->set(to, std::move(file), closes_on_exec, file_limit(call)));
  close_file(call, before);
  return to;
}

int64_t duplicate_above(Call& call, bool closes_on_exec) {
  const int from = call.int_arg(2);
  if (from < 0 || static_cast<uint64_t>(from) >= file_limit(call)) return -EINVAL;
  CALL_ASSIGN(FileRef file, any_file(call, call.int_arg(0)));
  return answer(add_file(call, std::move(file), closes_on_exec, from));
}

int64_t set_flags(File& file, int flags) {
  file.flags = (file.flags & ~kSettableFlags) | (flags & kSettableFlags);
  return 0;
}

int64_t set_pipe_size(File& file, uint64_t size) {
  auto* const pipe = dynamic_cast<PipeEnd*>(&file);
  return pipe == nullptr ? -EBADF : answer(pipe->set_capacity(static_cast<uint32_t>(size)));
}
int64_t get_pipe_size(File& file) {
  const auto* const pipe = dynamic_cast<PipeEnd*>(&file);
  return pipe == nullptr ? -EBADF : pipe->capacity();
}

// The commands that also work on an O_PATH descriptor; nullopt for others.
std::optional<int64_t> control_descriptor(Call& call, int command) {
  Descriptors& table = *call.process().descriptors;
  const int descriptor = call.int_arg(0);
  switch (command) {
    case F_DUPFD: return duplicate_above(call, false);
    case F_DUPFD_CLOEXEC: return duplicate_above(call, true);
    case F_GETFD: return answer(table.closes_on_exec(descriptor));
    case F_SETFD: return answer(table.set_closes_on_exec(descriptor, (call.arg(2) & FD_CLOEXEC) != 0));
    case F_GETFL: {
      const auto file = any_file(call, descriptor);
      return file ? (*file)->flags : -file.error();
    }
    default: return std::nullopt;
  }
}

// struct f_owner_ex
struct OwnerEx {
  int type = 0, id = 0;  // 0 a thread, 1 a process, 2 a group
};

int64_t set_owner_ex(Call& call, File& file) {
  CALL_ASSIGN(const auto owner, call.get<OwnerEx>(call.arg(2)));
  if (owner.type < 0 || owner.type > 2) return -EINVAL;
  file.owner = owner.type == 2 ? -owner.id : owner.id;
  return 0;
}

}  // namespace

uint64_t file_limit(const Call& call) {
  return std::min<uint64_t>(call.process().limits[RLIMIT_NOFILE].rlim_cur, kMostDescriptors);
}

int64_t sys_close(Call& call) {
  CALL_ASSIGN(const FileRef file, call.process().descriptors->remove(call.int_arg(0)));
  close_file(call, file);
  return 0;
}

int64_t sys_close_range(Call& call) {
  const auto first = static_cast<uint32_t>(call.arg(0)), last = static_cast<uint32_t>(call.arg(1));
  const auto flags = static_cast<unsigned>(call.arg(2));
  if ((flags & ~(CLOSE_RANGE_UNSHARE | CLOSE_RANGE_CLOEXEC)) != 0 || first > last) return -EINVAL;
  std::shared_ptr<Descriptors>& table = call.process().descriptors;
  if ((flags & CLOSE_RANGE_UNSHARE) != 0 && table.use_count() > 1) table = table->copy();
  if ((flags & CLOSE_RANGE_CLOEXEC) == 0) {
    for (const FileRef& file : table->remove_range(first, last)) close_file(call, file);
    return 0;
  }
  for (const int number : table->numbers())
    if (static_cast<uint32_t>(number) >= first && static_cast<uint32_t>(number) <= last)
      CALL_TRY(table->set_closes_on_exec(number, true));
  return 0;
}

int64_t sys_dup(Call& call) {
  CALL_ASSIGN(FileRef file, any_file(call, call.int_arg(0)));
  return answer(add_file(call, std::move(file), false));
}
int64_t sys_dup2(Call& call) {
  const int from = call.int_arg(0), to = call.int_arg(1);
  if (from == to) {
    CALL_TRY(any_file(call, from));
    return to;
  }
  return duplicate(call, from, to, false);
}
int64_t sys_dup3(Call& call) {
  const int from = call.int_arg(0), to = call.int_arg(1), flags = call.int_arg(2);
  if ((flags & ~O_CLOEXEC) != 0 || from == to) return -EINVAL;
  return duplicate(call, from, to, flags != 0);
}

namespace {

int64_t get_seals(File& file) {
  const auto* const node = dynamic_cast<const SealedNode*>(file.node().get());
  return node == nullptr ? -EINVAL : static_cast<int64_t>(node->seals());
}

// Whether any process has a mapping of it through which writes reach it.
bool is_mapped_writable(const Kernel& kernel, const Node& node) {
  return std::ranges::any_of(kernel.processes(), [&](const auto& each) {
    const Memory* const memory = each.second->memory.get();
    return memory != nullptr && std::ranges::any_of(memory->areas(), [&](const auto& area) {
             const Area& is = area.second;
             return is.is_shared && (is.protection & PROT_WRITE) != 0 && is.file != nullptr &&
                    is.file->node().get() == &node;
           });
  });
}

int64_t add_seals(Call& call, File& file, uint64_t seals) {
  auto* const node = dynamic_cast<SealedNode*>(file.node().get());
  if (node == nullptr) return -EINVAL;
  if ((file.flags & O_ACCMODE) == O_RDONLY) return -EPERM;
  return answer(node->add_seals(static_cast<uint32_t>(seals), is_mapped_writable(call.kernel, *node)));
}

// The events that F_NOTIFY asks for, as inotify events. A rename within the directory counts as a move from
// it.
uint32_t mask_of_notice(uint64_t asked) {
  constexpr std::array<std::pair<uint64_t, uint32_t>, 6> kKinds = {{{DN_ACCESS, IN_ACCESS},
                                                                    {DN_MODIFY, IN_MODIFY},
                                                                    {DN_CREATE, IN_CREATE | IN_MOVED_TO},
                                                                    {DN_DELETE, IN_DELETE | IN_MOVED_FROM},
                                                                    {DN_RENAME, IN_MOVED_FROM},
                                                                    {DN_ATTRIB, IN_ATTRIB}}};
  uint32_t mask = 0;
  for (const auto& [kind, events] : kKinds)
    if ((asked & kind) != 0) mask |= events;
  return mask;
}

// Signals the process that asked, as long as the directory is open.
int64_t notify_of(Call& call, const FileRef& file, uint64_t asked) {
  if (file->node()->type() != S_IFDIR) return -ENOTDIR;
  if (call.kernel.watches == nullptr) call.kernel.watches = std::make_shared<Watches>();
  const int process = call.process().id;
  file->owner = process;
  const auto send = [&kernel = call.kernel, process, of = std::weak_ptr(file), descriptor = call.int_arg(0)] {
    Process* const to = kernel.process_of(process);
    const FileRef directory = of.lock();
    if (to == nullptr || to->is_zombie || directory == nullptr) return;
    const int number = directory->owner_signal == 0 ? SIGIO : directory->owner_signal;
    PendingSignal signal = signal_from(number, SI_KERNEL, nullptr);
    if (directory->owner_signal != 0) {
      signal.info.si_code = POLL_MSG;
      signal.info.si_fd = descriptor;
    }
    send_signal(kernel, *to, signal);
  };
  // Runs after the call that caused the event: the signal may end that call's process.
  const auto tell = [&kernel = call.kernel, of = std::weak_ptr<void>(file), send] {
    kernel.at(kernel.steady_now(), of, send);
  };
  return answer(call.kernel.watches->set_notice(file, process, mask_of_notice(asked),
                                                (asked & DN_MULTISHOT) == 0, tell));
}

int64_t set_signal(File& file, uint64_t signal) {
  if (signal > 64) return -EINVAL;
  file.owner_signal = static_cast<int>(signal);
  return 0;
}

}  // namespace

// Leases and hints are refused; except for F_NOTIFY, no signal is sent.
int64_t sys_fcntl(Call& call) {
  const int command = call.int_arg(1);
  if (const auto done = control_descriptor(call, command)) return *done;
  CALL_ASSIGN(const FileRef file, open_file(call, call.int_arg(0)));
  switch (command) {
    case F_SETFL: return set_flags(*file, call.int_arg(2));
    case F_GETOWN: return file->owner;
    case F_SETOWN: file->owner = call.int_arg(2); return 0;
    case F_SETOWN_EX: return set_owner_ex(call, *file);
    case F_GETOWN_EX:
      return answer(
          call.put(call.arg(2), file->owner < 0 ? OwnerEx{2, -file->owner} : OwnerEx{1, file->owner}));
    case F_SETSIG: return set_signal(*file, call.arg(2));
    case F_GETSIG: return file->owner_signal;
    case F_NOTIFY: return notify_of(call, file, call.arg(2));
    case F_GETPIPE_SZ: return get_pipe_size(*file);
    case F_SETPIPE_SZ: return set_pipe_size(*file, call.arg(2));
    case F_ADD_SEALS: return add_seals(call, *file, call.arg(2));
    case F_GET_SEALS: return get_seals(*file);
    case F_GETLEASE: return F_UNLCK;
    case F_GETLK:
    case F_SETLK:
    case F_SETLKW:
    case F_OFD_GETLK:
    case F_OFD_SETLK:
    case F_OFD_SETLKW: return lock_records(call, *file, command);
    default: return -EINVAL;
  }
}

// Handles what concerns every file; the file handles the rest.
int64_t sys_ioctl(Call& call) {
  const int descriptor = call.int_arg(0);
  CALL_ASSIGN(const FileRef file, open_file(call, descriptor));
  const auto request = static_cast<uint32_t>(call.arg(1));
  switch (request) {
    case FIOCLEX: return answer(call.process().descriptors->set_closes_on_exec(descriptor, true));
    case FIONCLEX: return answer(call.process().descriptors->set_closes_on_exec(descriptor, false));
    case FIONBIO:
    case FIOASYNC: {
      CALL_ASSIGN(const int on, call.get<int>(call.arg(2)));
      const int flag = request == FIONBIO ? O_NONBLOCK : O_ASYNC;
      file->flags = on != 0 ? file->flags | flag : file->flags & ~flag;
      return 0;
    }
    default: return answer(file->ioctl(call.task, request, call.arg(2)));
  }
}

}  // namespace membrane::linux
