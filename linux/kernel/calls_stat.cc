// File metadata: stat and its variants, statx, access, readlink, statfs.
#include <fcntl.h>
#include <linux/stat.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>

#include <algorithm>

#include "linux/kernel/file_calls.h"

namespace membrane::linux {
namespace {

constexpr uint32_t kBlockBytes = 4096;

struct stat stat_of(const Attributes& attributes) {
  struct stat to = {};
  to.st_dev = attributes.device;
  to.st_ino = attributes.number;
  to.st_nlink = attributes.links;
  to.st_mode = attributes.mode;
  to.st_uid = attributes.uid;
  to.st_gid = attributes.gid;
  to.st_rdev = attributes.special;
  to.st_size = static_cast<int64_t>(attributes.size);
  to.st_blksize = kBlockBytes;
  to.st_blocks = static_cast<int64_t>(attributes.blocks);
  to.st_atim = attributes.accessed;
  to.st_mtim = attributes.modified;
  to.st_ctim = attributes.changed;
  return to;
}

statx_timestamp stamp_of(const timespec& time) {
  statx_timestamp stamp = {};
  stamp.tv_sec = time.tv_sec;
  stamp.tv_nsec = static_cast<uint32_t>(time.tv_nsec);
  return stamp;
}

struct statx statx_of(const Attributes& attributes) {
  struct statx to = {};
  to.stx_mask = STATX_BASIC_STATS | STATX_BTIME;
  to.stx_blksize = kBlockBytes;
  to.stx_nlink = attributes.links;
  to.stx_uid = attributes.uid;
  to.stx_gid = attributes.gid;
  to.stx_mode = static_cast<uint16_t>(attributes.mode);
  to.stx_ino = attributes.number;
  to.stx_size = attributes.size;
  to.stx_blocks = attributes.blocks;
  to.stx_atime = stamp_of(attributes.accessed);
  to.stx_btime = stamp_of(attributes.created);
  to.stx_ctime = stamp_of(attributes.changed);
  to.stx_mtime = stamp_of(attributes.modified);
  to.stx_rdev_major = major(attributes.special);
  to.stx_rdev_minor = minor(attributes.special);
  to.stx_dev_major = major(attributes.device);
  to.stx_dev_minor = minor(attributes.device);
  return to;
}

int64_t put_stat(Call& call, Node& node, uint64_t to) {
  return answer(call.put(to, stat_of(node.attributes())));
}

int64_t stat_at(Call& call, int directory, uint64_t path, uint64_t to, int flags) {
  constexpr int kKnown = AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH | AT_NO_AUTOMOUNT;
  if ((flags & ~kKnown) != 0) return -EINVAL;
  CALL_ASSIGN(const Target target, target_at(call, directory, path, flags));
  return put_stat(call, *target.node, to);
}

int64_t access_at(Call& call, int directory, uint64_t path, int mode, int flags) {
  constexpr int kKnown = AT_EACCESS | AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH;
  if ((mode & ~(R_OK | W_OK | X_OK)) != 0 || (flags & ~kKnown) != 0) return -EINVAL;
  // Checks by the real user, also for the directories on the way.
  Credentials& credentials = call.process().credentials;
  const uint32_t fsuid = credentials.fsuid, fsgid = credentials.fsgid;
  if ((flags & AT_EACCESS) == 0) {
    credentials.fsuid = credentials.uid;
    credentials.fsgid = credentials.gid;
  }
  const auto target = target_at(call, directory, path, flags);
  Done done;
  if (!target) done = err(target.error());
  else if (mode != 0) done = may(credentials, target->node->attributes(), mode);
  credentials.fsuid = fsuid;
  credentials.fsgid = fsgid;
  return answer(done);
}

int64_t read_link(Call& call, int directory, uint64_t path, uint64_t to, uint64_t room) {
  if (static_cast<int>(room) <= 0) return -EINVAL;
  CALL_ASSIGN(const std::string name, path_at(call, path));
  // The empty path refers to a link that was opened with O_PATH and O_NOFOLLOW.
  if (name.empty() && directory == AT_FDCWD) return -ENOENT;
  CALL_ASSIGN(const Target target, target_at(call, directory, path, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH));
  if (target.node->type() != S_IFLNK) return name.empty() ? -ENOENT : -EINVAL;
  CALL_ASSIGN(const std::string text, target.node->target());
  const size_t size = std::min<size_t>(text.size(), static_cast<uint32_t>(room));
  CALL_TRY(call.task.write_memory(to, std::as_bytes(std::span(text.data(), size))));
  return static_cast<int64_t>(size);
}

// The file systems do not report how full they are; these values satisfy programs that check for room first.
// The types of file systems, by their devices (linux/proc/).
int64_t kind_of(uint64_t device) {
  switch (device) {
    case 0x16: return 0x9fa0;      // PROC_SUPER_MAGIC
    case 0x17: return 0x62656572;  // SYSFS_MAGIC
    case 0x18: return 0x1cd1;      // DEVPTS_SUPER_MAGIC
    case 0x19:
    case 0x1a: return 0x01021994;  // TMPFS_MAGIC
    default: return 0x794c7630;    // OVERLAYFS_SUPER_MAGIC
  }
}

struct statfs statfs_of(Node& node) {
  struct statfs to = {};
  const uint64_t device = node.attributes().device;
  to.f_type = kind_of(device);
  to.f_bsize = to.f_frsize = kBlockBytes;
  const FileSystemRoom room = node.room();
  to.f_blocks = room.most_bytes / kBlockBytes;
  to.f_bfree = to.f_bavail = room.free_bytes / kBlockBytes;
  to.f_files = room.most_nodes;
  to.f_ffree = room.free_nodes;
  to.f_fsid.__val[0] = static_cast<int>(device);
  to.f_namelen = kMostNameBytes;
  return to;
}

}  // namespace

int64_t sys_stat(Call& call) { return stat_at(call, AT_FDCWD, call.arg(0), call.arg(1), 0); }
int64_t sys_lstat(Call& call) {
  return stat_at(call, AT_FDCWD, call.arg(0), call.arg(1), AT_SYMLINK_NOFOLLOW);
}
int64_t sys_newfstatat(Call& call) {
  return stat_at(call, call.int_arg(0), call.arg(1), call.arg(2), call.int_arg(3));
}
int64_t sys_fstat(Call& call) {
  CALL_ASSIGN(const FileRef file, any_file(call, call.int_arg(0)));
  return put_stat(call, *file->node(), call.arg(1));
}

int64_t sys_statx(Call& call) {
  constexpr int kKnown = AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH | AT_NO_AUTOMOUNT | AT_STATX_SYNC_TYPE;
  const int flags = call.int_arg(2);
  if ((flags & ~kKnown) != 0 || (flags & AT_STATX_SYNC_TYPE) == AT_STATX_SYNC_TYPE) return -EINVAL;
  if ((call.arg(3) & STATX__RESERVED) != 0) return -EINVAL;
  CALL_ASSIGN(const Target target, target_at(call, call.int_arg(0), call.arg(1), flags));
  return answer(call.put(call.arg(4), statx_of(target.node->attributes())));
}

int64_t sys_access(Call& call) { return access_at(call, AT_FDCWD, call.arg(0), call.int_arg(1), 0); }
int64_t sys_faccessat(Call& call) {
  return access_at(call, call.int_arg(0), call.arg(1), call.int_arg(2), 0);
}
int64_t sys_faccessat2(Call& call) {
  return access_at(call, call.int_arg(0), call.arg(1), call.int_arg(2), call.int_arg(3));
}

int64_t sys_readlink(Call& call) { return read_link(call, AT_FDCWD, call.arg(0), call.arg(1), call.arg(2)); }
int64_t sys_readlinkat(Call& call) {
  return read_link(call, call.int_arg(0), call.arg(1), call.arg(2), call.arg(3));
}

int64_t sys_statfs(Call& call) {
  CALL_ASSIGN(const Target target, target_at(call, AT_FDCWD, call.arg(0), 0));
  return answer(call.put(call.arg(1), statfs_of(*target.node)));
}
int64_t sys_fstatfs(Call& call) {
  CALL_ASSIGN(const FileRef file, any_file(call, call.int_arg(0)));
  return answer(call.put(call.arg(1), statfs_of(*file->node())));
}

}  // namespace membrane::linux
