// What the kernel counts for all processes together, and where it stops.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>

#include "linux/kernel/scripted_testing.h"

namespace membrane::linux {
namespace {

constexpr uint64_t kA = ScriptedKernel::kScratch;

TEST(LimitsTest, NoMoreFilesAreOpenThanTheSandboxMayHave) {
  KernelLimits limits;
  limits.most_files = File::alive() + 50;
  ScriptedKernel on(limits);
  int64_t last = 0;
  int opened = 0;
  on.run([&, is_first = true](ScriptedThread& t) mutable {
    if (!std::exchange(is_first, false)) {
      last = t.result();
      if (last < 0 || ++opened > 1000) return t.call(SYS_exit_group, {0});
    }
    t.call(SYS_eventfd2, {0, 0});
  });
  EXPECT_EQ(last, -ENFILE);
  EXPECT_LE(opened, 50);
}

// A process that shares memory with nobody may fill it all the same.
TEST(LimitsTest, SharedMemoryCounts) {
  KernelLimits limits;
  limits.memory_bytes = 1u << 20;
  ScriptedKernel on(limits);
  constexpr uint64_t kBytes = 8u << 20;
  uint64_t at = 0;
  const int status = on.run([&, step = 0u](ScriptedThread& t) mutable {
    if (step++ == 0)
      return t.call(SYS_mmap, {0, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, UINT64_MAX, 0});
    if (step == 2) at = t.registers.rax;
    for (uint64_t page = 0; page < kBytes; page += kPage) t.put(at + page, 1);
    t.call(SYS_getpid);
  });
  EXPECT_EQ(status & 0x7f, SIGKILL);
  EXPECT_TRUE(on.kernel->was_out_of_memory());
}

TEST(LimitsTest, NoMoreTasksThanAllowedAndThatIsCounted) {
  KernelLimits limits;
  limits.most_tasks = 1;
  ScriptedKernel on(limits);
  on.run(steps({[](ScriptedThread& t) { t.call(SYS_fork); },
                [](ScriptedThread& t) {
                  EXPECT_EQ(t.result(), -EAGAIN);
                  t.call(SYS_exit_group, {0});
                }}));
  EXPECT_EQ(on.kernel->limits_reached(), (LimitsReached{.tasks = 1}));
}

TEST(LimitsTest, ALinkIsNoDirectory) {
  ScriptedKernel on;
  on.run(steps({[](ScriptedThread& t) {
                  t.put_text(kA, "/tmp");
                  t.put_text(kA + 64, "/link");
                  t.call(SYS_symlink, {kA, kA + 64});
                },
                [](ScriptedThread& t) { t.call(SYS_open, {kA + 64, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0}); },
                [](ScriptedThread& t) {
                  EXPECT_EQ(t.result(), -ENOTDIR);
                  t.call(SYS_open, {kA + 64, O_PATH | O_NOFOLLOW, 0});
                },
                [](ScriptedThread& t) {
                  EXPECT_GE(t.result(), 0);
                  t.call(SYS_getpid);
                }}));
}

}  // namespace
}  // namespace membrane::linux
