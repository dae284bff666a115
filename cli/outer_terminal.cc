#include "cli/outer_terminal.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace membrane::cli {

namespace {

sigset_t watched_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int each : {SIGWINCH, SIGCONT, SIGTSTP, SIGTERM, SIGHUP, SIGINT, SIGQUIT}) sigaddset(&set, each);
  return set;
}

}  // namespace

Result<std::unique_ptr<OuterTerminal>> OuterTerminal::take(std::atomic<bool>& cancelled) {
  std::unique_ptr<OuterTerminal> terminal(new OuterTerminal(cancelled));
  if (tcgetattr(STDIN_FILENO, &terminal->before_) != 0)
    return fail(
        ErrorCode::kInvalidArgument, "standard input is not a terminal",
        "Run it on a terminal, or a single command without one: membrane run --kind linux -- COMMAND.");
  const sigset_t watched = watched_signals();
  pthread_sigmask(SIG_BLOCK, &watched, &terminal->mask_before_);
  terminal->make_raw();
  return terminal;
}

OuterTerminal::~OuterTerminal() {
  restore();
  pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
}

void OuterTerminal::make_raw() const {
  termios raw = before_;
  cfmakeraw(&raw);
  tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
}

void OuterTerminal::restore() const { tcsetattr(STDIN_FILENO, TCSADRAIN, &before_); }

linux::TerminalSize OuterTerminal::size() {
  winsize window = {};
  if (ioctl(STDIN_FILENO, TIOCGWINSZ, &window) != 0 || window.ws_col == 0 || window.ws_row == 0) return {};
  return {.columns = window.ws_col, .rows = window.ws_row};
}

void OuterTerminal::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t done = ::write(STDOUT_FILENO, bytes.data(), bytes.size());
    if (done < 0 && errno == EAGAIN) {
      pollfd room = {STDOUT_FILENO, POLLOUT, 0};
      poll(&room, 1, -1);
    } else if (done < 0 && errno != EINTR) {
      return;  // nobody sees it
    }
    if (done > 0) bytes.remove_prefix(static_cast<size_t>(done));
  }
}

// Another process has stopped this one: the outer shell has its terminal meanwhile.
void OuterTerminal::stop_and_continue() const {
  restore();
  kill(getpid(), SIGSTOP);
}

// A thread that receives the signals.
class OuterTerminal::Watch {
 public:
  Watch(OuterTerminal& terminal, linux::Command& command)
      : terminal_(terminal), command_(command), stop_(eventfd(0, EFD_CLOEXEC)) {
    const sigset_t watched = watched_signals();
    signals_ = linux::HostFile(signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));
    thread_ = std::thread([this] { watch(); });
  }
  ~Watch() {
    const uint64_t one = 1;
    if (::write(stop_.number(), &one, sizeof one) < 0) {}  // it has room
    thread_.join();
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  void watch() {
    for (;;) {
      std::array<pollfd, 2> looked = {{{signals_.number(), POLLIN, 0}, {stop_.number(), POLLIN, 0}}};
      if (poll(looked.data(), looked.size(), -1) < 0 && errno != EINTR) return;
      if (looked[1].revents != 0) return;
      signalfd_siginfo heard = {};
      if (read(signals_.number(), &heard, sizeof heard) == sizeof heard)
        obey(static_cast<int>(heard.ssi_signo));
    }
  }
  void obey(int signal) {
    switch (signal) {
      case SIGWINCH: command_.resize(size()); break;
      case SIGTSTP: terminal_.stop_and_continue(); break;
      case SIGCONT:
        terminal_.make_raw();
        command_.resize(size());
        break;
      default: terminal_.cancelled_ = true;
    }
  }

  OuterTerminal& terminal_;
  linux::Command& command_;
  const linux::HostFile stop_;
  linux::HostFile signals_;
  std::thread thread_;
};

std::shared_ptr<void> OuterTerminal::accompany(linux::Command& command) {
  auto watch = std::make_shared<Watch>(*this, command);
  command.resize(size());  // it may have changed meanwhile
  return watch;
}

}  // namespace membrane::cli
