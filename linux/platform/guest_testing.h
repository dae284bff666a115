// Small guests for the tests of platforms: machine code at a fixed address, a stack, and a kernel that only
// runs them.
#pragma once

#include <sys/mman.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "linux/platform/platform.h"

namespace membrane::linux {

inline constexpr uint64_t kCodeAt = 0x400000, kStackAt = 0x700000, kStackBytes = 0x10000, kDataAt = 0x800000;

// Machine code that is assembled into the test: GUEST_CODE(name, "text") and then code_of(name).
#define GUEST_CODE(name, text)                                                                     \
  asm(".pushsection .rodata\n.globl guest_" #name ", guest_end_" #name "\nguest_" #name ":\n" text \
      "\nguest_end_" #name ":\n.popsection\n");                                                    \
  extern "C" const std::byte guest_##name[], guest_end_##name[]
#define code_of(name) std::span(guest_##name, static_cast<size_t>(guest_end_##name - guest_##name))

// "trap" or "kvm". Errors: kUnsupported, as the platforms return it.
Result<std::unique_ptr<Platform>> start_platform(std::string_view name);
// A new thread at the start of that code, with a stack and a page of data; nullptr when it cannot be created.
std::unique_ptr<Thread> load_guest(Platform& platform, std::span<const std::byte> code);
// Resumes it and waits, as long as a slow machine needs, until a thread stops; nullptr when none did.
Thread* run_guest(Platform& platform, Thread& thread);
Thread* wait_long(Platform& platform);
// Answers a call as the kernel does.
void answer(Thread& thread, uint64_t value);

template <typename T>
T peek(Thread& thread, uint64_t address) {
  T value{};
  if (thread.space()->read(address, std::as_writable_bytes(std::span(&value, 1))) != sizeof value) return T{};
  return value;
}

}  // namespace membrane::linux
