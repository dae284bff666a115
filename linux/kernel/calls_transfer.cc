// From file to file without the program: sendfile, copy_file_range, splice. And what is asked of a disk: sync, readahead and such.
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "linux/files/memory_buffer.h"
#include "linux/files/pipe.h"
#include "linux/kernel/file_calls.h"

namespace membrane::linux {
namespace {

constexpr size_t kPieceBytes = 64u << 10;
constexpr int kSpliceFlags = 15, kSpliceNoWait = 2;

bool is_pipe(const File& file) { return dynamic_cast<const PipeEnd*>(&file) != nullptr; }

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
  // After `done` bytes.
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

// From a file that can be read at an offset to any other, waiting for it. What was done so far is kept(), and the position is moved
// before a wait, so that a signal may end it.
int64_t send(Call& call, File& from, const Position& source, File& to, uint64_t count, bool waits) {
  count = std::min(count, kMostTransferBytes);
  uint64_t& done = call.kept();
  const uint64_t before = done;
  std::vector<std::byte> piece(std::min<uint64_t>(count, kPieceBytes));
  int error = 0;
  while (done < count && error == 0) {
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

// One piece from a pipe to a regular file.
int64_t splice_from_pipe(Call& call, File& pipe, File& to, uint64_t to_offset, uint64_t count, bool waits) {
  if (to.node()->type() != S_IFREG || (to.flags & O_APPEND) != 0) return -EINVAL;
  CALL_ASSIGN(const Position target, Position::of(call, to, to_offset));
  std::vector<std::byte> piece(std::min<uint64_t>(count, kPieceBytes));
  MemoryTarget room(piece);
  const auto got = pipe.read(call.task, room);
  if (!got && got.error() == EAGAIN && waits && (pipe.flags & O_NONBLOCK) == 0) {
    call.join(pipe);
    return call.wait();
  }
  if (!got) return -got.error();
  if (*got == 0) return 0;
  MemorySource bytes(std::span<const std::byte>(piece).first(*got));
  CALL_ASSIGN(const size_t written, to.write_at(call.task, bytes, target.at(0)));
  CALL_TRY(target.move(call, written));
  return static_cast<int64_t>(written);
}

// One piece from a regular file to a pipe.
int64_t splice_to_pipe(Call& call, File& from, uint64_t from_offset, File& pipe, uint64_t count, bool waits) {
  if (from.node()->type() != S_IFREG) return -EINVAL;
  CALL_ASSIGN(const Position source, Position::of(call, from, from_offset));
  return send(call, from, source, pipe, std::min<uint64_t>(count, kPieceBytes), waits);
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

// Between a pipe and a regular file; EINVAL for others, which programs take for "copy it yourself".
int64_t sys_splice(Call& call) {
  const int flags = call.int_arg(5);
  if ((flags & ~kSpliceFlags) != 0) return -EINVAL;
  if (call.arg(4) == 0) return 0;
  CALL_ASSIGN(const FileRef from, file_to_read(call, call.int_arg(0)));
  CALL_ASSIGN(const FileRef to, file_to_write(call, call.int_arg(2)));
  const bool waits = (flags & kSpliceNoWait) == 0;
  if ((is_pipe(*from) && call.arg(1) != 0) || (is_pipe(*to) && call.arg(3) != 0)) return -ESPIPE;
  if (is_pipe(*from)) return splice_from_pipe(call, *from, *to, call.arg(3), call.arg(4), waits);
  if (is_pipe(*to)) return splice_to_pipe(call, *from, call.arg(1), *to, call.arg(4), waits);
  return -EINVAL;
}

// -- disks: what was written is there already

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
