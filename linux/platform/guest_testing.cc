#include "linux/platform/guest_testing.h"

namespace membrane::linux {

Result<std::unique_ptr<Platform>> start_platform(std::string_view name) {
  return name == "kvm" ? start_kvm_platform({}) : start_trap_platform({});
}

std::unique_ptr<Thread> load_guest(Platform& platform, std::span<const std::byte> code) {
  Try<std::unique_ptr<Thread>> thread = platform.start();
  if (!thread) return nullptr;
  Space& space = *(*thread)->space();
  const uint64_t length = (code.size() + 4095) / 4096 * 4096;
  space.map(kCodeAt, length, PROT_READ | PROT_EXEC, {});
  space.map(kStackAt, kStackBytes, PROT_READ | PROT_WRITE, {});
  space.map(kDataAt, 4096, PROT_READ | PROT_WRITE, {});
  if (space.poke(kCodeAt, code) != code.size()) return nullptr;
  (*thread)->registers.rip = kCodeAt;
  (*thread)->registers.rsp = kStackAt + kStackBytes / 2;
  return std::move(*thread);
}

Thread* wait_long(Platform& platform) {
  return platform.wait(std::chrono::steady_clock::now() + std::chrono::minutes(5));
}

Thread* run_guest(Platform& platform, Thread& thread) {
  thread.resume();
  return wait_long(platform);
}

void answer(Thread& thread, uint64_t value) { thread.registers.rax = value; }

}  // namespace membrane::linux
