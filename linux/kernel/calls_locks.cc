// Locks: flock, and those of fcntl. Deadlocks of programs that wait for each other are not detected.
#include <fcntl.h>
#include <sys/file.h>

#include "linux/files/locks.h"
#include "linux/kernel/file_calls.h"
#include "linux/kernel/file_locks.h"

namespace membrane::linux {
namespace {

bool is_of_description(int command) { return command >= F_OFD_GETLK && command <= F_OFD_SETLKW; }

// Where the range of a struct flock begins.
Try<int64_t> base_of_range(File& file, int whence) {
  switch (whence) {
    case SEEK_SET: return 0;
    case SEEK_CUR: {
      MEMBRANE_ASSIGN(const uint64_t at, file.seek(0, SEEK_CUR));
      return static_cast<int64_t>(at);
    }
    case SEEK_END: return static_cast<int64_t>(file.node()->attributes().size);
    default: return err(EINVAL);
  }
}

Try<RecordLock> record_of(Call& call, File& file, const struct flock& from, int command) {
  MEMBRANE_ASSIGN(const int64_t base, base_of_range(file, from.l_whence));
  int64_t first = 0, end = 0;  // the end is not included
  if (__builtin_add_overflow(base, from.l_start, &first)) return err(EOVERFLOW);
  if (__builtin_add_overflow(first, from.l_len, &end)) return err(EOVERFLOW);
  if (from.l_len < 0) std::swap(first, end);
  if (first < 0) return err(EINVAL);
  RecordLock lock;
  lock.first = static_cast<uint64_t>(first);
  lock.last = from.l_len == 0 ? INT64_MAX : static_cast<uint64_t>(end - 1);
  lock.is_exclusive = from.l_type == F_WRLCK;
  if (is_of_description(command)) {
    if (from.l_pid != 0) return err(EINVAL);
    lock.owner = &file;
    lock.process = -1;
  } else {
    lock.owner = call.process().descriptors.get();
    lock.process = call.process().id;
  }
  return lock;
}

// F_GETLK: the first conflicting lock, or F_UNLCK.
Done tell_conflict(Call& call, const FileLocks& locks, const RecordLock& wanted, struct flock told) {
  if (told.l_type != F_RDLCK && told.l_type != F_WRLCK) return err(EINVAL);
  const RecordLock* const other = locks.conflict_with(wanted);
  if (other == nullptr) {
    told.l_type = F_UNLCK;
    return call.put(call.arg(2), told);
  }
  told.l_type = other->is_exclusive ? F_WRLCK : F_RDLCK;
  told.l_whence = SEEK_SET;
  told.l_start = static_cast<int64_t>(other->first);
  told.l_len = other->last >= INT64_MAX ? 0 : static_cast<int64_t>(other->last - other->first + 1);
  told.l_pid = other->process;
  return call.put(call.arg(2), told);
}

// The lock lasts as long as its owner.
void keep(Call& call, File& file, const std::shared_ptr<FileLocks>& locks, const RecordLock& lock,
          int command) {
  if (is_of_description(command)) {
    if (file.record_locks == nullptr) file.record_locks = hold_locks(locks, lock.owner, LockKind::kRecords);
    return;
  }
  Descriptors& table = *call.process().descriptors;
  if (!table.has_locks(*file.node()))
    table.keep_locks(*file.node(), hold_locks(locks, lock.owner, LockKind::kRecords));
}

Done check_access(const File& file, short type) {
  const int access = file.flags & O_ACCMODE;
  if (type == F_RDLCK && access == O_WRONLY) return err(EBADF);
  if (type == F_WRLCK && access == O_RDONLY) return err(EBADF);
  return type == F_RDLCK || type == F_WRLCK || type == F_UNLCK ? Done() : err(EINVAL);
}

}  // namespace

int64_t lock_records(Call& call, File& file, int command) {
  CALL_ASSIGN(const auto asked, call.get<struct flock>(call.arg(2)));
  CALL_ASSIGN(const RecordLock wanted, record_of(call, file, asked, command));
  if (command == F_GETLK || command == F_OFD_GETLK)
    return answer(tell_conflict(call, *locks_of(*file.node()), wanted, asked));
  CALL_TRY(check_access(file, asked.l_type));
  const std::shared_ptr<FileLocks> locks = locks_of(*file.node());
  if (asked.l_type == F_UNLCK) return answer(locks->unlock(wanted.owner, wanted.first, wanted.last));
  const Done done = locks->lock(wanted);
  if (done) {
    keep(call, file, locks, wanted, command);
    return 0;
  }
  const bool waits = command == F_SETLKW || command == F_OFD_SETLKW;
  if (done.error() != EAGAIN || !waits) return -done.error();
  call.join(locks->changed);
  return call.wait();
}

int64_t sys_flock(Call& call) {
  const int operation = call.int_arg(1) & ~LOCK_NB;
  CALL_ASSIGN(const FileRef file, open_file(call, call.int_arg(0)));
  if (operation == LOCK_UN) {
    file->whole_lock.reset();
    return 0;
  }
  if (operation != LOCK_SH && operation != LOCK_EX) return -EINVAL;
  const std::shared_ptr<FileLocks> locks = locks_of(*file->node());
  const Done done = locks->lock_whole(file.get(), operation == LOCK_EX);
  if (done) {
    if (file->whole_lock == nullptr) file->whole_lock = hold_locks(locks, file.get(), LockKind::kWhole);
    return 0;
  }
  if ((call.int_arg(1) & LOCK_NB) != 0) return -EWOULDBLOCK;
  call.join(locks->changed);
  return call.wait();
}

}  // namespace membrane::linux
