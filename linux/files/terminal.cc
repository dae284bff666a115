#include "linux/files/terminal.h"

#include <signal.h>
#include <termios.h>

#include <algorithm>
#include <cstring>

#include "linux/files/pty.h"

namespace membrane::linux {
namespace {

// With the speeds, as in TCGETS2 and TCSETS2.
struct TerminalModes2 {
  TerminalModes modes;
  uint32_t input_speed = 0, output_speed = 0;
};
static_assert(sizeof(TerminalModes2) == 44);

// `struct termio`.
struct OldTerminalModes {
  std::array<uint16_t, 4> flags = {};  // input, output, control, local
  uint8_t discipline = 0;
  std::array<uint8_t, 8> characters = {};
};
static_assert(sizeof(OldTerminalModes) == 18);

// Whether ^S and ^Q stop and start output, as far as a master could do that for the terminal.
bool has_flow_keys(const TerminalModes& modes) {
  return (modes.input & IXON) != 0 && modes.characters[VSTOP] == 0x13 && modes.characters[VSTART] == 0x11;
}

constexpr uint64_t kGetModes2 = 0x802c542a, kSetModes2 = 0x402c542b, kSetModesWait2 = 0x402c542c,
                   kSetModesFlush2 = 0x402c542d;

}  // namespace

Terminal::Terminal(Jobs& jobs, int its_number)
    : line([this](int signal) {
        if (foreground_ != 0) jobs_.signal_group(foreground_, signal);
      }),
      number(its_number),
      jobs_(jobs) {}

bool Terminal::controls(Caller& caller) const {
  const FileRef its = caller.terminal();
  const auto* controlling = dynamic_cast<const ControllingTerminal*>(its.get());
  return controlling != nullptr && controlling->terminal().get() == this;
}

Done Terminal::check_job(Caller& caller, int signal) {
  const int group = caller.process_group();
  if (!controls(caller) || group == foreground_) return {};
  if (caller.ignores(signal)) {
    if (signal == SIGTTIN) return err(EIO);
    return {};
  }
  if (caller.is_orphaned()) return err(EIO);
  caller.signal_group(group, signal);
  return err(kAskAgain);
}

Done Terminal::take(Caller& caller, bool steals) {
  const bool is_leader = caller.process_id() == caller.session();
  if (is_leader && session_ == caller.session() && controls(caller)) return {};
  if (!is_leader || caller.terminal() != nullptr) return err(EPERM);
  if (session_ != 0) {
    if (!steals || !caller.credentials().is_root()) return err(EPERM);
    jobs_.lose_terminal(session_);
  }
  session_ = caller.session();
  foreground_ = caller.process_group();
  caller.set_terminal(std::make_shared<ControllingTerminal>(shared_from_this()));
  return {};
}

void Terminal::take_if_free(Caller& caller) {
  if (session_ == 0) (void)take(caller, false);
}

Done Terminal::leave(Caller& caller) {
  if (!controls(caller)) return err(ENOTTY);
  const bool is_leader = caller.process_id() == caller.session();
  const int left_in_foreground = foreground_;
  if (is_leader) session_ = foreground_ = 0;
  caller.set_terminal(nullptr);
  if (is_leader && left_in_foreground != 0) {
    jobs_.signal_group(left_in_foreground, SIGHUP);
    jobs_.signal_group(left_in_foreground, SIGCONT);
  }
  return {};
}

Done Terminal::set_foreground(Caller& caller, int group) {
  MEMBRANE_TRY(check_job(caller, SIGTTOU));
  if (!controls(caller) || session_ != caller.session()) return err(ENOTTY);
  if (group < 0) return err(EINVAL);
  const int its_session = caller.session_of_group(group);
  if (its_session == 0) return err(ESRCH);
  if (its_session != session_) return err(EPERM);
  foreground_ = group;
  return {};
}

void Terminal::hang_up() {
  ++hang_ups;
  line.flush_input();
  end_session();
  changed.wake();
}

// As on Linux, a process that has a slave open continues with it.
void Terminal::end_session() {
  const int session = std::exchange(session_, 0), foreground = std::exchange(foreground_, 0);
  if (session != 0) {
    jobs_.signal_process(session, SIGHUP);
    jobs_.signal_process(session, SIGCONT);
    if (foreground != 0) jobs_.signal_group(foreground, SIGHUP);
    jobs_.lose_terminal(session);
  }
}

void Terminal::set_size(const winsize& to) {
  if (std::memcmp(&size, &to, sizeof to) == 0) return;
  size = to;
  if (foreground_ != 0) jobs_.signal_group(foreground_, SIGWINCH);
}

Done Terminal::flush(int what, bool is_master) {
  if (what != TCIFLUSH && what != TCOFLUSH && what != TCIOFLUSH) return err(EINVAL);
  // The input of one side is the output of the other.
  const int typed = is_master ? TCOFLUSH : TCIFLUSH, shown = is_master ? TCIFLUSH : TCOFLUSH;
  if (what == typed || what == TCIOFLUSH) line.flush_input();
  if (what == shown || what == TCIOFLUSH) line.output.clear();
  if (!is_master) {
    if (what != TCOFLUSH) tell_master(TIOCPKT_FLUSHREAD);
    if (what != TCIFLUSH) tell_master(TIOCPKT_FLUSHWRITE);
  }
  changed.wake();
  return {};
}

void Terminal::tell_master(int status, int instead_of) {
  if (!has_packets) return;
  packet_status = static_cast<uint8_t>((packet_status & ~instead_of) | status);
}

Done Terminal::read_and_set_modes(Caller& caller, uint64_t argument, bool flushes, bool has_speeds) {
  TerminalModes2 wanted = {.modes = {}, .input_speed = speeds_[0], .output_speed = speeds_[1]};
  if (has_speeds) {
    MEMBRANE_ASSIGN(wanted, caller.get<TerminalModes2>(argument));
  } else {
    MEMBRANE_ASSIGN(wanted.modes, caller.get<TerminalModes>(argument));
  }
  speeds_ = {wanted.input_speed, wanted.output_speed};
  set_modes(wanted.modes, flushes);
  return {};
}

void Terminal::set_modes(TerminalModes wanted, bool flushes) {
  if (flushes) line.flush_input();
  const bool had_flow_keys = has_flow_keys(line.modes());
  wanted.discipline = 0;
  wanted.control = (wanted.control & ~static_cast<uint32_t>(CSIZE | PARENB)) | CS8;  // as ptys
  line.set_modes(wanted);
  if (has_flow_keys(wanted) != had_flow_keys)
    tell_master(had_flow_keys ? TIOCPKT_NOSTOP : TIOCPKT_DOSTOP, TIOCPKT_NOSTOP | TIOCPKT_DOSTOP);
  changed.wake();
}

Try<int64_t> Terminal::old_mode_ioctl(Caller& caller, uint64_t request, uint64_t argument, bool is_master) {
  TerminalModes modes = line.modes();
  OldTerminalModes old;
  const std::array<uint32_t*, 4> flags = {&modes.input, &modes.output, &modes.control, &modes.local};
  if (request == TCGETA) {
    for (size_t i = 0; i < flags.size(); ++i) old.flags[i] = static_cast<uint16_t>(*flags[i]);
    std::copy_n(modes.characters.begin(), old.characters.size(), old.characters.begin());
    MEMBRANE_TRY(caller.put(argument, old));
    return 0;
  }
  if (!is_master) MEMBRANE_TRY(check_job(caller, SIGTTOU));
  MEMBRANE_ASSIGN(old, caller.get<OldTerminalModes>(argument));
  for (size_t i = 0; i < flags.size(); ++i) *flags[i] = (*flags[i] & 0xffff0000u) | old.flags[i];
  std::ranges::copy(old.characters, modes.characters.begin());
  set_modes(modes, request == TCSETAF);
  return 0;
}

Try<int64_t> Terminal::mode_ioctl(Caller& caller, uint64_t request, uint64_t argument, bool is_master) {
  switch (request) {
    case TCGETS: MEMBRANE_TRY(caller.put(argument, line.modes())); return 0;
    case kGetModes2:
      MEMBRANE_TRY(caller.put(argument, TerminalModes2{line.modes(), speeds_[0], speeds_[1]}));
      return 0;
    case TCSETS:
    case TCSETSW:
    case TCSETSF:
    case kSetModes2:
    case kSetModesWait2:
    case kSetModesFlush2:
      if (!is_master) MEMBRANE_TRY(check_job(caller, SIGTTOU));
      MEMBRANE_TRY(read_and_set_modes(caller, argument, request == TCSETSF || request == kSetModesFlush2,
                                      request != TCSETS && request != TCSETSW && request != TCSETSF));
      return 0;
    case TCGETA:
    case TCSETA:
    case TCSETAW:
    case TCSETAF: return old_mode_ioctl(caller, request, argument, is_master);
    case TIOCGETD: MEMBRANE_TRY(caller.put(argument, 0)); return 0;
    case TIOCSETD: {
      MEMBRANE_ASSIGN(const int discipline, caller.get<int>(argument));
      if (discipline != 0) return err(EINVAL);
      return 0;
    }
    default: return err(ENOTTY);
  }
}

Try<int64_t> Terminal::job_ioctl(Caller& caller, uint64_t request, uint64_t argument, bool is_master) {
  switch (request) {
    case TIOCGPGRP:
    case TIOCGSID:
      if (!is_master && !controls(caller)) return err(ENOTTY);
      if (request == TIOCGSID && session_ == 0) return err(ENOTTY);
      MEMBRANE_TRY(caller.put(argument, request == TIOCGSID ? session_ : foreground_));
      return 0;
    case TIOCSPGRP: {
      MEMBRANE_ASSIGN(const int group, caller.get<int>(argument));
      MEMBRANE_TRY(set_foreground(caller, group));
      return 0;
    }
    case TIOCSCTTY:
      if (is_master) return err(ENOTTY);
      MEMBRANE_TRY(take(caller, argument == 1));
      return 0;
    case TIOCNOTTY: MEMBRANE_TRY(leave(caller)); return 0;
    default: return err(ENOTTY);
  }
}

Try<int64_t> Terminal::ioctl(Caller& caller, uint64_t request, uint64_t argument, bool is_master) {
  switch (request) {
    case TIOCGWINSZ: MEMBRANE_TRY(caller.put(argument, size)); return 0;
    case TIOCSWINSZ: {
      MEMBRANE_ASSIGN(const winsize wanted, caller.get<winsize>(argument));
      set_size(wanted);
      return 0;
    }
    case TCFLSH:
      if (!is_master) MEMBRANE_TRY(check_job(caller, SIGTTOU));
      MEMBRANE_TRY(flush(static_cast<int>(argument), is_master));
      return 0;
    case FIONREAD: {
      const size_t there = is_master ? line.output.size() : line.readable_bytes();
      MEMBRANE_TRY(caller.put(argument, static_cast<int>(there)));
      return 0;
    }
    case TIOCOUTQ: MEMBRANE_TRY(caller.put(argument, 0)); return 0;
    // Output never stops, and there is no line on which to send a break.
    case TCXONC:
    case TCSBRK:
    case TCSBRKP:
      if (!is_master) MEMBRANE_TRY(check_job(caller, SIGTTOU));
      return 0;
    case TIOCSTI: return err(EIO);  // as where typing for others is turned off
    case TIOCGPGRP:
    case TIOCGSID:
    case TIOCSPGRP:
    case TIOCSCTTY:
    case TIOCNOTTY: return job_ioctl(caller, request, argument, is_master);
    default: return mode_ioctl(caller, request, argument, is_master);
  }
}

Try<FileRef> ControllingTerminal::reopen(Caller&, int how) { return open_slave(terminal_, how); }

void end_session(File& controlling_terminal) {
  if (auto* controlling = dynamic_cast<ControllingTerminal*>(&controlling_terminal))
    controlling->terminal()->end_session();
}

}  // namespace membrane::linux
