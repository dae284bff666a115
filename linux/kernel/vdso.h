// The vdso of guest programs (vdso/vdso.c): a page of code by which they read clocks without a system call, and a page that
// tells it how. Both are a file in memory that cannot be changed, of which each program has a private mapping.
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
  // `clock_gettime` as Platform::clock_function() has it, `ahead` as GuestClock::ahead().
  Vdso(uint64_t clock_gettime, std::chrono::nanoseconds ahead);

  // Where its image is mapped then, for AT_SYSINFO_EHDR; 0: there is none. Errors: ENOMEM.
  [[nodiscard]] Try<uint64_t> map(Memory& memory) const;
  // The mappings of a program that another kernel process has started (they are named "[vdso]") tell this one's clock.
  Done renew(Memory& memory) const;

 private:
  HostFile file_;
};

}  // namespace membrane::linux
