// signalfd: the pending signals of the task that reads it. Threads: the kernel's thread.
#pragma once

#include "linux/files/file.h"
#include "linux/files/services.h"

namespace membrane::linux {

class SignalFile final : public File {
 public:
  [[nodiscard]] const NodeRef& node() const override { return node_; }
  [[nodiscard]] std::string description() const override { return "anon_inode:[signalfd]"; }
  // Reads as many signalfd_siginfo as there are signals and room for. Errors: EAGAIN; EINVAL when not even
  // one fits.
  Try<size_t> read(Caller& caller, Buffer& to) override;
  short ready() override;
  void join(Waiter& waiter) override;
  bool can_poll() override { return true; }
  // SIGKILL and SIGSTOP are left out. Bit N-1 is signal N.
  void set_signals(uint64_t set);
  [[nodiscard]] uint64_t signals() const { return set_; }

 private:
  friend class FileState;  // linux/kept/file_state.h
  friend Try<std::shared_ptr<SignalFile>> make_signal_file(Signals& signals, uint64_t set, int flags);
  SignalFile(Signals& signals, uint64_t set, NodeRef node);
  Signals& signals_;
  uint64_t set_ = 0;
  const NodeRef node_;
  WaitQueue set_changed_;
};

// `signals` outlives the file. `flags`: SFD_NONBLOCK, SFD_CLOEXEC (which is the descriptor's). Errors: EINVAL for others.
Try<std::shared_ptr<SignalFile>> make_signal_file(Signals& signals, uint64_t set, int flags);

}  // namespace membrane::linux
