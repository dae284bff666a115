#include "linux/files/event_file.h"

#include <fcntl.h>
#include <sys/eventfd.h>

#include "linux/files/anonymous_node.h"

namespace membrane::linux {
namespace {

constexpr uint64_t kMost = UINT64_MAX - 1;

}  // namespace

EventFile::EventFile(uint32_t initial, bool is_semaphore, NodeRef node)
    : count_(initial), is_semaphore_(is_semaphore), node_(std::move(node)) {
  flags = O_RDWR;
}

Try<size_t> EventFile::read(Caller&, Buffer& to) {
  if (to.size() < sizeof count_) return err(EINVAL);
  if (count_ == 0) return err(EAGAIN);
  const uint64_t value = is_semaphore_ ? 1 : count_;
  MEMBRANE_ASSIGN(const size_t done, to.put(std::as_bytes(std::span(&value, 1))));
  if (done < sizeof value) return err(EFAULT);
  count_ -= value;
  changed_.wake();
  return done;
}

Try<size_t> EventFile::write(Caller&, Buffer& from) {
  uint64_t value = 0;
  if (from.size() < sizeof value) return err(EINVAL);
  MEMBRANE_ASSIGN(const size_t taken, from.take(std::as_writable_bytes(std::span(&value, 1))));
  if (taken < sizeof value) return err(EFAULT);
  if (value > kMost) return err(EINVAL);
  if (value > kMost - count_) return err(EAGAIN);
  count_ += value;
  changed_.wake();
  return taken;
}

short EventFile::ready() {
  int events = 0;
  if (count_ > 0) events |= POLLIN | POLLRDNORM;
  if (count_ < kMost) events |= POLLOUT | POLLWRNORM;
  return static_cast<short>(events);
}

Try<FileRef> make_event_file(uint32_t initial, int flags) {
  if ((flags & ~(EFD_SEMAPHORE | EFD_NONBLOCK | EFD_CLOEXEC)) != 0) return err(EINVAL);
  auto node = make_anonymous_node(AnonymousDevice::kOthers, 0600);
  std::shared_ptr<EventFile> file(new EventFile(initial, (flags & EFD_SEMAPHORE) != 0, std::move(node)));
  file->flags |= flags & EFD_NONBLOCK;
  return file;
}

}  // namespace membrane::linux
