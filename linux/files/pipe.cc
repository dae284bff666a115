#include "linux/files/pipe.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <bit>

#include "linux/files/anonymous_node.h"
#include "linux/files/regular_file.h"

namespace membrane::linux {
namespace {

constexpr size_t kPageBytes = 4096;

}  // namespace

Done Pipe::set_capacity(size_t wanted) {
  if (wanted > capacity_ && wanted - capacity_ > room_of_all()) return err(EPERM);
  of_all_ = of_all_ - capacity_ + wanted;
  capacity_ = wanted;
  return {};
}

PipeEnd::PipeEnd(std::shared_ptr<Pipe> pipe, NodeRef node, int with_flags)
    : pipe_(std::move(pipe)),
      node_(std::move(node)),
      opened_as_(with_flags & O_ACCMODE),
      readers_before_(pipe_->readers_so_far),
      writers_before_(pipe_->writers_so_far),
      is_named_(dynamic_cast<AnonymousNode*>(node_.get()) == nullptr) {
  flags = with_flags & (O_ACCMODE | O_NONBLOCK);
  if (reads()) {
    ++pipe_->readers;
    ++pipe_->readers_so_far;
  }
  if (writes()) {
    ++pipe_->writers;
    ++pipe_->writers_so_far;
  }
  pipe_->changed.wake();
}

PipeEnd::~PipeEnd() {
  if (reads()) --pipe_->readers;
  if (writes()) --pipe_->writers;
  pipe_->changed.wake();
}

bool PipeEnd::reads() const { return opened_as_ != O_WRONLY; }
bool PipeEnd::writes() const { return opened_as_ != O_RDONLY; }

std::string PipeEnd::description() const {
  return is_named_ ? description_of(location, *node_) : anonymous_name("pipe", *node_);
}

bool PipeEnd::is_complete() {
  // A nameless pipe that is opened through /proc/PID/fd already exists.
  if (!is_named_ || opened_as_ == O_RDWR || (flags & O_NONBLOCK) != 0) return true;
  // The other side may have come and gone.
  if (opened_as_ == O_RDONLY) return pipe_->writers > 0 || pipe_->writers_so_far != writers_before_;
  return pipe_->readers > 0 || pipe_->readers_so_far != readers_before_;
}

Try<size_t> PipeEnd::read(Caller&, Buffer& to) {
  if (!reads()) return err(EBADF);
  if (to.size() == 0) return 0;
  if (pipe_->bytes.is_empty()) {
    if (pipe_->writers > 0) return err(EAGAIN);
    return 0;
  }
  MEMBRANE_ASSIGN(const size_t count, pipe_->bytes.give_to(to, to.size()));
  pipe_->changed.wake();
  return count;
}

Try<size_t> PipeEnd::write(Caller& caller, Buffer& from) {
  if (!writes()) return err(EBADF);
  const size_t size = from.size();
  if (size == 0) return 0;
  if (pipe_->readers == 0) {
    caller.signal_self(SIGPIPE);
    return err(EPIPE);
  }
  const size_t room = pipe_->room();
  if (room < std::min<size_t>(size, PIPE_BUF)) {
    // Up to PIPE_BUF bytes are written as a whole or not at all.
    if (size <= PIPE_BUF || room == 0) return err(EAGAIN);
  }
  MEMBRANE_ASSIGN(const size_t count, pipe_->bytes.take_from(from, room));
  pipe_->changed.wake();
  return count;
}

short PipeEnd::ready() {
  int events = 0;
  if (reads()) {
    if (!pipe_->bytes.is_empty()) events |= POLLIN | POLLRDNORM;
    if (pipe_->writers == 0 && pipe_->writers_so_far != writers_before_) events |= POLLHUP;
  }
  if (writes()) {
    if (pipe_->room() >= PIPE_BUF) events |= POLLOUT | POLLWRNORM;
    if (pipe_->readers == 0) events |= POLLERR;
  }
  return static_cast<short>(events);
}

Try<int64_t> PipeEnd::ioctl(Caller& caller, uint64_t request, uint64_t argument) {
  if (request != FIONREAD) return err(ENOTTY);
  MEMBRANE_TRY(caller.put(argument, static_cast<int>(pipe_->bytes.size())));
  return 0;
}

Try<int> PipeEnd::set_capacity(uint64_t bytes) {
  if (bytes > INT_MAX) return err(EINVAL);
  if (bytes > Pipe::kMostCapacity) return err(EPERM);
  const size_t wanted = std::max(kPageBytes, std::bit_ceil(static_cast<size_t>(bytes)));
  if (wanted < pipe_->bytes.size()) return err(EBUSY);
  MEMBRANE_TRY(pipe_->set_capacity(wanted));
  pipe_->changed.wake();
  return static_cast<int>(wanted);
}

void open_as_pipe(AnonymousNode& node, const std::shared_ptr<Pipe>& pipe) {
  node.set_opener([opened = std::weak_ptr(pipe)](const NodeRef& of, int with) mutable {
    return open_fifo(opened, of, with);
  });
}

void PipeEnd::drop(size_t count) {
  pipe_->bytes.drop(count);
  pipe_->changed.wake();
}

Try<PipePair> make_pipe(const Credentials& owner, int flags) {
  if ((flags & ~O_NONBLOCK) != 0) return err(EINVAL);
  auto pipe = std::make_shared<Pipe>();
  auto node = make_anonymous_node(AnonymousDevice::kPipes, S_IFIFO | 0600, owner);
  open_as_pipe(*node, pipe);
  auto reader = std::make_shared<PipeEnd>(pipe, node, O_RDONLY | flags);
  return PipePair{.reader = reader, .writer = std::make_shared<PipeEnd>(pipe, node, O_WRONLY | flags)};
}

Try<FileRef> open_fifo(std::weak_ptr<Pipe>& pipe, NodeRef node, int flags) {
  auto of_node = pipe.lock();
  if (of_node == nullptr) pipe = of_node = std::make_shared<Pipe>();
  if ((flags & O_ACCMODE) == O_WRONLY && (flags & O_NONBLOCK) != 0 && of_node->readers == 0)
    return err(ENXIO);
  return std::make_shared<PipeEnd>(of_node, std::move(node), flags);
}

}  // namespace membrane::linux
