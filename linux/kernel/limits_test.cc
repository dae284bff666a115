// What the kernel counts for all processes together, and where it stops them.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <array>
#include <vector>

#include "linux/files/anonymous_node.h"
#include "linux/files/descriptors.h"
#include "linux/kernel/scripted_testing.h"

namespace membrane::linux {
namespace {

constexpr uint64_t kA = ScriptedKernel::kScratch;

// The program is killed, since the sandbox exceeds its memory limit.
template <typename Script>
void expect_out_of_memory(uint64_t memory_bytes, Script script) {
  KernelLimits limits;
  limits.memory_bytes = memory_bytes;
  ScriptedKernel on(limits);
  const int status = on.run(std::move(script));
  EXPECT_EQ(status & 0x7f, SIGKILL);
  EXPECT_TRUE(on.kernel->was_out_of_memory());
}

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

// A process can fill shared memory even when it shares it with no other.
TEST(LimitsTest, SharedMemoryCounts) {
  constexpr uint64_t kBytes = 8u << 20;
  uint64_t at = 0;
  expect_out_of_memory(1u << 20, [&, step = 0u](ScriptedThread& t) mutable {
    if (step++ == 0)
      return t.call(SYS_mmap, {0, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, UINT64_MAX, 0});
    if (step == 2) at = t.registers.rax;
    for (uint64_t page = 0; page < kBytes; page += kPage) t.put(at + page, 1);
    t.call(SYS_getpid);
  });
}

// A process may use little memory itself and much in pipes.
TEST(LimitsTest, BytesInPipesCount) {
  expect_out_of_memory(4u << 20, [&, step = 0u](ScriptedThread& t) mutable {
    constexpr uint32_t kWrites = 16, kSteps = kWrites + 2;  // of a pipe
    const uint32_t at = step % kSteps;
    if (step++ / kSteps >= 8) return t.call(SYS_getpid);
    if (at == 0) return t.call(SYS_pipe2, {kA, O_NONBLOCK});
    const int writer = t.get<std::array<int, 2>>(kA)[1];
    if (at == 1) return t.call(SYS_fcntl, {static_cast<uint64_t>(writer), F_SETPIPE_SZ, 1u << 20});
    t.call(SYS_write, {static_cast<uint64_t>(writer), kA, 65536});
  });
}

// A file whose read() ends when the reader's memory cannot be accessed.
class EndlessFile final : public File {
 public:
  [[nodiscard]] const NodeRef& node() const override { return node_; }
  [[nodiscard]] std::string description() const override { return "endless"; }
  Try<size_t> read(Caller& caller, Buffer&) override {
    const std::vector<std::byte> bytes(ScriptedKernel::kScratchBytes);
    while (caller.write_memory(kA, bytes)) {}
    return 0;
  }

 private:
  const NodeRef node_ = make_anonymous_node(AnonymousDevice::kOthers, 0600);
};

TEST(LimitsTest, ALongCallEndsWhenThereIsTooMuchMemory) {
  expect_out_of_memory(1u << 20, [step = 0](ScriptedThread& t) mutable {
    constexpr uint64_t kAt = 0x20000000, kBytes = 4u << 20;
    if (step++ > 0) {
      for (uint64_t page = 0; page < kBytes; page += kPage) t.put(kAt + page, 1);
      return t.call(SYS_read, {9, kA, 1});
    }
    Descriptors& descriptors = *static_cast<Task*>(t.owner)->process->descriptors;
    ASSERT_TRUE(descriptors.add(std::make_shared<EndlessFile>(), false, 10, 9));
    t.call(SYS_mmap,
           {kAt, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, UINT64_MAX, 0});
  });
}

TEST(LimitsTest, MappingsCount) {
  constexpr uint64_t kFirst = 0x20000000, kMost = 60000;
  expect_out_of_memory(4u << 20, [&, step = uint64_t{0}](ScriptedThread& t) mutable {
    if (step++ >= kMost) return t.call(SYS_getpid);
    const uint64_t protection = step % 2 == 0 ? PROT_READ : PROT_NONE;
    t.call(SYS_mmap, {kFirst + step * kPage, kPage, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
                      UINT64_MAX, 0});
  });
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

TEST(LimitsTest, ALinkIsNotADirectory) {
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
