// POSIX timers and interval timers.
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/time.h>

#include "linux/kernel/scripted_testing.h"

namespace membrane::linux {
namespace {

constexpr uint64_t kA = ScriptedKernel::kScratch, kB = kA + 256, kC = kA + 512;
constexpr int64_t kMs = 1'000'000;

// The kernel's sigevent: a value, a signal, SIGEV_SIGNAL.
struct Event {
  uint64_t value = 0;
  int32_t signal = 0, notify = 0;
  std::array<int32_t, 12> rest = {};
};

void block(ScriptedThread& t, int signal) {
  t.put(kB, bit_of(signal));
  t.call(SYS_rt_sigprocmask, {SIG_BLOCK, kB, 0, 8});
}
void create(ScriptedThread& t, int signal) {
  t.put(kA, Event{.value = 77, .signal = signal, .notify = SIGEV_SIGNAL});
  t.call(SYS_timer_create, {CLOCK_MONOTONIC, kA, kC});
}
void set(ScriptedThread& t, int64_t first, int64_t interval) {
  t.put(kA, itimerspec{.it_interval = {0, interval}, .it_value = {0, first}});
  t.call(SYS_timer_settime, {0, 0, kA, 0});
}
void sleep(ScriptedThread& t, int64_t ns) {
  t.put(kA, timespec{ns / 1'000'000'000, ns % 1'000'000'000});
  t.call(SYS_nanosleep, {kA, 0});
}
void take(ScriptedThread& t, int signal) {
  t.put(kB, bit_of(signal));
  t.put(kA, timespec{10, 0});
  t.call(SYS_rt_sigtimedwait, {kB, kC, kA, 8});
}

TEST(TimersTest, SendOneSignalForExpiriesThatWereNotTaken) {
  ScriptedKernel on;
  siginfo_t info = {};
  int64_t overrun = -1, pending = -1;
  const int status = on.run(
      steps({[](ScriptedThread& t) { block(t, SIGUSR1); }, [](ScriptedThread& t) { create(t, SIGUSR1); },
             [](ScriptedThread& t) {
               EXPECT_EQ(t.result(), 0);
               EXPECT_EQ(t.get<int32_t>(kC), 0);
               set(t, 10 * kMs, 10 * kMs);
             },
             [](ScriptedThread& t) { sleep(t, 95 * kMs); }, [](ScriptedThread& t) { take(t, SIGUSR1); },
             [&](ScriptedThread& t) {
               EXPECT_EQ(t.result(), SIGUSR1);
               info = t.get<siginfo_t>(kC);
               t.call(SYS_timer_getoverrun, {0});
             },
             [&](ScriptedThread& t) {
               overrun = t.result();
               t.call(SYS_timer_delete, {0});
             },
             [](ScriptedThread& t) { sleep(t, 50 * kMs); },
             [](ScriptedThread& t) { t.call(SYS_rt_sigpending, {kC, 8}); },
             [&](ScriptedThread& t) {
               pending = t.get<int64_t>(kC);
               t.call(SYS_timer_delete, {0});
             },
             [](ScriptedThread& t) {
               EXPECT_EQ(t.result(), -EINVAL);
               t.call(SYS_getpid);
             }}));
  EXPECT_EQ(status, 0);
  EXPECT_EQ(info.si_code, SI_TIMER);
  EXPECT_EQ(reinterpret_cast<uint64_t>(info.si_value.sival_ptr), 77u);
  EXPECT_EQ(overrun, 8);
  EXPECT_EQ(info.si_overrun, 8);
  EXPECT_EQ(pending, 0);
}

TEST(TimersTest, OneThatIsIgnoredDoesNotKeepTheKernelBusy) {
  ScriptedKernel on;
  const int status =
      on.run(steps({[](ScriptedThread& t) { create(t, SIGCHLD); }, [](ScriptedThread& t) { set(t, 1, 1); },
                    [](ScriptedThread& t) { sleep(t, 100 * kMs); },
                    [](ScriptedThread& t) { t.call(SYS_timer_gettime, {0, kA}); },
                    [](ScriptedThread& t) {
                      EXPECT_EQ(t.get<itimerspec>(kA).it_interval.tv_nsec, 1);
                      t.call(SYS_getpid);
                    }}));
  EXPECT_EQ(status, 0);
}

TEST(TimersTest, ATimerWithoutASignalOnlyCounts) {
  ScriptedKernel on;
  on.run(steps({[](ScriptedThread& t) {
                  t.put(kA, Event{.value = 0, .signal = 0, .notify = SIGEV_NONE});
                  t.call(SYS_timer_create, {CLOCK_MONOTONIC, kA, kC});
                },
                [](ScriptedThread& t) { set(t, 10 * kMs, 0); }, [](ScriptedThread& t) { sleep(t, 5 * kMs); },
                [](ScriptedThread& t) { t.call(SYS_timer_gettime, {0, kA}); },
                [](ScriptedThread& t) {
                  EXPECT_GT(t.get<itimerspec>(kA).it_value.tv_nsec, 4 * kMs);
                  EXPECT_LT(t.get<itimerspec>(kA).it_value.tv_nsec, 6 * kMs);
                  sleep(t, 10 * kMs);
                },
                [](ScriptedThread& t) { t.call(SYS_timer_gettime, {0, kA}); },
                [](ScriptedThread& t) {
                  EXPECT_EQ(t.get<itimerspec>(kA).it_value.tv_nsec, 0);
                  t.call(SYS_getpid);
                }}));
}

TEST(TimersTest, AnIntervalTimerOfCpuTimeFires) {
  ScriptedKernel on;
  for (const auto& [which, signal] :
       {std::pair(ITIMER_VIRTUAL, SIGVTALRM), std::pair(ITIMER_PROF, SIGPROF)}) {
    int calls = 0;
    const int status = on.run([&, step = 0](ScriptedThread& t) mutable {
      if (step++ == 0) {
        t.put(kA, itimerval{.it_interval = {0, 0}, .it_value = {0, 5000}});
        return t.call(SYS_setitimer, {static_cast<uint64_t>(which), kA, 0});
      }
      ++calls;  // each takes time of the virtual clock
      if (calls < 100'000) t.call(SYS_getpid);
      else t.call(SYS_exit_group, {0});
    });
    EXPECT_EQ(status & 0x7f, signal);
    EXPECT_LT(calls, 100'000);
  }
}

}  // namespace
}  // namespace membrane::linux
