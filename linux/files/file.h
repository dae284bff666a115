// An open file description, which descriptors of one or more processes refer to. Pipes, sockets, terminals,
// directories and regular files derive from it.
//
// Nothing here waits. What cannot be done now is EAGAIN; ready() reports what could be done, and the queues
// that join() joins are woken when that may have changed. The system call decides whether to return EAGAIN or
// to wait and retry.
//
// Bytes come and go through Buffer, which is guest memory or the kernel's own.
#pragma once

#include <poll.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "linux/abi/answer.h"
#include "linux/files/wait_queue.h"
#include "linux/fs/node.h"
#include "linux/platform/platform.h"

namespace membrane::linux {

struct Location;  // linux/fs/paths.h
using FileRef = std::shared_ptr<File>;

// The error of a file that has sent the caller a signal which should stop it, as terminals do to background
// processes (ERESTARTSYS): the call is retried after the signal, as if the signal had arrived while the call
// waited.
constexpr int kAskAgain = 512;

// The calling program: its identity and its memory.
class Caller {
 public:
  virtual ~Caller() = default;
  [[nodiscard]] virtual const Credentials& credentials() const = 0;
  [[nodiscard]] virtual int process_id() const = 0;
  [[nodiscard]] virtual int process_group() const = 0;
  [[nodiscard]] virtual int session() const = 0;
  // Reads guest memory, all or nothing. Errors: EFAULT.
  virtual Done read_memory(uint64_t address, std::span<std::byte> bytes) = 0;
  virtual Done write_memory(uint64_t address, std::span<const std::byte> bytes) = 0;
  // Signals all processes of a group, or the caller itself.
  virtual void signal_group(int group, int signal) = 0;
  virtual void signal_self(int signal) = 0;
  // Whether the caller ignores or blocks a signal (terminals ask), and whether its process group is orphaned.
  virtual bool ignores(int signal) = 0;
  virtual bool is_orphaned() = 0;
  // The controlling terminal of the calling process; nullptr when there is none. This is not an open file
  // description of the terminal (terminal.h).
  virtual FileRef terminal() { return nullptr; }
  // nullptr removes the terminal from the process and, if that leads its session, from all processes of the
  // session.
  virtual void set_terminal(const FileRef&) {}
  // The session of a process group; 0 when there is no such group.
  virtual int session_of_group(int group) { return group == process_group() ? session() : 0; }
  // RLIMIT_FSIZE.
  virtual uint64_t file_size_limit() { return UINT64_MAX; }

  template <typename T>
  Try<T> get(uint64_t address) {
    T value;
    if (auto read = read_memory(address, std::as_writable_bytes(std::span(&value, 1))); !read)
      return err(read.error());
    return value;
  }
  template <typename T>
  Done put(uint64_t address, const T& value) {
    return write_memory(address, std::as_bytes(std::span(&value, 1)));
  }
};

// The source or destination of bytes, processed piece by piece. take() and put() move all of the bytes; they
// move fewer only when guest memory faults, and fail with EFAULT when none could be moved.
class Buffer {
 public:
  virtual ~Buffer() = default;
  [[nodiscard]] virtual size_t size() const = 0;  // the number of bytes left
  virtual Try<size_t> take(std::span<std::byte> to) = 0;
  virtual Try<size_t> put(std::span<const std::byte> from) = 0;
};

class File : public std::enable_shared_from_this<File> {
 public:
  File() { ++alive_; }
  virtual ~File() { --alive_; }
  File(const File&) = delete;
  // The number of descriptions of all processes: a kernel process has one kernel.
  [[nodiscard]] static int alive() { return alive_; }

  int flags =
      0;  // O_ACCMODE, O_APPEND, O_NONBLOCK, O_PATH, O_DIRECT…; not O_CLOEXEC, which is a descriptor's
  int owner = 0;         // F_SETOWN
  int owner_signal = 0;  // F_SETSIG: the signal to send instead of SIGIO
  // How it was reached, when it was opened by a path: for openat(), fchdir() and /proc. Set by open().
  std::shared_ptr<const Location> location;
  // The locks that it holds by flock() and as an open file description: they are released with it (locks.h).
  std::shared_ptr<void> whole_lock, record_locks;

  // The node that this is a file of. Pipes, sockets and the like also have nodes, for fstat() and /proc.
  [[nodiscard]] virtual const NodeRef& node() const = 0;
  // The text that /proc/PID/fd shows: "/usr/bin/env", "pipe:[12]".
  [[nodiscard]] virtual std::string description() const = 0;

  virtual Try<size_t> read(Caller&, Buffer&) { return err(EINVAL); }
  virtual Try<size_t> write(Caller&, Buffer&) { return err(EINVAL); }
  virtual Try<size_t> read_at(Caller&, Buffer&, uint64_t /*offset*/) { return err(ESPIPE); }
  virtual Try<size_t> write_at(Caller&, Buffer&, uint64_t /*offset*/) { return err(ESPIPE); }
  virtual Try<uint64_t> seek(int64_t /*offset*/, int /*whence*/) { return err(ESPIPE); }
  // POLLIN, POLLOUT, POLLERR, POLLHUP, POLLRDHUP, POLLPRI: all that hold now.
  virtual short ready() { return POLLIN | POLLOUT | POLLRDNORM | POLLWRNORM; }
  // Joins the queues that are woken when ready() may have changed. A file that is always ready has none.
  virtual void join(Waiter&) {}
  virtual bool can_poll() { return false; }  // regular files and directories cannot be in an epoll instance
  virtual Try<int64_t> ioctl(Caller&, uint64_t /*request*/, uint64_t /*argument*/) { return err(ENOTTY); }
  // Lists the entries one after another from the current position; add() returns whether it had room. Errors:
  // ENOTDIR.
  virtual Done list(const std::function<bool(const DirectoryEntry&)>& /*add*/) { return err(ENOTDIR); }
  virtual Done truncate(uint64_t /*size*/) { return err(EINVAL); }
  virtual Done sync() { return err(EINVAL); }
  // What backs a mapping of the file. Errors: ENODEV, EACCES.
  virtual Try<Backing> mapping(uint64_t /*offset*/, uint64_t /*length*/, bool /*is_shared*/,
                               int /*protection*/) {
    return err(ENODEV);
  }
  // Whether opening is complete. A FIFO waits for its other side: until it is complete, open() joins the
  // queues and keeps the file (Waiting::file) until the call is retried. The retry asks that file and does
  // not open another.
  virtual bool is_complete() { return true; }
  // A new description of the same object, as when /dev/tty opens the controlling terminal. Errors: ENXIO.
  virtual Try<FileRef> reopen(Caller&, int /*flags*/) { return err(ENXIO); }
  // A process closed a descriptor of the file; the description itself ends with its last reference.
  virtual void on_close(Caller&) {}

 private:
  static inline std::atomic<int> alive_ = 0;
};

}  // namespace membrane::linux
