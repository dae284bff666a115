// The system call filters: programs for the kernel's own interpreter (seccomp), which checks each call of the
// worker before it is made. They are assembled here, since they are a list and a few lines: a library
// would take longer to start than the filter takes to write.

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
#include <map>
#include <span>
#include <string>
#include <utility>
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

// The set of system calls differs between processors; a row that this one lacks is left out.
struct Call {
  uint32_t number;
};

// While the worker runs guests.
constexpr Call kRunning[] = {
#define CALL(name) {SYS_##name},
#include "worker/running_calls.def"
#undef CALL
};
// Calls that a C library makes by itself: refused, and nothing more.
constexpr Call kRefused[] = {
#define CALL(name) {SYS_##name},
#include "worker/refused_calls.def"
#undef CALL
};
// While the worker opens what it needs: everything except these.
constexpr Call kNeverCalled[] = {
#define CALL(name) {SYS_##name},
#include "worker/never_calls.def"
#undef CALL
};

// The action for a call, or a check of one of its arguments, which allows it or ends the worker.
struct Rule {
  enum class Look : uint8_t { kNone, kMasked, kNull };
  uint32_t action = SECCOMP_RET_KILL_PROCESS;
  Look look = Look::kNone;
  size_t argument = 0;
  uint32_t mask = 0,
           value = 0;  // kMasked: the lower half of the argument, and-ed with the mask, is the value

  friend bool operator==(const Rule&, const Rule&) = default;
};

// The kernel tests a new filter with every possible call number. So the numbers are looked up by binary
// search: with a list, this alone would take longer than the worker's other walls.
class Filter {
 public:
  explicit Filter(uint32_t otherwise) : otherwise_{.action = otherwise} {}

  void on(uint32_t number, const Rule& rule) { rules_.emplace(number, rule); }

  Status install() const {
    Code code;
    load(offsetof(seccomp_data, arch), code);
    jump(BPF_JEQ, kArchitecture, 1, 0, code);
    give(SECCOMP_RET_KILL_PROCESS, code);
    load(offsetof(seccomp_data, nr), code);
#if defined(__x86_64__)
    constexpr uint32_t kOfOtherKind = 0x40000000;  // x32: the same calls by other numbers
    jump(BPF_JGE, kOfOtherKind, 0, 1, code);
    give(SECCOMP_RET_KILL_PROCESS, code);
#endif
    const Code decisions = decide(ranges());
    code.insert(code.end(), decisions.begin(), decisions.end());
    const sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0) return {};
    return fail(ErrorCode::kUnsupported,
                "the system accepts no system call filter: " + std::string(strerror(errno)),
                "It needs a kernel with CONFIG_SECCOMP_FILTER, and no_new_privs.");
  }

 private:
  using Code = std::vector<sock_filter>;
  using Ranges =
      std::vector<std::pair<uint32_t, Rule>>;  // by the first number of each, ascending; the first is 0

  [[nodiscard]] Ranges ranges() const {
    Ranges all = {{0, otherwise_}};
    const auto begin = [&all](uint32_t number, const Rule& rule) {
      if (all.back().first == number) all.pop_back();
      if (all.empty() || all.back().second != rule) all.emplace_back(number, rule);
    };
    for (const auto& [number, rule] : rules_) {
      begin(number, rule);
      begin(number + 1, otherwise_);
    }
    return all;
  }

  // The lower half of the numbers comes first, and a jump leads to the upper one: a jump skips 255
  // instructions at most, and there are less than twice as many of these.
  static Code decide(std::span<const std::pair<uint32_t, Rule>> ranges) {
    if (ranges.size() == 1) return leaf(ranges.front().second);
    const size_t half = ranges.size() / 2;
    const Code lower = decide(ranges.first(half)), upper = decide(ranges.subspan(half));
    Code code;
    jump(BPF_JGE, ranges[half].first, static_cast<uint8_t>(lower.size()), 0, code);
    code.insert(code.end(), lower.begin(), lower.end());
    code.insert(code.end(), upper.begin(), upper.end());
    return code;
  }
  static Code leaf(const Rule& rule) {
    Code code;
    // Its lower half; the upper one follows, on little-endian processors.
    const auto place = static_cast<uint32_t>(offsetof(seccomp_data, args) + rule.argument * sizeof(uint64_t));
    switch (rule.look) {
      case Rule::Look::kNone: give(rule.action, code); return code;
      case Rule::Look::kMasked:
        load(place, code);
        code.push_back({BPF_ALU | BPF_AND | BPF_K, 0, 0, rule.mask});
        jump(BPF_JEQ, rule.value, 0, 1, code);
        break;
      case Rule::Look::kNull:
        load(place, code);
        jump(BPF_JEQ, 0, 0, 3, code);
        load(place + sizeof(uint32_t), code);
        jump(BPF_JEQ, 0, 0, 1, code);
        break;
    }
    give(SECCOMP_RET_ALLOW, code);
    give(SECCOMP_RET_KILL_PROCESS, code);
    return code;
  }

  static void load(uint32_t at, Code& code) { code.push_back({BPF_LD | BPF_W | BPF_ABS, 0, 0, at}); }
  static void jump(uint16_t how, uint32_t value, uint8_t if_so, uint8_t if_not, Code& code) {
    code.push_back({static_cast<uint16_t>(BPF_JMP | how | BPF_K), if_so, if_not, value});
  }
  static void give(uint32_t action, Code& code) { code.push_back({BPF_RET | BPF_K, 0, 0, action}); }

  const Rule otherwise_;
  std::map<uint32_t, Rule> rules_;
};

}  // namespace

Status allow_setting_up(bool is_zygote) {
  Filter filter(SECCOMP_RET_ALLOW);
  for (const Call& call : kNeverCalled)
    if (!is_zygote || call.number != SYS_setns) filter.on(call.number, {});
  return filter.install();
}

// Executable memory already exists: no more of it is created.
Status allow_running() {
  using enum Rule::Look;
  Filter filter(SECCOMP_RET_KILL_PROCESS);
  for (const Call& call : kRunning) filter.on(call.number, {.action = SECCOMP_RET_ALLOW});
  filter.on(SYS_mmap, {.look = kMasked, .argument = 2, .mask = PROT_EXEC});
  filter.on(SYS_mprotect, {.look = kMasked, .argument = 2, .mask = PROT_EXEC});
  filter.on(SYS_ioctl, {.look = kMasked, .argument = 1, .mask = UINT32_MAX, .value = kScanOfPages});
  filter.on(SYS_prlimit64, {.look = kNull, .argument = 2});
  for (const Call& call : kRefused) filter.on(call.number, {.action = kRefuse});
  return filter.install();
}

}  // namespace membrane::worker
