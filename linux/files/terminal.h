// A terminal: its line discipline, its size, and the session that it controls. pty.h opens it. Threads: the kernel's thread.
#pragma once

#include <sys/ioctl.h>

#include <memory>

#include "linux/files/file.h"
#include "linux/files/line_discipline.h"
#include "linux/files/services.h"

namespace membrane::linux {

class Terminal : public std::enable_shared_from_this<Terminal> {
 public:
  // `jobs` outlives it.
  Terminal(Jobs& jobs, int number);

  LineDiscipline line;
  winsize size = {};
  bool is_locked = true;    // TIOCSPTLCK: slaves cannot be opened
  int slaves = 0;           // open descriptions, including dead ones
  bool had_slaves = false;  // since its creation
  bool has_master = true;
  bool has_packets = false;   // TIOCPKT: the master receives status changes
  uint8_t packet_status = 0;  // TIOCPKT_FLUSHREAD… not yet read
  uint64_t hang_ups = 0;      // descriptions opened before the last one are dead
  WaitQueue changed;
  NodeRef node;  // the slave's, in devpts
  const int number;

  // -- jobs. A session of 0 is none.
  [[nodiscard]] int session() const { return session_; }
  [[nodiscard]] int foreground() const { return foreground_; }
  [[nodiscard]] bool controls(Caller& caller) const;
  // The job control that a background process meets when it reads (SIGTTIN), or writes or changes modes
  // (SIGTTOU): its group gets the signal. Errors: kAskAgain; EIO where the signal would have no effect.
  Done check_job(Caller& caller, int signal);
  // Makes it the caller's controlling terminal, with the caller's group in the foreground. `steals`: root may
  // take it from another session. Errors: EPERM.
  Done take(Caller& caller, bool steals);
  // Like take(), for open(): does nothing where take() would fail.
  void take_if_free(Caller& caller);
  // TIOCNOTTY. Errors: ENOTTY.
  Done leave(Caller& caller);
  // TIOCSPGRP. Errors: ENOTTY, EINVAL, ESRCH, EPERM, those of check_job().
  Done set_foreground(Caller& caller, int group);

  // The master was closed: open descriptions are dead, and the session ends.
  void hang_up();
  // The session's leader has ended: the session loses the terminal and gets SIGHUP.
  void end_session();
  void set_size(const winsize& to);

  // Requests that master and slave have in common: modes, size, flushing.
  Try<int64_t> ioctl(Caller& caller, uint64_t request, uint64_t argument, bool is_master);

 private:
  friend class FileState;  // linux/kept/file_state.h
  Try<int64_t> mode_ioctl(Caller& caller, uint64_t request, uint64_t argument, bool is_master);
  Try<int64_t> job_ioctl(Caller& caller, uint64_t request, uint64_t argument, bool is_master);
  Done read_and_set_modes(Caller& caller, uint64_t argument, bool flushes, bool has_speeds);
  void set_modes(TerminalModes wanted, bool flushes);
  // System V modes, which have half as many bits.
  Try<int64_t> old_mode_ioctl(Caller& caller, uint64_t request, uint64_t argument, bool is_master);
  void tell_master(int status, int instead_of = 0);
  Done flush(int what, bool is_master);
  Jobs& jobs_;
  int session_ = 0, foreground_ = 0;
  std::array<uint32_t, 2> speeds_ = {38400, 38400};
};

// The value of Caller::terminal(): a terminal that is not open. Opening /dev/tty opens it.
class ControllingTerminal final : public File {
 public:
  explicit ControllingTerminal(std::shared_ptr<Terminal> terminal) : terminal_(std::move(terminal)) {}
  [[nodiscard]] const NodeRef& node() const override { return terminal_->node; }
  [[nodiscard]] std::string description() const override { return "/dev/tty"; }
  Try<FileRef> reopen(Caller& caller, int flags) override;
  [[nodiscard]] const std::shared_ptr<Terminal>& terminal() const { return terminal_; }

 private:
  const std::shared_ptr<Terminal> terminal_;
};

// For the kernel: the leader of the session that this terminal controls has ended.
void end_session(File& controlling_terminal);

}  // namespace membrane::linux
