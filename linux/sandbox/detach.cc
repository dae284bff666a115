#include "linux/sandbox/detach.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace membrane::linux {

namespace {

constexpr int kSocket = 3;

}  // namespace

HostFile leave_owner(HostFile socket) {
  setsid();
  for (int number = 1; number < NSIG; ++number) signal(number, SIG_DFL);
  signal(SIGPIPE, SIG_IGN);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const int kept = fcntl(socket.number(), F_DUPFD_CLOEXEC, 64);
  socket.close();
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int number = 0; number < kSocket; ++number)
    if (null >= 0) dup2(null, number);
  if (kept < 0 || dup3(kept, kSocket, O_CLOEXEC) != kSocket) _exit(1);
  if (syscall(SYS_close_range, kSocket + 1, ~0u, 0) != 0)
    for (int number = kSocket + 1; number < 4096; ++number) close(number);
  return HostFile(kSocket);
}

}  // namespace membrane::linux
