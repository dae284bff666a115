// The cores that guests run on: one as long as a single guest computes; all when more do.
#include <gtest/gtest.h>
#include <sched.h>

#include <cstdio>
#include <vector>

#include "linux/platform/guest_testing.h"
#include "linux/platform/trap/trap.h"

namespace membrane::linux {
namespace {

using Clock = std::chrono::steady_clock;

GUEST_CODE(computing, "1: jmp 1b");

// The number of processes below this one that may use more than one core.
int with_more_cores() {
  std::FILE* const file = std::fopen("/proc/thread-self/children", "re");
  if (file == nullptr) return 0;
  int count = 0;
  for (int process = 0; std::fscanf(file, "%d", &process) == 1;) {
    cpu_set_t cores;
    if (sched_getaffinity(process, sizeof cores, &cores) == 0) count += CPU_COUNT(&cores) > 1;
  }
  std::fclose(file);
  return count;
}

TEST(TrapSpreadTest, ThreadsThatComputeRunOnAllCores) {
  cpu_set_t cores;
  ASSERT_EQ(sched_getaffinity(0, sizeof cores, &cores), 0);
  if (CPU_COUNT(&cores) < 2) GTEST_SKIP() << "one core";
  auto started = start_trap_platform({});
  ASSERT_TRUE(started) << started.error().to_string();
  const std::unique_ptr<Thread> first = load_guest(**started, code_of(computing));
  first->resume();
  for (int i = 0; i < 5; ++i) (*started)->wait(Clock::now() + std::chrono::milliseconds(20));
  EXPECT_EQ(with_more_cores(), 0);
  const std::unique_ptr<Thread> second = load_guest(**started, code_of(computing));
  second->resume();
  const auto end = Clock::now() + std::chrono::minutes(1);
  while (with_more_cores() < 2 && Clock::now() < end)
    (*started)->wait(Clock::now() + std::chrono::milliseconds(20));
  EXPECT_EQ(with_more_cores(), 2);
}

}  // namespace
}  // namespace membrane::linux
