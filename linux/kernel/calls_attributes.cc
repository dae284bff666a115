// Changes of file metadata: chmod, chown, times, size; extended attributes.
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/xattr.h>
#include <sys/stat.h>
#include <utime.h>

#include <array>
#include <vector>

#include "linux/kernel/announcing.h"
#include "linux/kernel/file_calls.h"
#include "linux/kernel/kernel.h"

namespace membrane::linux {
namespace {

// -- permissions and owners

Done change_mode(Call& call, Node& node, uint64_t mode) {
  const Attributes attributes = node.attributes();
  if (S_ISLNK(attributes.mode)) return err(EOPNOTSUPP);
  if (!owns(who(call), attributes)) return err(EPERM);
  auto wanted = static_cast<uint32_t>(mode) & 07777;
  if (!who(call).is_root() && !who(call).is_in(attributes.gid)) wanted &= ~uint32_t{S_ISGID};
  AttributeChange change;
  change.mode = wanted;
  return node.change(change);
}

int64_t change_mode_at(Call& call, int directory, uint64_t path, uint64_t mode, int flags) {
  if ((flags & ~(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)) != 0) return -EINVAL;
  CALL_ASSIGN(const Target target, target_at(call, directory, path, flags));
  CALL_TRY(change_mode(call, *target.node, mode));
  announce(call.kernel, target.location.get(), *target.node, IN_ATTRIB);
  return 0;
}

Done change_owner(Call& call, Node& node, uint64_t user, uint64_t group) {
  const Attributes attributes = node.attributes();
  const auto uid = static_cast<uint32_t>(user), gid = static_cast<uint32_t>(group);
  AttributeChange change;
  if (uid != UINT32_MAX) change.uid = uid;
  if (gid != UINT32_MAX) change.gid = gid;
  if (!who(call).is_root()) {
    if (who(call).fsuid != attributes.uid) return err(EPERM);
    if (change.uid && uid != attributes.uid) return err(EPERM);
    if (change.gid && gid != attributes.gid && !who(call).is_in(gid)) return err(EPERM);
  }
  if (!change.uid && !change.gid) return {};
  // A set-user-ID file must not run with the rights of its new owner.
  if (S_ISREG(attributes.mode)) {
    uint32_t mode = attributes.mode & 07777 & ~uint32_t{S_ISUID};
    if ((mode & S_IXGRP) != 0) mode &= ~uint32_t{S_ISGID};
    if (mode != (attributes.mode & 07777)) change.mode = mode;
  }
  return node.change(change);
}

int64_t change_owner_at(Call& call, int directory, uint64_t path, uint64_t uid, uint64_t gid, int flags) {
  if ((flags & ~(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)) != 0) return -EINVAL;
  CALL_ASSIGN(const Target target, target_at(call, directory, path, flags));
  CALL_TRY(change_owner(call, *target.node, uid, gid));
  announce(call.kernel, target.location.get(), *target.node, IN_ATTRIB);
  return 0;
}

// -- times

struct Times {
  bool is_now = true;  // both, by a null pointer or UTIME_NOW
  std::array<timespec, 2> times = {{{0, UTIME_NOW}, {0, UTIME_NOW}}};
};

Done change_times(Call& call, Node& node, const Times& wish) {
  if (wish.times[0].tv_nsec == UTIME_OMIT && wish.times[1].tv_nsec == UTIME_OMIT) return {};
  const Attributes attributes = node.attributes();
  if (!owns(who(call), attributes)) {
    if (!wish.is_now) return err(EPERM);
    MEMBRANE_TRY(may(who(call), attributes, W_OK));
  }
  const timespec now = call.kernel.now(CLOCK_REALTIME);
  const auto time = [&](const timespec& wanted) -> std::optional<timespec> {
    if (wanted.tv_nsec == UTIME_OMIT) return std::nullopt;
    return wanted.tv_nsec == UTIME_NOW ? now : wanted;
  };
  AttributeChange change;
  change.accessed = time(wish.times[0]);
  change.modified = time(wish.times[1]);
  return node.change(change);
}

bool is_valid(const timespec& time) {
  return time.tv_nsec == UTIME_NOW || time.tv_nsec == UTIME_OMIT ||
         (time.tv_nsec >= 0 && time.tv_nsec < 1000000000);
}

// `microseconds`: timevals, as in utimes().
Try<Times> times_at(Call& call, uint64_t address, bool microseconds) {
  Times wish;
  if (address == 0) return wish;
  MEMBRANE_ASSIGN(wish.times, (call.get<std::array<timespec, 2>>(address)));
  for (timespec& time : wish.times) {
    if (microseconds) {
      if (time.tv_nsec < 0 || time.tv_nsec >= 1000000) return err(EINVAL);
      time.tv_nsec *= 1000;
    } else if (!is_valid(time)) {
      return err(EINVAL);
    }
  }
  wish.is_now = wish.times[0].tv_nsec == UTIME_NOW && wish.times[1].tv_nsec == UTIME_NOW;
  return wish;
}

// -- sizes

Done truncate_path(Call& call, uint64_t path, int64_t size) {
  if (size < 0) return err(EINVAL);
  MEMBRANE_ASSIGN(const Target target, target_at(call, AT_FDCWD, path, 0));
  const Attributes attributes = target.node->attributes();
  if (S_ISDIR(attributes.mode)) return err(EISDIR);
  if (!S_ISREG(attributes.mode)) return err(EINVAL);
  MEMBRANE_TRY(may(who(call), attributes, W_OK));
  MEMBRANE_TRY(target.node->resize(static_cast<uint64_t>(size)));
  announce(call.kernel, target.location.get(), *target.node, IN_MODIFY);
  return {};
}

// A file must not grow beyond RLIMIT_FSIZE.
Done check_size(Call& call, uint64_t size) {
  if (size <= call.task.file_size_limit()) return {};
  call.task.signal_self(SIGXFSZ);
  return err(EFBIG);
}

}  // namespace

int64_t sys_chmod(Call& call) { return change_mode_at(call, AT_FDCWD, call.arg(0), call.arg(1), 0); }
int64_t sys_fchmodat(Call& call) {
  return change_mode_at(call, call.int_arg(0), call.arg(1), call.arg(2), 0);
}
int64_t sys_fchmodat2(Call& call) {
  return change_mode_at(call, call.int_arg(0), call.arg(1), call.arg(2), call.int_arg(3));
}
int64_t sys_fchmod(Call& call) {
  CALL_ASSIGN(const FileRef file, open_file(call, call.int_arg(0)));
  return answer(change_mode(call, *file->node(), call.arg(1)));
}

int64_t sys_chown(Call& call) {
  return change_owner_at(call, AT_FDCWD, call.arg(0), call.arg(1), call.arg(2), 0);
}
int64_t sys_lchown(Call& call) {
  return change_owner_at(call, AT_FDCWD, call.arg(0), call.arg(1), call.arg(2), AT_SYMLINK_NOFOLLOW);
}
int64_t sys_fchownat(Call& call) {
  return change_owner_at(call, call.int_arg(0), call.arg(1), call.arg(2), call.arg(3), call.int_arg(4));
}
int64_t sys_fchown(Call& call) {
  CALL_ASSIGN(const FileRef file, open_file(call, call.int_arg(0)));
  return answer(change_owner(call, *file->node(), call.arg(1), call.arg(2)));
}

int64_t sys_utime(Call& call) {
  Times wish;
  if (call.arg(1) != 0) {
    CALL_ASSIGN(const auto times, call.get<utimbuf>(call.arg(1)));
    wish = {false, {{{times.actime, 0}, {times.modtime, 0}}}};
  }
  CALL_ASSIGN(const Target target, target_at(call, AT_FDCWD, call.arg(0), 0));
  CALL_TRY(change_times(call, *target.node, wish));
  announce(call.kernel, target.location.get(), *target.node, IN_ATTRIB);
  return 0;
}
int64_t sys_utimes(Call& call) {
  CALL_ASSIGN(const Times wish, times_at(call, call.arg(1), true));
  CALL_ASSIGN(const Target target, target_at(call, AT_FDCWD, call.arg(0), 0));
  CALL_TRY(change_times(call, *target.node, wish));
  announce(call.kernel, target.location.get(), *target.node, IN_ATTRIB);
  return 0;
}
int64_t sys_futimesat(Call& call) {
  CALL_ASSIGN(const Times wish, times_at(call, call.arg(2), true));
  const int flags = call.arg(1) == 0 ? AT_EMPTY_PATH : 0;
  CALL_ASSIGN(const Target target, target_at(call, call.int_arg(0), call.arg(1), flags));
  CALL_TRY(change_times(call, *target.node, wish));
  announce(call.kernel, target.location.get(), *target.node, IN_ATTRIB);
  return 0;
}
int64_t sys_utimensat(Call& call) {
  int flags = call.int_arg(3);
  if ((flags & ~(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)) != 0) return -EINVAL;
  CALL_ASSIGN(const Times wish, times_at(call, call.arg(2), false));
  // A null path is the descriptor itself, as in futimens().
  if (call.arg(1) == 0) {
    if (call.int_arg(0) == AT_FDCWD) return -EFAULT;
    flags = AT_EMPTY_PATH;
  }
  CALL_ASSIGN(const Target target, target_at(call, call.int_arg(0), call.arg(1), flags));
  CALL_TRY(change_times(call, *target.node, wish));
  announce(call.kernel, target.location.get(), *target.node, IN_ATTRIB);
  return 0;
}

int64_t sys_truncate(Call& call) {
  const auto size = static_cast<int64_t>(call.arg(1));
  if (size >= 0) CALL_TRY(check_size(call, static_cast<uint64_t>(size)));
  return answer(truncate_path(call, call.arg(0), size));
}
int64_t sys_ftruncate(Call& call) {
  const auto size = static_cast<int64_t>(call.arg(1));
  if (size < 0) return -EINVAL;
  CALL_ASSIGN(const FileRef file, open_file(call, call.int_arg(0)));
  if ((file->flags & O_ACCMODE) == O_RDONLY) return -EINVAL;
  CALL_TRY(check_size(call, static_cast<uint64_t>(size)));
  CALL_TRY(file->truncate(static_cast<uint64_t>(size)));
  announce(call.kernel, *file, IN_MODIFY);
  return 0;
}

int64_t sys_fallocate(Call& call) {
  const auto offset = static_cast<int64_t>(call.arg(2)), length = static_cast<int64_t>(call.arg(3));
  if (offset < 0 || length <= 0) return -EINVAL;
  if (offset > INT64_MAX - length) return -EFBIG;
  CALL_ASSIGN(const FileRef file, file_to_write(call, call.int_arg(0)));
  const uint32_t type = file->node()->type();
  if (type == S_IFIFO) return -ESPIPE;
  if (type != S_IFREG) return type == S_IFDIR ? -EISDIR : -ENODEV;
  const int mode = call.int_arg(1);
  const auto end = static_cast<uint64_t>(offset + length);
  if ((mode & FALLOC_FL_KEEP_SIZE) == 0) CALL_TRY(check_size(call, end));
  return answer(file->node()->allocate(mode, static_cast<uint64_t>(offset), static_cast<uint64_t>(length)));
}

}  // namespace membrane::linux
