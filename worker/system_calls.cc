// The filters of system calls: programs for the kernel's own interpreter (seccomp), which looks at each call of the worker
// before it is made. They are assembled here, since all of it is a list and a few lines: a library would take longer to
// start than the filter takes to write.

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "worker/walls.h"

namespace membrane::worker {
namespace {

#if defined(__x86_64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
#error "name this processor's system calls"
#endif

constexpr uint32_t kRefuse = SECCOMP_RET_ERRNO | EACCES;
constexpr uint32_t kScanOfPages = _IOWR('f', 16, char[96]);  // PAGEMAP_SCAN

// What there is of system calls differs between processors; a row that this one lacks is left out.
struct Call {
  uint32_t number;
};

// While the worker runs guests. In the order of how often each is made.
constexpr Call kRunning[] = {
#define CALL(name) {SYS_##name},
#include "worker/running_calls.def"
#undef CALL
};
// What a C library looks up by itself: refused, and nothing more.
constexpr Call kRefused[] = {
#define CALL(name) {SYS_##name},
#include "worker/refused_calls.def"
#undef CALL
};
// While the worker opens what it needs: everything but these.
constexpr Call kNeverCalled[] = {
#define CALL(name) {SYS_##name},
#include "worker/never_calls.def"
#undef CALL
};

class Filter {
 public:
  Filter() {
    load(offsetof(seccomp_data, arch));
    jump(BPF_JEQ, kArchitecture, 1, 0);
    give(SECCOMP_RET_KILL_PROCESS);
    load(offsetof(seccomp_data, nr));
#if defined(__x86_64__)
    constexpr uint32_t kOfOtherKind = 0x40000000;  // x32: the same calls by other numbers
    jump(BPF_JGE, kOfOtherKind, 0, 1);
    give(SECCOMP_RET_KILL_PROCESS);
#endif
  }

  void on(uint32_t number, uint32_t action) {
    jump(BPF_JEQ, number, 0, 1);
    give(action);
  }
  // Allowed when the lower half of the argument, and-ed with `mask`, is `value`; else the worker ends.
  void on_argument(uint32_t number, size_t argument, uint32_t mask, uint32_t value) {
    jump(BPF_JEQ, number, 0, 6);
    load(place_of(argument));
    code_.push_back({BPF_ALU | BPF_AND | BPF_K, 0, 0, mask});
    jump(BPF_JEQ, value, 0, 1);
    give(SECCOMP_RET_ALLOW);
    give(SECCOMP_RET_KILL_PROCESS);
    load(offsetof(seccomp_data, nr));  // never reached; keeps the jump above within one rule
  }

  // Allowed when the argument, an address, is null; else the worker ends.
  void on_null(uint32_t number, size_t argument) {
    jump(BPF_JEQ, number, 0, 6);
    load(place_of(argument));
    jump(BPF_JEQ, 0, 0, 3);
    load(place_of(argument) + sizeof(uint32_t));
    jump(BPF_JEQ, 0, 0, 1);
    give(SECCOMP_RET_ALLOW);
    give(SECCOMP_RET_KILL_PROCESS);
  }

  Status install(uint32_t otherwise) {
    give(otherwise);
    const sock_fprog program{static_cast<unsigned short>(code_.size()), code_.data()};
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0) return {};
    return fail(ErrorCode::kUnsupported,
                "the system takes no filter of system calls: " + std::string(strerror(errno)),
                "It needs a kernel with CONFIG_SECCOMP_FILTER, and no_new_privs.");
  }

 private:
  // Its lower half; the upper one follows, on processors whose first byte is the lowest.
  static uint32_t place_of(size_t argument) {
    return static_cast<uint32_t>(offsetof(seccomp_data, args) + argument * sizeof(uint64_t));
  }
  void load(uint32_t at) { code_.push_back({BPF_LD | BPF_W | BPF_ABS, 0, 0, at}); }
  void jump(uint16_t how, uint32_t value, uint8_t if_so, uint8_t if_not) {
    code_.push_back({static_cast<uint16_t>(BPF_JMP | how | BPF_K), if_so, if_not, value});
  }
  void give(uint32_t action) { code_.push_back({BPF_RET | BPF_K, 0, 0, action}); }

  std::vector<sock_filter> code_;
};

}  // namespace

Status allow_setting_up() {
  Filter filter;
  for (const Call& call : kNeverCalled) filter.on(call.number, SECCOMP_RET_KILL_PROCESS);
  return filter.install(SECCOMP_RET_ALLOW);
}

// Memory that can be run is there already: no more of it is made.
Status allow_running() {
  Filter filter;
  for (const Call& call : kRunning) filter.on(call.number, SECCOMP_RET_ALLOW);
  filter.on_argument(SYS_mmap, 2, PROT_EXEC, 0);
  filter.on_argument(SYS_mprotect, 2, PROT_EXEC, 0);
  filter.on_argument(SYS_ioctl, 1, UINT32_MAX, kScanOfPages);
  filter.on_null(SYS_prlimit64, 2);
  for (const Call& call : kRefused) filter.on(call.number, kRefuse);
  return filter.install(SECCOMP_RET_KILL_PROCESS);
}

}  // namespace membrane::worker
