// Transfers between files that bypass the program: sendfile, copy_file_range, splice, tee, vmsplice; and
// requests to a disk: sync, readahead and the like.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "linux/files/memory_buffer.h"
#include "linux/files/pipe.h"
#include "linux/kernel/file_calls.h"
#include "linux/kernel/kernel.h"

namespace membrane::linux {
namespace {

constexpr size_t kPieceBytes = 64u << 10;
constexpr int kSpliceFlags = 15, kSpliceNoWait = 2;

PipeEnd* pipe_of(File& file) { return dynamic_cast<PipeEnd*>(&file); }
bool is_pipe(File& file) { return pipe_of(file) != nullptr; }

// Where a transfer reads or writes: at an offset in guest memory, or at the file's own position.
class Position {
 public:
  static Try<Position> of(Call& call, File& file, uint64_t address) {
    Position position(file, address);
    if (address != 0) {
      MEMBRANE_ASSIGN(position.at_, call.get<int64_t>(address));
      if (position.at_ < 0) return err(EINVAL);
    } else {
      MEMBRANE_ASSIGN(const uint64_t at, file.seek(0, SEEK_CUR));
      position.at_ = static_cast<int64_t>(at);
    }
    return position;
  }
  [[nodiscard]] uint64_t at(uint64_t done) const { return static_cast<uint64_t>(at_) + done; }
  // The position after `done` bytes.
  Done move(Call& call, uint64_t done) const {
    if (address_ != 0) return call.put(address_, static_cast<int64_t>(at(done)));
    MEMBRANE_TRY(file_->seek(static_cast<int64_t>(at(done)), SEEK_SET));
    return {};
  }

