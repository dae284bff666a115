// What programs ask about users, limits and the machine's name.
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>

#include <array>

#include "linux/kernel/scripted_testing.h"

namespace membrane::linux {
namespace {

constexpr uint64_t kA = ScriptedKernel::kScratch, kB = kA + 256;
constexpr uint64_t kAll = Capabilities::kAll;

using Step = std::function<void(ScriptedThread&)>;

// The calls in order, each with its expected answer.
struct Expected {
  Step call;
  int64_t answer;
};
std::function<void(ScriptedThread&)> expecting(std::vector<Expected> all) {
  return [all = std::move(all), next = size_t{0}](ScriptedThread& t) mutable {
    if (next > 0) {
      EXPECT_EQ(t.result(), all[next - 1].answer) << "call " << next - 1;
    }
    if (next == all.size()) return t.call(SYS_exit_group, {0});
    all[next++].call(t);
  };
}

Step call(uint64_t number, std::initializer_list<uint64_t> arguments) {
  return [number, all = std::vector<uint64_t>(arguments)](ScriptedThread& t) {
    const auto at = [&](size_t i) { return i < all.size() ? all[i] : 0; };
    t.call(number, {at(0), at(1), at(2), at(3), at(4)});
  };
}

Step set_capabilities(uint64_t effective, uint64_t permitted) {
  return [=](ScriptedThread& t) {
    t.put(kA, std::array<uint32_t, 2>{_LINUX_CAPABILITY_VERSION_3, 0});
    t.put(kB, std::array<uint32_t, 6>{static_cast<uint32_t>(effective), static_cast<uint32_t>(permitted), 0,
                                      static_cast<uint32_t>(effective >> 32),
                                      static_cast<uint32_t>(permitted >> 32), 0});
    t.call(SYS_capset, {kA, kB});
  };
}

Step expect_capabilities(uint64_t effective, uint64_t permitted) {
  return [=](ScriptedThread& t) {
    const auto words = t.get<std::array<uint32_t, 6>>(kB);
    EXPECT_EQ(words[0] | uint64_t{words[3]} << 32, effective);
    EXPECT_EQ(words[1] | uint64_t{words[4]} << 32, permitted);
    t.call(SYS_getpid);
  };
}

Step get_capabilities() {
  return [](ScriptedThread& t) {
    t.put(kA, std::array<uint32_t, 2>{_LINUX_CAPABILITY_VERSION_3, 0});
    t.call(SYS_capget, {kA, kB});
  };
}

TEST(Capabilities, GoWithTheSuperuserUnlessTheyAreKept) {
  ScriptedKernel lost;
  lost.run(expecting({{call(SYS_setresuid, {1, 1, 1}), 0},
                      {get_capabilities(), 0},
                      {expect_capabilities(0, 0), 1},
                      {set_capabilities(1, 1), -EPERM},
                      {call(SYS_setresuid, {0, 0, 0}), -EPERM}}));
  ScriptedKernel kept;
  kept.run(expecting({{call(SYS_prctl, {PR_SET_KEEPCAPS, 2}), -EINVAL},
                      {call(SYS_prctl, {PR_SET_KEEPCAPS, 1}), 0},
                      {call(SYS_prctl, {PR_GET_KEEPCAPS}), 1},
                      {call(SYS_prctl, {PR_GET_SECUREBITS}), SECBIT_KEEP_CAPS},
                      {call(SYS_setresuid, {1, 1, 1}), 0},
                      {get_capabilities(), 0},
                      {expect_capabilities(0, kAll), 1},
                      {call(SYS_setgroups, {0, 0}), -EPERM},
                      {set_capabilities(kAll, kAll), 0},
                      {call(SYS_setgroups, {0, 0}), 0},
                      {call(SYS_setresgid, {5, 5, 5}), 0},
                      {set_capabilities(0, 0), 0},
                      {set_capabilities(1, 1), -EPERM},
                      {call(SYS_setgroups, {0, 0}), -EPERM}}));
}

TEST(Capabilities, ArePartsOfPrctl) {
  ScriptedKernel on;
  on.run(expecting({{call(SYS_prctl, {PR_CAPBSET_READ, CAP_LAST_CAP}), 1},
                    {call(SYS_prctl, {PR_CAPBSET_READ, CAP_LAST_CAP + 1}), -EINVAL},
                    {call(SYS_prctl, {PR_CAPBSET_DROP, 64}), -EINVAL},
                    {call(SYS_prctl, {PR_CAPBSET_DROP, CAP_SYS_ADMIN}), 0},
                    {call(SYS_prctl, {PR_CAPBSET_READ, CAP_SYS_ADMIN}), 0},
                    {call(SYS_prctl, {PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, 1}), 0},
                    {call(SYS_prctl, {PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, 1}), -EPERM},
                    {call(SYS_prctl, {PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, 64}), -EINVAL},
                    {call(SYS_prctl, {PR_SET_SECUREBITS, 1u << 20}), -EPERM},
                    {call(SYS_prctl, {PR_SET_SECUREBITS, SECBIT_KEEP_CAPS_LOCKED}), 0},
                    {call(SYS_prctl, {PR_SET_KEEPCAPS, 1}), -EPERM},
                    {call(SYS_prctl, {PR_SET_SECUREBITS, 0}), -EPERM}}));
}

TEST(Limits, OfOpenFilesAreRaisedByTheSuperuser) {
  const auto set = [](uint64_t soft, uint64_t hard) {
    return [=](ScriptedThread& t) {
      t.put(kA, rlimit{soft, hard});
      t.call(SYS_setrlimit, {RLIMIT_NOFILE, kA});
    };
  };
  ScriptedKernel on;
  on.run(expecting({{set(1u << 20, 1u << 20), 0},
                    {set(1, (1u << 20) + 1), -EPERM},
                    {call(SYS_eventfd2, {0, 0}), 0},
                    {call(SYS_dup2, {0, 70'000}), 70'000},
                    {set(100, 100), 0},
                    {call(SYS_dup2, {0, 100}), -EBADF},
                    {call(SYS_setresuid, {1, 1, 1}), 0},
                    {set(101, 101), -EPERM}}));
}

TEST(Limits, OfPendingSignalsAreToldToWhoQueuesMore) {
  const Step queue = [](ScriptedThread& t) {
    siginfo_t info = {};
    info.si_code = SI_QUEUE;
    t.put(kA, info);
    t.call(SYS_rt_sigqueueinfo, {1, static_cast<uint64_t>(SIGRTMIN), kA});
  };
  const Step block_all = [](ScriptedThread& t) {
    t.put(kA, ~uint64_t{0});
    t.call(SYS_rt_sigprocmask, {SIG_BLOCK, kA, 0, 8});
  };
  const Step limit = [](ScriptedThread& t) {
    t.put(kA, rlimit{2, 2});
    t.call(SYS_setrlimit, {RLIMIT_SIGPENDING, kA});
  };
  ScriptedKernel on;
  uint64_t pending = 0;
  on.run(expecting({{block_all, 0},
                    {limit, 0},
                    {queue, 0},
                    {queue, 0},
                    {queue, -EAGAIN},
                    {call(SYS_kill, {1, static_cast<uint64_t>(SIGRTMIN) + 1}), 0},
                    {call(SYS_kill, {1, SIGTERM}), 0},
                    {call(SYS_rt_sigpending, {kB, 8}), 0},
                    {[&](ScriptedThread& t) {
                       pending = t.get<uint64_t>(kB);
                       t.call(SYS_getpid);
                     },
                     1}}));
  EXPECT_EQ(pending, bit_of(SIGTERM) | bit_of(SIGRTMIN) | bit_of(SIGRTMIN + 1));
}

TEST(Schedulers, AreReadBack) {
  ScriptedKernel on;
  on.run(expecting({{[](ScriptedThread& t) {
                       t.put(kA, int32_t{0});
                       t.call(SYS_sched_setscheduler, {0, SCHED_BATCH, kA});
                     },
                     0},
                    {call(SYS_sched_getscheduler, {0}), SCHED_BATCH},
                    {call(SYS_sched_setscheduler, {0, SCHED_IDLE, 0}), -EFAULT},
                    {call(SYS_sched_setscheduler, {0, 99, kA}), -EINVAL},
                    {call(SYS_sched_setscheduler, {0, SCHED_IDLE, kA}), 0},
                    {call(SYS_sched_getscheduler, {0}), SCHED_IDLE}}));
}

TEST(Names, OfTheMachineAreSetByTheSuperuser) {
  ScriptedKernel on;
  on.run(expecting({{[](ScriptedThread& t) {
                       t.put_text(kA, "box");
                       t.call(SYS_sethostname, {kA, 3});
                     },
                     0},
                    {call(SYS_sethostname, {kA, 65}), -EINVAL},
                    {call(SYS_sethostname, {kA, UINT64_MAX}), -EINVAL},
                    {call(SYS_uname, {kB}), 0},
                    {[](ScriptedThread& t) {
                       EXPECT_STREQ(t.get<utsname>(kB).nodename, "box");
                       t.call(SYS_setresuid, {1, 1, 1});
                     },
                     0},
                    {call(SYS_sethostname, {kA, 3}), -EPERM}}));
}

}  // namespace
}  // namespace membrane::linux
