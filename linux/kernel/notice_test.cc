// F_NOTIFY: signals for events in a directory.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>

#include "linux/kernel/scripted_testing.h"

namespace membrane::linux {
namespace {

constexpr uint64_t kA = ScriptedKernel::kScratch, kB = kA + 256, kInfo = kA + 512, kTime = kA + 1024;

void take(ScriptedThread& t, int signal) {
  t.put(kB, bit_of(signal));
  t.put(kTime, timespec{0, 0});
  t.call(SYS_rt_sigtimedwait, {kB, kInfo, kTime, 8});
}
void make(ScriptedThread& t, std::string_view path) {
  t.put_text(kA, path);
  t.call(SYS_mkdir, {kA, 0755});
}

// Once, until it is asked for again; with F_SETSIG the signal says of which descriptor.
TEST(NoticeTest, ADirectorySendsASignal) {
  ScriptedKernel on;
  uint64_t directory = 0;
  const auto ask = [&](uint64_t kinds) {
    return [&directory, kinds](ScriptedThread& t) { t.call(SYS_fcntl, {directory, F_NOTIFY, kinds}); };
  };
  on.run(steps({[](ScriptedThread& t) {
                  t.put(kB, bit_of(SIGIO) | bit_of(SIGRTMIN));
                  t.call(SYS_rt_sigprocmask, {SIG_BLOCK, kB, 0, 8});
                },
                [](ScriptedThread& t) {
                  t.put_text(kA, "/tmp");
                  t.call(SYS_open, {kA, O_RDONLY | O_DIRECTORY, 0});
                },
                [&](ScriptedThread& t) {
                  directory = static_cast<uint64_t>(t.result());
                  ask(DN_CREATE)(t);
                },
                [](ScriptedThread& t) {
                  EXPECT_EQ(t.result(), 0);
                  make(t, "/other-place");
                },
                [](ScriptedThread& t) { take(t, SIGIO); },
                [](ScriptedThread& t) {
                  EXPECT_EQ(t.result(), -EAGAIN);
                  make(t, "/tmp/a");
                },
                [](ScriptedThread& t) { take(t, SIGIO); },
                [](ScriptedThread& t) {
                  EXPECT_EQ(t.result(), SIGIO);
                  make(t, "/tmp/b");
                },
                [](ScriptedThread& t) { take(t, SIGIO); },
                [&](ScriptedThread& t) {
                  EXPECT_EQ(t.result(), -EAGAIN);
                  t.call(SYS_fcntl, {directory, F_SETSIG, static_cast<uint64_t>(SIGRTMIN)});
                },
                ask(DN_DELETE | DN_MULTISHOT),
                [](ScriptedThread& t) {
                  t.put_text(kA, "/tmp/b");
                  t.call(SYS_rmdir, {kA});
                },
                [](ScriptedThread& t) { take(t, SIGRTMIN); },
                [&](ScriptedThread& t) {
                  EXPECT_EQ(t.result(), SIGRTMIN);
                  EXPECT_EQ(static_cast<uint64_t>(t.get<siginfo_t>(kInfo).si_fd), directory);
                  t.call(SYS_close, {directory});
                },
                [](ScriptedThread& t) {
                  t.put_text(kA, "/tmp/a");
                  t.call(SYS_rmdir, {kA});
                },
                [](ScriptedThread& t) { take(t, SIGRTMIN); },
                [](ScriptedThread& t) {
                  EXPECT_EQ(t.result(), -EAGAIN);
                  t.call(SYS_fcntl, {0, F_NOTIFY, DN_CREATE});
                },
                [](ScriptedThread& t) {
                  EXPECT_LT(t.result(), 0);
                  t.call(SYS_getpid);
                }}));
}

}  // namespace
}  // namespace membrane::linux
