// System calls of a hostile program, one after another: any call, with arbitrary arguments and memory.
#include "linux/kernel/hostile_calls_testing.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace membrane::linux;
  if (size == 0) return 0;
  HostileCalls calls(std::span(data, size).subspan(1));
  run_hostile([&](ScriptedThread& thread) { calls.next(thread); }, data[0] % 2 == 0 ? 0 : 1000);
  return 0;
}
