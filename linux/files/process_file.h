// pidfd: a descriptor that refers to a process and becomes readable when the process ends. Threads: the
// kernel's thread.
#pragma once

#include "linux/files/file.h"

namespace membrane::linux {

// The end of one process. The kernel holds it as long as the process and reports the end once. Files outlive
// both.
struct ProcessEnd {
  const int process;
  bool has_ended = false;
  WaitQueue ended;

  explicit ProcessEnd(int id) : process(id) {}
  void tell() {
    has_ended = true;
    ended.wake();
  }
};

class ProcessFile final : public File {
 public:
  // `flags`: PIDFD_NONBLOCK, which is O_NONBLOCK.
  ProcessFile(std::shared_ptr<ProcessEnd> end, int with_flags);
  [[nodiscard]] const NodeRef& node() const override { return node_; }
  [[nodiscard]] std::string description() const override { return "anon_inode:[pidfd]"; }
  short ready() override { return end_->has_ended ? POLLIN | POLLRDNORM : 0; }
  void join(Waiter& waiter) override { waiter.join(end_->ended); }
  bool can_poll() override { return true; }
  // For pidfd_send_signal() and waitid(): refers to the process until it has ended and been waited for (the
  // kernel knows).
  [[nodiscard]] const ProcessEnd& end() const { return *end_; }

 private:
  friend class FileState;  // linux/kept/file_state.h
  const std::shared_ptr<ProcessEnd> end_;
  const NodeRef node_;
};

}  // namespace membrane::linux
