#include "linux/files/signal_file.h"

#include <fcntl.h>
#include <sys/signalfd.h>

#include "linux/files/anonymous_node.h"

namespace membrane::linux {
namespace {

constexpr uint64_t kNeverTaken = uint64_t{1} << (SIGKILL - 1) | uint64_t{1} << (SIGSTOP - 1);

signalfd_siginfo record_of(const siginfo_t& info) {
  signalfd_siginfo record = {};
  record.ssi_signo = static_cast<uint32_t>(info.si_signo);
  record.ssi_errno = info.si_errno;
  record.ssi_code = info.si_code;
  if (info.si_signo == SIGCHLD && info.si_code > 0) {
    record.ssi_pid = static_cast<uint32_t>(info.si_pid);
    record.ssi_uid = info.si_uid;
    record.ssi_status = info.si_status;
    record.ssi_utime = static_cast<uint64_t>(info.si_utime);
    record.ssi_stime = static_cast<uint64_t>(info.si_stime);
  } else if (info.si_code == SI_TIMER) {
    record.ssi_tid = static_cast<uint32_t>(info.si_timerid);
    record.ssi_overrun = static_cast<uint32_t>(info.si_overrun);
    record.ssi_int = info.si_int;
    record.ssi_ptr = reinterpret_cast<uint64_t>(info.si_ptr);
  } else {
    record.ssi_pid = static_cast<uint32_t>(info.si_pid);
    record.ssi_uid = info.si_uid;
    record.ssi_int = info.si_int;
    record.ssi_ptr = reinterpret_cast<uint64_t>(info.si_ptr);
  }
  return record;
}

}  // namespace

SignalFile::SignalFile(Signals& signals, uint64_t set, NodeRef node)
    : signals_(signals), set_(set & ~kNeverTaken), node_(std::move(node)) {
  flags = O_RDWR;
}

void SignalFile::set_signals(uint64_t set) {
  set_ = set & ~kNeverTaken;
  set_changed_.wake();
}

Try<size_t> SignalFile::read(Caller&, Buffer& to) {
  if (to.size() < sizeof(signalfd_siginfo)) return err(EINVAL);
  size_t done = 0;
  while (to.size() >= sizeof(signalfd_siginfo)) {
    const auto info = signals_.take_pending(set_);
    if (!info) break;
    const signalfd_siginfo record = record_of(*info);
    const auto put = to.put(std::as_bytes(std::span(&record, 1)));
    if (!put || *put < sizeof record) return done > 0 ? Try<size_t>(done) : err(EFAULT);
    done += sizeof record;
  }
  if (done == 0) return err(EAGAIN);
  return done;
}

short SignalFile::ready() { return signals_.has_pending(set_) ? POLLIN | POLLRDNORM : 0; }

void SignalFile::join(Waiter& waiter) {
  waiter.join(set_changed_);
  if (WaitQueue* arrivals = signals_.arrivals()) waiter.join(*arrivals);
}

Try<std::shared_ptr<SignalFile>> make_signal_file(Signals& signals, uint64_t set, int flags) {
  if ((flags & ~(SFD_NONBLOCK | SFD_CLOEXEC)) != 0) return err(EINVAL);
  std::shared_ptr<SignalFile> file(
      new SignalFile(signals, set, make_anonymous_node(AnonymousDevice::kOthers, 0600)));
  file->flags |= flags & SFD_NONBLOCK;
  return file;
}

}  // namespace membrane::linux
