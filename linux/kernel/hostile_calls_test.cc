// Every system call of the table, with arguments that no real program passes.
#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <random>

#include "linux/kernel/call.h"
#include "linux/kernel/hostile_calls_testing.h"

namespace membrane::linux {
namespace {

std::vector<uint8_t> drawn_bytes(uint64_t seed, size_t size) {
  std::mt19937_64 draws(seed);
  std::vector<uint8_t> bytes(size);
  for (uint8_t& each : bytes) each = static_cast<uint8_t>(draws());
  return bytes;
}

// Or leaves it waiting forever.
bool ends_its_program(uint64_t number) {
  return number == SYS_exit || number == SYS_exit_group || number == SYS_pause || number == SYS_rt_sigreturn;
}

// A program that has a descriptor of each kind makes each call a hundred times.
TEST(HostileCallsTest, EachCallIsAnsweredWhateverItsArguments) {
  for (const uint64_t number : handled_calls()) {
    SCOPED_TRACE(row_of(number)->name);
    const std::vector<uint8_t> bytes = drawn_bytes(number, 6000);
    HostileCalls calls(bytes);
    int made = 0;
    run_hostile(
        [&](ScriptedThread& thread) {
          if (calls.prepare(thread)) return;
          if (made++ == 100 || calls.is_over()) return thread.call(SYS_exit_group, {0});
          calls.call(thread, number);
        },
        number % 2 == 0 ? 0 : 1000);
    EXPECT_GT(made, ends_its_program(number) ? 0 : 100);
  }
}

TEST(HostileCallsTest, AnyCallsOneAfterTheOtherAreAnswered) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(seed);
    const std::vector<uint8_t> bytes = drawn_bytes(seed, 4000);
    HostileCalls calls(bytes);
    run_hostile([&](ScriptedThread& thread) { calls.next(thread); }, seed % 2 == 0 ? 0 : 1000);
  }
}

}  // namespace
}  // namespace membrane::linux
