#include "linux/platform/choice.h"

#include <cpuid.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "linux/platform/kvm/kvm.h"
#include "linux/platform/platform.h"

namespace membrane::linux {
namespace {

using Clock = std::chrono::steady_clock;

// 1: mov $39, %eax; syscall; jmp 1b
constexpr std::array<unsigned char, 9> kCalls = {0xb8, 39, 0, 0, 0, 0x0f, 0x05, 0xeb, 0xf7};
constexpr uint64_t kCodeAt = 0x400000;
constexpr int kRounds = 5, kCallsInRound = 20;
constexpr std::chrono::seconds kPatience{5};

bool call_once(Platform& platform, Thread& thread) {
  thread.resume();
  return platform.wait(Clock::now() + kPatience) == &thread && thread.stop.kind == StopKind::kSystemCall;
}

// Microseconds of a call, in the best round; 0: no guest runs.
double measure(Platform& platform) {
  const auto thread = platform.start();
  if (!thread) return 0;
  Space& space = *(*thread)->space();
  space.map(kCodeAt, 4096, PROT_READ | PROT_EXEC, {});
  if (space.poke(kCodeAt, std::as_bytes(std::span(kCalls))) != kCalls.size()) return 0;
  (*thread)->registers.rip = kCodeAt;
  double best = 0;
  for (int round = 0; round < kRounds; ++round) {
    const Clock::time_point before = Clock::now();
    for (int call = 0; call < kCallsInRound; ++call)
      if (!call_once(platform, **thread)) return 0;
    const std::chrono::duration<double, std::micro> took = Clock::now() - before;
    const double each = took.count() / kCallsInRound;
    if (best == 0 || each < best) best = each;
  }
  return best;
}

PlatformDescription describe(const char* name, const Result<std::unique_ptr<Platform>>& started) {
  PlatformDescription about = {.name = name, .why_not = {}, .reason = {}};
  if (!started) {
    about.why_not = started.error().to_string();
    return about;
  }
  about.call_us = measure(**started);
  about.is_usable = about.call_us > 0;
  if (!about.is_usable) about.why_not = "a test guest does not run on it";
  return about;
}

// Without hardware virtualization, another machine's KVM emulates what the processor would do.
bool has_machines() {
  constexpr unsigned kVmx = 1u << 5, kSvm = 1u << 2;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) != 0 && (c & kVmx) != 0) return true;
  return __get_cpuid(0x80000001, &a, &b, &c, &d) != 0 && (c & kSvm) != 0;
}

std::string choose() {
  if (!has_machines() || !open_kvm_device()) return "trap";
  for (const PlatformDescription& each : describe_platforms())
    if (each.is_chosen) return each.name;
  return "trap";
}

}  // namespace

std::vector<PlatformDescription> describe_platforms() {
  std::vector<PlatformDescription> all;
  all.push_back(describe("trap", start_trap_platform({})));
  all.push_back(describe("kvm", start_kvm_platform({})));
  PlatformDescription& trap = all.front();
  PlatformDescription& kvm = all.back();
  const bool is_kvm = kvm.is_usable && (!trap.is_usable || (has_machines() && kvm.call_us < trap.call_us));
  PlatformDescription& chosen = is_kvm ? kvm : trap;
  chosen.is_chosen = chosen.is_usable;
  if (!chosen.is_usable) return all;
  if (!kvm.is_usable) chosen.reason = "/dev/kvm cannot be used";
  else if (!trap.is_usable) chosen.reason = "the other platform cannot be used";
  else if (!has_machines())
    chosen.reason = "the processor has no hardware virtualization, so /dev/kvm is emulated";
  else chosen.reason = "its system calls are faster";
  return all;
}

const std::string& fastest_platform() {
  static const std::string name = choose();
  return name;
}

}  // namespace membrane::linux
