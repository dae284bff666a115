// Pipes and FIFOs. Threads: the kernel's thread.
#pragma once

#include <algorithm>
#include <climits>
#include <utility>

#include "linux/files/byte_queue.h"
#include "linux/files/file.h"

namespace membrane::linux {

class AnonymousNode;  // anonymous_node.h

class Pipe {
 public:
  static constexpr size_t kUsualCapacity = 65536, kMostCapacity = 1 << 20;
  // The limit for all pipes of this process together. Beyond it new pipes get a small capacity and none can
  // grow, like Linux's pipe-user-pages-soft.
  static constexpr size_t kMostOfAll = 64u << 20, kLeastCapacity = 8192;
  Pipe() : Pipe(kUsualCapacity <= room_of_all() ? kUsualCapacity : kLeastCapacity) {}
  explicit Pipe(size_t of_capacity) : capacity_(of_capacity) { of_all_ += capacity_; }
  ~Pipe() { of_all_ -= capacity_; }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ByteQueue bytes;
  [[nodiscard]] size_t capacity() const { return capacity_; }
  // Errors: EPERM where all pipes have no room for it.
  Done set_capacity(size_t wanted);
  int readers = 0, writers = 0;                     // open ends
  uint64_t readers_so_far = 0, writers_so_far = 0;  // ever opened
  WaitQueue changed;
  [[nodiscard]] size_t room() const { return bytes.size() < capacity_ ? capacity_ - bytes.size() : 0; }

 private:
  static size_t room_of_all() { return kMostOfAll - std::min(of_all_, kMostOfAll); }
  static inline size_t of_all_ = 0;
  size_t capacity_;
};

// An open end; with O_RDWR (of a FIFO), both.
class PipeEnd final : public File {
 public:
  PipeEnd(std::shared_ptr<Pipe> pipe, NodeRef node, int with_flags);
  ~PipeEnd() override;
  [[nodiscard]] const NodeRef& node() const override { return node_; }
  [[nodiscard]] std::string description() const override;
  Try<size_t> read(Caller& caller, Buffer& to) override;
  Try<size_t> write(Caller& caller, Buffer& from) override;
  short ready() override;
  void join(Waiter& waiter) override { waiter.join(pipe_->changed); }
  bool can_poll() override { return true; }
  bool is_complete() override;
  Try<int64_t> ioctl(Caller& caller, uint64_t request, uint64_t argument) override;

  // F_GETPIPE_SZ and F_SETPIPE_SZ. The latter returns the resulting capacity, a power of two of whole pages.
  // Errors: EINVAL; EPERM above Pipe::kMostCapacity, or Pipe::kMostOfAll for all pipes; EBUSY when the pipe
  // holds more bytes.
  [[nodiscard]] int capacity() const { return static_cast<int>(pipe_->capacity()); }
  Try<int> set_capacity(uint64_t bytes);

  // For splice() and tee(): the bytes in the pipe, which drop() removes from the front, and how many bytes
  // can be written now.
  [[nodiscard]] std::span<const std::byte> waiting() const { return pipe_->bytes.bytes(); }
  void drop(size_t count);
  [[nodiscard]] size_t room() const { return pipe_->room(); }
  [[nodiscard]] bool has_writers() const { return pipe_->writers > 0; }
  [[nodiscard]] bool has_readers() const { return pipe_->readers > 0; }
  [[nodiscard]] bool is_same_pipe(const PipeEnd& other) const { return pipe_ == other.pipe_; }

 private:
  friend class FileState;  // linux/kept/file_state.h
  [[nodiscard]] bool reads() const;
  [[nodiscard]] bool writes() const;
  const std::shared_ptr<Pipe> pipe_;
  const NodeRef node_;
  const int opened_as_;                       // O_ACCMODE
  uint64_t readers_before_, writers_before_;  // the pipe's counts when this end was opened
  const bool is_named_;
};

// Opens the node of a nameless pipe: another end.
void open_as_pipe(AnonymousNode& node, const std::shared_ptr<Pipe>& pipe);

struct PipePair {
  FileRef reader, writer;
};
// `flags`: O_NONBLOCK. Errors: EINVAL for others (O_DIRECT, too).
Try<PipePair> make_pipe(const Credentials& owner, int flags);

// open() of a FIFO's node. `pipe` belongs to the node and is alive while anyone has it open. The file is
// complete at once with O_RDWR or O_NONBLOCK. Errors: ENXIO for O_WRONLY | O_NONBLOCK when no one reads.
Try<FileRef> open_fifo(std::weak_ptr<Pipe>& pipe, NodeRef node, int flags);

}  // namespace membrane::linux
