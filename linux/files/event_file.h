// eventfd: a counter that callers can wait for. Threads: the kernel's thread.
#pragma once

#include "linux/files/file.h"

namespace membrane::linux {

class EventFile final : public File {
 public:
  [[nodiscard]] const NodeRef& node() const override { return node_; }
  [[nodiscard]] std::string description() const override { return "anon_inode:[eventfd]"; }
  // Errors: EINVAL for fewer than 8 bytes; EAGAIN when reading 0, and when a write would overflow.
  Try<size_t> read(Caller& caller, Buffer& to) override;
  Try<size_t> write(Caller& caller, Buffer& from) override;
  short ready() override;
  void join(Waiter& waiter) override { waiter.join(changed_); }
  bool can_poll() override { return true; }

 private:
  friend class FileState;  // linux/kept/file_state.h
  friend Try<FileRef> make_event_file(uint32_t initial, int flags);
  EventFile(uint32_t initial, bool is_semaphore, NodeRef node);
  uint64_t count_;
  const bool is_semaphore_;
  const NodeRef node_;
  WaitQueue changed_;
};

// `flags`: EFD_SEMAPHORE, EFD_NONBLOCK, EFD_CLOEXEC (which is the descriptor's). Errors: EINVAL.
Try<FileRef> make_event_file(uint32_t initial, int flags);

}  // namespace membrane::linux
