// System calls of processes: exec, exit, wait, groups and sessions.
#include <fcntl.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstring>

#include "linux/files/process_file.h"
#include "linux/kernel/call.h"
#include "linux/kernel/cpu_time.h"
#include "linux/kernel/exec.h"
#include "linux/kernel/kernel.h"
#include "linux/kernel/memory.h"
#include "linux/kernel/signals.h"

namespace membrane::linux {

namespace {

constexpr size_t kMostWords = 1u << 17, kMostWordBytes = 128u << 10;

// The rest of a guest page, copied once: a program's arguments and the pointers to them lie close together.
class PageCopy {
 public:
  explicit PageCopy(Space& space) : space_(space) {}
  // The bytes from the address on; nothing when it cannot be read.
  std::span<const std::byte> at(uint64_t address) {
    if (address < begin_ || address >= begin_ + size_) {
      begin_ = address;
      size_ = space_.read(address, std::span(bytes_).first(kPage - address % kPage));
    }
    return std::span(bytes_).subspan(address - begin_, size_ - (address - begin_));
  }

 private:
  Space& space_;
  uint64_t begin_ = 0;
  size_t size_ = 0;
  std::array<std::byte, kPage> bytes_;
};

// Errors: EFAULT, E2BIG.
Try<std::string> word_at(PageCopy& copy, uint64_t address) {
  std::string word;
  while (word.size() < kMostWordBytes) {
    const auto there = copy.at(address + word.size());
    if (there.empty()) return err(EFAULT);
    const auto end = std::ranges::find(there, std::byte{0});
    word.append(reinterpret_cast<const char*>(there.data()), static_cast<size_t>(end - there.begin()));
    if (end != there.end())
      return word.size() < kMostWordBytes ? Try<std::string>(std::move(word)) : err(E2BIG);
  }
  return err(E2BIG);
}

Try<std::vector<std::string>> words_at(Call& call, uint64_t address) {
  Space& space = *call.task.thread->space();
  PageCopy pointers(space), texts(space);
  std::vector<std::string> words;
  size_t bytes = 0;
  for (; address != 0; address += 8) {
    uint64_t pointer = 0;
    const auto there = pointers.at(address);
    if (there.size() >= sizeof pointer) {
      std::memcpy(&pointer, there.data(), sizeof pointer);
    } else {
      MEMBRANE_ASSIGN(pointer, call.get<uint64_t>(address));  // over two pages
    }
    if (pointer == 0) break;
    MEMBRANE_ASSIGN(std::string word, word_at(texts, pointer));
    bytes += word.size() + 9;
    if (bytes > kMostArgumentBytes || words.size() >= kMostWords) return err(E2BIG);
    words.push_back(std::move(word));
  }
  return words;
}

int64_t execute_at(Call& call, Execution wanted, uint64_t arguments, uint64_t environment) {
  CALL_ASSIGN(wanted.arguments, words_at(call, arguments));
  CALL_ASSIGN(wanted.environment, words_at(call, environment));
  CALL_TRY(execute(call.kernel, call.task, std::move(wanted)));
  return kNoAnswer;
}

// Selects the children that wait4() and waitid() mean.
struct WhichChild {
  enum { kAny, kId, kGroup } kind = kAny;
  int id = 0;
  [[nodiscard]] bool is(const Process& child) const {
    return kind == kAny || (kind == kId ? child.id == id : child.group == id);
  }
};

struct Waited {
  int id = 0, uid = 0, status = 0;
  CpuTime used;
};

// The pending state change of one child, if any.
std::optional<Waited> ask_child(Kernel& kernel, Process& child, int options) {
  Waited waited = {.id = child.id,
                   .uid = static_cast<int>(child.credentials.uid),
                   .status = child.status,
                   .used = used_by(kernel, child)};
  waited.used += child.of_children;
  const bool keeps = (options & WNOWAIT) != 0;
  if (child.is_zombie && (options & WEXITED) != 0) {
    if (!keeps && child.parent != nullptr) child.parent->of_children += waited.used;
    if (!keeps) kernel.forget(child);
  } else if (child.is_stopped && child.tells_stop && (options & WSTOPPED) != 0) {
    child.tells_stop = keeps;
  } else if (!child.is_zombie && child.tells_continue && (options & WCONTINUED) != 0) {
    child.tells_continue = keeps;
  } else {
    return std::nullopt;
  }
  return waited;
}

// Returns nothing if no child has changed and the caller does not wait. Sets kWaits through `waits`.
Try<std::optional<Waited>> look_for_child(Call& call, const WhichChild& which, int options, bool& waits) {
  bool has_any = false;
  Process& parent = call.process();
  for (size_t i = 0; i < parent.children.size(); ++i) {
    Process& child = *parent.children[i];
    const bool is_clone = child.exit_signal != SIGCHLD;
    if (!which.is(child) || ((options & __WALL) == 0 && is_clone != ((options & __WCLONE) != 0))) continue;
    has_any = true;
    if (auto news = ask_child(call.kernel, child, options)) return news;
  }
  if (!has_any) return err(ECHILD);
  waits = (options & WNOHANG) == 0;
  if (waits) call.join(parent.child_changed);
  return std::optional<Waited>();
}

Done put_usage(Call& call, uint64_t address, const Waited& waited) {
  rusage usage = {};
  put_into(usage, waited.used);
  return call.put(address, usage);
}

Process* process_or_own(Call& call, int id) { return id == 0 ? &call.process() : call.kernel.process_of(id); }

}  // namespace

int64_t sys_execve(Call& call) {
  CALL_ASSIGN(const std::string path, call.get_string(call.arg(0)));
  return execute_at(call, {.path = path, .arguments = {}, .environment = {}}, call.arg(1), call.arg(2));
}

int64_t sys_execveat(Call& call) {
  const int flags = call.int_arg(4);
  if ((flags & ~(AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW)) != 0) return -EINVAL;
  CALL_ASSIGN(const std::string path, call.get_string(call.arg(1)));
  Execution wanted = {.path = path, .arguments = {}, .environment = {}};
  if (!path.starts_with('/') && call.int_arg(0) != AT_FDCWD) {
    CALL_ASSIGN(const FileRef file, call.process().descriptors->get(call.int_arg(0)));
    const auto location = std::make_shared<Location>(
        Location{.node = file->node(), .parent = nullptr, .name = file->description()});
    if (!path.empty()) {
      wanted.from = location;
    } else if ((flags & AT_EMPTY_PATH) != 0) {
      CALL_TRY(may(call.process().credentials, file->node()->attributes(), X_OK));
      wanted.program = location;
      wanted.path = "/dev/fd/" + std::to_string(call.int_arg(0));
    }
  }
  if (path.empty() && wanted.program == nullptr) return -ENOENT;
  return execute_at(call, std::move(wanted), call.arg(2), call.arg(3));
}

int64_t sys_exit(Call& call) {
  call.kernel.end_task(call.task, (call.int_arg(0) & 0xff) << 8);
  return kNoAnswer;
}

int64_t sys_exit_group(Call& call) {
  call.kernel.end_process(call.process(), (call.int_arg(0) & 0xff) << 8);
  return kNoAnswer;
}

int64_t sys_wait4(Call& call) {
  const int id = call.int_arg(0), options = call.int_arg(2);
  if ((options & ~(WNOHANG | WUNTRACED | WCONTINUED | __WALL | __WCLONE | __WNOTHREAD)) != 0) return -EINVAL;
  WhichChild which;
  if (id > 0) which = {WhichChild::kId, id};
  else if (id == 0) which = {WhichChild::kGroup, call.process().group};
  else if (id < -1) which = {WhichChild::kGroup, -id};
  bool waits = false;
  CALL_ASSIGN(const auto news, look_for_child(call, which, options | WEXITED, waits));
  if (waits) return call.wait();
  if (!news) return 0;
  if (call.arg(1) != 0) CALL_TRY(call.put(call.arg(1), news->status));
  if (call.arg(3) != 0) CALL_TRY(put_usage(call, call.arg(3), *news));
  return news->id;
}

static Try<FileRef> process_file_at(Call& call, int descriptor) {
  MEMBRANE_ASSIGN(FileRef file, call.process().descriptors->get(descriptor));
  if (dynamic_cast<const ProcessFile*>(file.get()) == nullptr) return err(EBADF);
  return file;
}

int64_t sys_waitid(Call& call) {
  const int options = call.int_arg(3);
  if ((options & ~(WNOHANG | WEXITED | WSTOPPED | WCONTINUED | WNOWAIT | __WALL | __WCLONE | __WNOTHREAD)) !=
          0 ||
      (options & (WEXITED | WSTOPPED | WCONTINUED)) == 0)
    return -EINVAL;
  WhichChild which;
  bool waits_not = false;
  if (call.int_arg(0) == P_PID) which = {WhichChild::kId, call.int_arg(1)};
  else if (call.int_arg(0) == P_PGID)
    which = {WhichChild::kGroup, call.int_arg(1) == 0 ? call.process().group : call.int_arg(1)};
  else if (call.int_arg(0) == P_PIDFD) {
    CALL_ASSIGN(const FileRef file, process_file_at(call, call.int_arg(1)));
    which = {WhichChild::kId, static_cast<const ProcessFile&>(*file).end().process};
    waits_not = (file->flags & O_NONBLOCK) != 0;
  } else if (call.int_arg(0) != P_ALL) return -EINVAL;
  bool waits = false;
  CALL_ASSIGN(const auto news, look_for_child(call, which, options, waits));
  if (waits) return waits_not ? -EAGAIN : call.wait();
  siginfo_t info = {};
  if (news) {
    info.si_signo = SIGCHLD;
    info.si_code = news_of(news->status).code;
    info.si_pid = news->id;
    info.si_uid = static_cast<uid_t>(news->uid);
    info.si_status = news_of(news->status).value;
  }
  if (call.arg(2) != 0) CALL_TRY(call.put(call.arg(2), info));
  if (news && call.arg(4) != 0) CALL_TRY(put_usage(call, call.arg(4), *news));
  return 0;
}

int64_t sys_getpid(Call& call) { return call.process().id; }
int64_t sys_getppid(Call& call) { return call.process().parent == nullptr ? 0 : call.process().parent->id; }

int64_t sys_getpgid(Call& call) {
  const Process* const process = process_or_own(call, call.int_arg(0));
  return process == nullptr ? -ESRCH : process->group;
}
int64_t sys_getpgrp(Call& call) { return call.process().group; }

int64_t sys_getsid(Call& call) {
  const Process* const process = process_or_own(call, call.int_arg(0));
  return process == nullptr ? -ESRCH : process->session;
}

int64_t sys_setpgid(Call& call) {
  Process& own = call.process();
  Process* const process = process_or_own(call, call.int_arg(0));
  if (call.int_arg(1) < 0) return -EINVAL;
  if (process == nullptr || (process != &own && process->parent != &own)) return -ESRCH;
  if (process != &own && process->session != own.session) return -EPERM;
  if (process != &own && process->has_executed) return -EACCES;
  if (process->id == process->session) return -EPERM;
  const int group = call.int_arg(1) == 0 ? process->id : call.int_arg(1);
  const bool is_there =
      group == process->id || std::ranges::any_of(call.kernel.processes(), [&](const auto& each) {
        return each.second->group == group && each.second->session == own.session;
      });
  if (!is_there) return -EPERM;
  process->group = group;
  return 0;
}

int64_t sys_setsid(Call& call) {
  Process& own = call.process();
  const bool is_leader = std::ranges::any_of(call.kernel.processes(),
                                             [&](const auto& each) { return each.second->group == own.id; });
  if (is_leader) return -EPERM;
  own.group = own.session = own.id;
  own.terminal.reset();
  return own.id;
}

}  // namespace membrane::linux
