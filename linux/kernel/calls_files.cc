// Reading and writing: read, write, and their vector and offset kinds; lseek; directories.
#include <fcntl.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "linux/kernel/announcing.h"
#include "linux/kernel/file_calls.h"

namespace membrane::linux {
namespace {

constexpr int kNoWait = 8, kAppend = 16;  // RWF_NOWAIT, RWF_APPEND
constexpr int kKnownFlags = 31;           // and HIPRI, DSYNC, SYNC, which change nothing here

bool waits(const File& file, int flags) { return (file.flags & O_NONBLOCK) == 0 && (flags & kNoWait) == 0; }

// The offset argument of the p-calls. Errors: EINVAL.
Try<std::optional<uint64_t>> offset_arg(Call& call, int i) {
  const auto offset = static_cast<int64_t>(call.arg(i));
  if (offset < 0) return err(EINVAL);
  return static_cast<uint64_t>(offset);
}

// As in preadv2(): -1 is the file's own position.
Try<std::optional<uint64_t>> offset_or_own(Call& call, int i) {
  if (static_cast<int64_t>(call.arg(i)) == -1) return std::nullopt;
  return offset_arg(call, i);
}

int64_t read_vectors(Call& call, std::optional<uint64_t> offset, int flags) {
  if ((flags & ~kKnownFlags) != 0) return -EOPNOTSUPP;
  CALL_ASSIGN(const FileRef file, file_to_read(call, call.int_arg(0)));
  CALL_ASSIGN(UserBuffer buffer, UserBuffer::from_vectors(call.task, call.arg(1), call.arg(2)));
  return read_from(call, *file, buffer, offset, flags);
}

int64_t write_vectors(Call& call, std::optional<uint64_t> offset, int flags) {
  if ((flags & ~kKnownFlags) != 0) return -EOPNOTSUPP;
  CALL_ASSIGN(const FileRef file, file_to_write(call, call.int_arg(0)));
  CALL_ASSIGN(UserBuffer buffer, UserBuffer::from_vectors(call.task, call.arg(1), call.arg(2)));
  return write_to(call, *file, buffer, offset, flags);
}

}  // namespace

int64_t read_from(Call& call, File& file, UserBuffer& buffer, std::optional<uint64_t> offset, int flags) {
  const bool is_empty = buffer.size() == 0;
  const Try<size_t> got = offset ? file.read_at(call.task, buffer, *offset) : file.read(call.task, buffer);
  if (got && *got > 0) announce(call.kernel, file, IN_ACCESS);
  if (got || got.error() != EAGAIN) return answer(got);
  if (is_empty) return 0;
  if (!waits(file, flags)) return -EAGAIN;
  call.join(file);
  return call.wait();
}

int64_t write_to(Call& call, File& file, UserBuffer& buffer, std::optional<uint64_t> offset, int flags) {
  if ((flags & kAppend) != 0) {
    offset = std::nullopt;
    CALL_TRY(file.seek(0, SEEK_END));
  }
  uint64_t& written = call.kept();
  buffer.skip(written);
  for (;;) {
    const Try<size_t> got =
        offset ? file.write_at(call.task, buffer, *offset) : file.write(call.task, buffer);
    if (!got && got.error() == EAGAIN && waits(file, flags)) {
      call.task.call_keeps_bytes = true;
      call.join(file);
      return call.wait();
    }
    if (!got && written == 0) return -got.error();
    if (got) written += *got;
    if (got && *got > 0) announce(call.kernel, file, IN_MODIFY);
    // A pipe or socket accepts the rest later; a regular file that accepted less is full.
    const bool goes_on = got && *got > 0 && buffer.size() > 0 && file.can_poll() && waits(file, flags);
    if (!goes_on) return static_cast<int64_t>(written);
  }
}

int64_t sys_read(Call& call) {
  CALL_ASSIGN(const FileRef file, file_to_read(call, call.int_arg(0)));
  UserBuffer buffer(call.task, call.arg(1), call.arg(2));
  return read_from(call, *file, buffer, std::nullopt, 0);
}

int64_t sys_write(Call& call) {
  CALL_ASSIGN(const FileRef file, file_to_write(call, call.int_arg(0)));
  UserBuffer buffer(call.task, call.arg(1), call.arg(2));
  return write_to(call, *file, buffer, std::nullopt, 0);
}

int64_t sys_pread64(Call& call) {
  CALL_ASSIGN(const auto offset, offset_arg(call, 3));
  CALL_ASSIGN(const FileRef file, file_to_read(call, call.int_arg(0)));
  UserBuffer buffer(call.task, call.arg(1), call.arg(2));
  return read_from(call, *file, buffer, offset, 0);
}

int64_t sys_pwrite64(Call& call) {
  CALL_ASSIGN(const auto offset, offset_arg(call, 3));
  CALL_ASSIGN(const FileRef file, file_to_write(call, call.int_arg(0)));
  UserBuffer buffer(call.task, call.arg(1), call.arg(2));
  return write_to(call, *file, buffer, offset, 0);
}

int64_t sys_readv(Call& call) { return read_vectors(call, std::nullopt, 0); }
int64_t sys_writev(Call& call) { return write_vectors(call, std::nullopt, 0); }

int64_t sys_preadv(Call& call) {
  CALL_ASSIGN(const auto offset, offset_arg(call, 3));
  return read_vectors(call, offset, 0);
}

int64_t sys_pwritev(Call& call) {
  CALL_ASSIGN(const auto offset, offset_arg(call, 3));
  return write_vectors(call, offset, 0);
}

int64_t sys_preadv2(Call& call) {
  CALL_ASSIGN(const auto offset, offset_or_own(call, 3));
  return read_vectors(call, offset, call.int_arg(5));
}

int64_t sys_pwritev2(Call& call) {
  CALL_ASSIGN(const auto offset, offset_or_own(call, 3));
  return write_vectors(call, offset, call.int_arg(5));
}

int64_t sys_lseek(Call& call) {
  CALL_ASSIGN(const FileRef file, open_file(call, call.int_arg(0)));
  return answer(file->seek(static_cast<int64_t>(call.arg(1)), call.int_arg(2)));
}

// -- directories

namespace {

constexpr size_t kMostListBytes = 64u << 10;  // of one call: fewer entries than there is room for are allowed

template <typename T>
void store(std::vector<std::byte>& to, size_t at, const T& value) {
  std::memcpy(to.data() + at, &value, sizeof value);
}

size_t aligned(size_t bytes) { return (bytes + 7) & ~size_t{7}; }

// struct linux_dirent64: number, next, length, type, name.
void add_entry64(std::vector<std::byte>& to, const DirectoryEntry& entry) {
  const size_t start = to.size();
  to.resize(start + aligned(8 + 8 + 2 + 1 + entry.name.size() + 1));
  store(to, start, entry.number);
  store(to, start + 8, entry.next);
  store(to, start + 16, static_cast<uint16_t>(to.size() - start));
  store(to, start + 18, entry.type);
  std::memcpy(to.data() + start + 19, entry.name.data(), entry.name.size());
}

// struct linux_dirent: number, next, length, name; the type in the last byte.
void add_entry(std::vector<std::byte>& to, const DirectoryEntry& entry) {
  const size_t start = to.size();
  to.resize(start + aligned(8 + 8 + 2 + entry.name.size() + 2));
  store(to, start, entry.number);
  store(to, start + 8, entry.next);
  store(to, start + 16, static_cast<uint16_t>(to.size() - start));
  std::memcpy(to.data() + start + 18, entry.name.data(), entry.name.size());
  store(to, to.size() - 1, entry.type);
}

using AddEntry = void (*)(std::vector<std::byte>&, const DirectoryEntry&);

int64_t list_directory(Call& call, AddEntry add) {
  CALL_ASSIGN(const FileRef file, file_to_read(call, call.int_arg(0)));
  const size_t room = std::min<size_t>(static_cast<uint32_t>(call.arg(2)), kMostListBytes);
  std::vector<std::byte> bytes;
  bool is_short = false;  // there are more, but there is no room
  CALL_TRY(file->list([&](const DirectoryEntry& entry) {
    const size_t before = bytes.size();
    add(bytes, entry);
    is_short = bytes.size() > room;
    if (is_short) bytes.resize(before);
    return !is_short;
  }));
  if (bytes.empty()) return is_short ? -EINVAL : 0;
  CALL_TRY(call.task.write_memory(call.arg(1), bytes));
  return static_cast<int64_t>(bytes.size());
}

}  // namespace

int64_t sys_getdents64(Call& call) { return list_directory(call, add_entry64); }
int64_t sys_getdents(Call& call) { return list_directory(call, add_entry); }

}  // namespace membrane::linux
