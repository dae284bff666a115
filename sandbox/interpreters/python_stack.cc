#include "sandbox/interpreters/python_stack.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "sandbox/interpreters/python_memory.h"

namespace membrane::sandbox {
namespace {

// _PyThreadStateImpl's c_stack_top, c_stack_soft_limit and c_stack_hard_limit: addresses, since the stack grows down.
struct StackLimits {
  uint32_t top = 0, soft = 0, hard = 0;
};

// The debuggers' offsets do not have them, but nothing else in a thread's state looks like them.
std::optional<uint32_t> find_limits(std::span<const uint8_t> memory, uint32_t thread) {
  constexpr uint32_t kMostBytes = 4096, kLeastStack = 32u << 10, kMostStack = 512u << 10;
  for (uint32_t at = thread; at - thread < kMostBytes && at + sizeof(StackLimits) <= memory.size();
       at += sizeof(uint32_t)) {
    StackLimits limits;
    std::memcpy(&limits, memory.data() + at, sizeof limits);
    const bool descends = limits.top > limits.soft && limits.soft > limits.hard;
    const uint32_t bytes = limits.top - limits.hard;
    if (descends && bytes >= kLeastStack && bytes <= kMostStack && limits.top <= memory.size()) return at;
  }
  return std::nullopt;
}

}  // namespace

void widen_python_stack(std::span<uint8_t> memory, uint32_t runtime) {
  if (runtime == 0) return;
  const PythonMemory python(memory, runtime);
  const uint32_t interpreter = python.field(runtime, kFirstInterpreter);
  const uint32_t thread = python.field(interpreter, kFirstThread);
  const auto at = find_limits(memory, thread);
  if (thread == 0 || !at) return;
  StackLimits limits;
  std::memcpy(&limits, memory.data() + *at, sizeof limits);
  // WebAssembly's locals are not in this stack: a megabyte is as deep as the eight of Linux.
  constexpr uint32_t kStackBytes = 1u << 20;
  if (limits.top < 2 * kStackBytes) return;
  const uint32_t hard = limits.top - kStackBytes;
  // Where the stack is at the beginning of the memory, nothing was ever written below what has been used.
  const auto below = memory.first(hard);
  if (!std::ranges::all_of(below, [](uint8_t byte) { return byte == 0; })) return;
  limits.soft = hard + (limits.soft - limits.hard);
  limits.hard = hard;
  std::memcpy(memory.data() + *at, &limits, sizeof limits);
}

}  // namespace membrane::sandbox