 private:
  Position(File& file, uint64_t address) : file_(&file), address_(address) {}
  File* file_;
  uint64_t address_;
  int64_t at_ = 0;
};

Try<size_t> read_piece(Call& call, File& from, uint64_t offset, std::span<std::byte> piece) {
  MemoryTarget room(piece);
  return from.read_at(call.task, room, offset);
}

// Transfers from a file that can be read at an offset to any other, waiting for it. kept() counts the bytes
// so far, and the position is updated before a wait, so that a signal may interrupt it.
int64_t send(Call& call, File& from, const Position& source, File& to, uint64_t count, bool waits) {
  count = std::min(count, kMostTransferBytes);
  uint64_t& done = call.kept();
  const uint64_t before = done;
  std::vector<std::byte> piece(std::min<uint64_t>(count, kPieceBytes));
  int error = 0;
  while (done < count && error == 0 && !call.kernel.ends_call(piece.size())) {
    const size_t wanted = std::min<uint64_t>(count - done, piece.size());
    const auto got = read_piece(call, from, source.at(done - before), std::span(piece).first(wanted));
    if (!got) error = got.error();
    if (!got || *got == 0) break;
    MemorySource bytes(std::span<const std::byte>(piece).first(*got));
    const auto written = to.write(call.task, bytes);
    if (written) done += *written;
    else error = written.error();
    if (written && *written == 0) break;
  }
  if (done > before) CALL_TRY(source.move(call, done - before));
  if (error == EAGAIN && waits && (to.flags & O_NONBLOCK) == 0) {
    call.task.call_keeps_bytes = true;
    call.join(to);
    return call.wait();
  }
  if (done == 0 && error != 0) return -error;
  return static_cast<int64_t>(done);
}

// -- pipes: one piece, of what is there

int64_t wait_for(Call& call, File& file) {
  call.join(file);
  return call.wait();
}

// Moves a pipe's bytes to a file, at its offset if it has one. What the file does not accept stays in the
// pipe.
int64_t splice_from_pipe(Call& call, PipeEnd& pipe, File& to, uint64_t to_offset, uint64_t count,
                         bool waits) {
  if ((to.flags & O_APPEND) != 0) return -EINVAL;
  const bool has_offset = to.node()->type() == S_IFREG || to_offset != 0;
  std::optional<Position> target;
  if (has_offset) {
    CALL_ASSIGN(target, Position::of(call, to, to_offset));
  }
  const auto there = pipe.waiting();
  if (there.empty()) {
    if (!pipe.has_writers()) return 0;
    return waits && (pipe.flags & O_NONBLOCK) == 0 ? wait_for(call, pipe) : -EAGAIN;
  }
  MemorySource bytes(there.first(std::min<uint64_t>({count, there.size(), kPieceBytes})));
  const auto written = target ? to.write_at(call.task, bytes, target->at(0)) : to.write(call.task, bytes);
  if (!written && written.error() == EAGAIN && waits && (to.flags & O_NONBLOCK) == 0)
    return wait_for(call, to);
  if (!written) return -written.error();
  pipe.drop(*written);
  if (target) CALL_TRY(target->move(call, *written));
  return static_cast<int64_t>(*written);
}

int64_t say_broken_pipe(Call& call) {
  call.task.signal_self(SIGPIPE);
  return -EPIPE;
}

// Reads only as much as the pipe has room for.
int64_t splice_to_pipe(Call& call, File& from, uint64_t from_offset, PipeEnd& pipe, uint64_t count,
                       bool waits) {
  const bool has_offset = from.node()->type() == S_IFREG || from_offset != 0;
  if (from.node()->type() == S_IFDIR) return -EINVAL;
  std::optional<Position> source;
  if (has_offset) {
    CALL_ASSIGN(source, Position::of(call, from, from_offset));
  }
  if (!pipe.has_readers()) return say_broken_pipe(call);
  if (pipe.room() == 0) return waits && (pipe.flags & O_NONBLOCK) == 0 ? wait_for(call, pipe) : -EAGAIN;
  std::vector<std::byte> piece(std::min<uint64_t>({count, pipe.room(), kPieceBytes}));
  MemoryTarget room(piece);
  const auto got = source ? from.read_at(call.task, room, source->at(0)) : from.read(call.task, room);
  if (!got && got.error() == EAGAIN && waits && (from.flags & O_NONBLOCK) == 0) return wait_for(call, from);
  if (!got) return -got.error();
  MemorySource bytes(std::span<const std::byte>(piece).first(*got));
  if (*got > 0) CALL_TRY(pipe.write(call.task, bytes));
  if (source) CALL_TRY(source->move(call, *got));
  return static_cast<int64_t>(*got);
}

// From pipe to pipe; tee() leaves the bytes where they are.
int64_t splice_pipes(Call& call, PipeEnd& from, PipeEnd& to, uint64_t count, bool waits, bool stay) {
  if (from.is_same_pipe(to)) return -EINVAL;
  if (!to.has_readers()) return say_broken_pipe(call);
  waits = waits && ((from.flags | to.flags) & O_NONBLOCK) == 0;
  const auto there = from.waiting();
  if (there.empty() && !from.has_writers()) return 0;
  if (there.empty()) return waits ? wait_for(call, from) : -EAGAIN;
  if (to.room() == 0) return waits ? wait_for(call, to) : -EAGAIN;
  MemorySource bytes(there.first(std::min<uint64_t>({count, there.size(), to.room()})));
  CALL_ASSIGN(const size_t moved, to.write(call.task, bytes));
  if (!stay) from.drop(moved);
  return static_cast<int64_t>(moved);
}

bool overlap(uint64_t a, uint64_t b, uint64_t length) { return a < b ? b - a < length : a - b < length; }

}  // namespace

int64_t sys_sendfile(Call& call) {
  CALL_ASSIGN(const FileRef from, file_to_read(call, call.int_arg(1)));
  CALL_ASSIGN(const FileRef to, file_to_write(call, call.int_arg(0)));
  if (from->node()->type() == S_IFDIR || is_pipe(*from) || (to->flags & O_APPEND) != 0) return -EINVAL;
  const auto source = Position::of(call, *from, call.arg(2));
  if (!source) return source.error() == ESPIPE ? -EINVAL : -source.error();
  return send(call, *from, *source, *to, call.arg(3), true);
}

int64_t sys_copy_file_range(Call& call) {
  if (call.arg(5) != 0) return -EINVAL;
  CALL_ASSIGN(const FileRef from, file_to_read(call, call.int_arg(0)));
  CALL_ASSIGN(const FileRef to, file_to_write(call, call.int_arg(2)));
  for (const FileRef& file : {from, to})
    if (file->node()->type() != S_IFREG) return file->node()->type() == S_IFDIR ? -EISDIR : -EINVAL;
  if ((to->flags & O_APPEND) != 0) return -EBADF;
  CALL_ASSIGN(const Position source, Position::of(call, *from, call.arg(1)));
  CALL_ASSIGN(const Position target, Position::of(call, *to, call.arg(3)));
  const uint64_t count = std::min(call.arg(4), kMostTransferBytes);
  if (from->node() == to->node() && overlap(source.at(0), target.at(0), count)) return -EINVAL;
  std::vector<std::byte> piece(std::min<uint64_t>(count, kPieceBytes));
  uint64_t done = 0;
  while (done < count) {
    const size_t wanted = std::min<uint64_t>(count - done, piece.size());
    const auto got = read_piece(call, *from, source.at(done), std::span(piece).first(wanted));
    if (!got && done == 0) return -got.error();
    if (!got || *got == 0) break;
    MemorySource bytes(std::span<const std::byte>(piece).first(*got));
    const auto written = to->write_at(call.task, bytes, target.at(done));
    if (!written && done == 0) return -written.error();
    if (!written || *written == 0) break;
    done += *written;
  }
  CALL_TRY(source.move(call, done));
  CALL_TRY(target.move(call, done));
  return static_cast<int64_t>(done);
}

// From or to a pipe, or between two.
int64_t sys_splice(Call& call) {
  const int flags = call.int_arg(5);
  if ((flags & ~kSpliceFlags) != 0) return -EINVAL;
  if (call.arg(4) == 0) return 0;
  CALL_ASSIGN(const FileRef from, file_to_read(call, call.int_arg(0)));
  CALL_ASSIGN(const FileRef to, file_to_write(call, call.int_arg(2)));
  const bool waits = (flags & kSpliceNoWait) == 0;
  PipeEnd *const from_pipe = pipe_of(*from), *const to_pipe = pipe_of(*to);
  if ((from_pipe != nullptr && call.arg(1) != 0) || (to_pipe != nullptr && call.arg(3) != 0)) return -ESPIPE;
  if (from_pipe != nullptr && to_pipe != nullptr)
    return splice_pipes(call, *from_pipe, *to_pipe, call.arg(4), waits, false);
  if (from_pipe != nullptr) return splice_from_pipe(call, *from_pipe, *to, call.arg(3), call.arg(4), waits);
  if (to_pipe != nullptr) return splice_to_pipe(call, *from, call.arg(1), *to_pipe, call.arg(4), waits);
  return -EINVAL;
}

int64_t sys_tee(Call& call) {
  const int flags = call.int_arg(3);
  if ((flags & ~kSpliceFlags) != 0) return -EINVAL;
  if (call.arg(2) == 0) return 0;
  CALL_ASSIGN(const FileRef from, file_to_read(call, call.int_arg(0)));
  CALL_ASSIGN(const FileRef to, file_to_write(call, call.int_arg(1)));
  PipeEnd *const from_pipe = pipe_of(*from), *const to_pipe = pipe_of(*to);
  if (from_pipe == nullptr || to_pipe == nullptr) return -EINVAL;
  return splice_pipes(call, *from_pipe, *to_pipe, call.arg(2), (flags & kSpliceNoWait) == 0, true);
}

// Memory is copied, so that the program may use it again at once.
int64_t sys_vmsplice(Call& call) {
  const int flags = call.int_arg(3);
  if ((flags & ~kSpliceFlags) != 0) return -EINVAL;
  CALL_ASSIGN(const FileRef file, open_file(call, call.int_arg(0)));
  if (!is_pipe(*file)) return -EBADF;
  CALL_ASSIGN(UserBuffer buffer, UserBuffer::from_vectors(call.task, call.arg(1), call.arg(2)));
  if (buffer.size() == 0) return 0;
  const int how = (flags & kSpliceNoWait) != 0 ? RWF_NOWAIT : 0;
  return (file->flags & O_ACCMODE) == O_RDONLY ? read_from(call, *file, buffer, std::nullopt, how)
                                               : write_to(call, *file, buffer, std::nullopt, how);
}

// -- disks: what was written already exists

int64_t sys_sync(Call&) { return 0; }
int64_t sys_syncfs(Call& call) {
  CALL_TRY(open_file(call, call.int_arg(0)));
  return 0;
}
int64_t sys_fsync(Call& call) {
  CALL_ASSIGN(const FileRef file, open_file(call, call.int_arg(0)));
  return answer(file->sync());
}
int64_t sys_fdatasync(Call& call) { return sys_fsync(call); }

int64_t sys_sync_file_range(Call& call) {
  if (static_cast<int64_t>(call.arg(1)) < 0 || static_cast<int64_t>(call.arg(2)) < 0 ||
      (call.arg(3) & ~7u) != 0)
    return -EINVAL;
  CALL_ASSIGN(const FileRef file, open_file(call, call.int_arg(0)));
  return is_pipe(*file) ? -ESPIPE : 0;
}

int64_t sys_fadvise64(Call& call) {
  CALL_ASSIGN(const FileRef file, open_file(call, call.int_arg(0)));
  if (is_pipe(*file)) return -ESPIPE;
  return static_cast<int64_t>(call.arg(2)) < 0 || call.arg(3) > POSIX_FADV_NOREUSE ? -EINVAL : 0;
}

int64_t sys_readahead(Call& call) {
  CALL_ASSIGN(const FileRef file, file_to_read(call, call.int_arg(0)));
  return file->node()->type() == S_IFREG ? 0 : -EINVAL;
}

}  // namespace membrane::linux
