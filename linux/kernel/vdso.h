// The vdso of guest programs (vdso/vdso.c): a page of code with which they read clocks without a system call,
// and a page of data for it. Both are an immutable memory file, of which each program has a private mapping.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

#include "linux/abi/answer.h"
#include "linux/platform/trap/host_file.h"

namespace membrane::linux {

class Memory;

// An ELF file; empty on machines other than x86-64.
extern const std::string_view kVdsoImage;

class Vdso {
 public:
  // `clock_gettime` as in Platform::clock_function(), `ahead` as in GuestClock::ahead().
  Vdso(uint64_t clock_gettime, std::chrono::nanoseconds ahead);

  // Maps it, and returns the address of its image for AT_SYSINFO_EHDR; 0: there is none. Errors: ENOMEM.
  [[nodiscard]] Try<uint64_t> map(Memory& memory) const;
  // Points the mappings (named "[vdso]") of a program that another kernel process started at this process's
  // clock.
  Done renew(Memory& memory) const;

 private:
  HostFile file_;
};

}  // namespace membrane::linux
